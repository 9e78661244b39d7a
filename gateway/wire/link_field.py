"""Reads a Link field (RFC 8288 §3) in one pass, whatever a provider writes there."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

# Every alternative also matches up to the end of the field where its closing character is missing. The next search then
# begins behind it; otherwise each `<` or `"` would be searched to the end, and the time would grow with the square.
_PIECE: Final = re.compile(
    r'<(?P<target>[^>]++)(?:>(?P<params>(?:[^,"<]++|"(?:[^"\\]++|\\.)*+")*+)|\Z)'
    r'|"(?:[^"\\]++|\\.)*+(?:"|(?P<open>\\?+\Z))',
    re.DOTALL,
)
# Behind a quote that is never closed, quotes mean nothing.
_PIECE_BEHIND: Final = re.compile(r'<(?P<target>[^>]++)(?:>(?P<params>[^,"<]*+)|\Z)')


class LinkValue(NamedTuple):
    """One link-value: its target is ``value[start:end]``, `params` is the text behind it up to the next link."""

    start: int
    end: int
    params: str


def links_in(value: str) -> Iterator[LinkValue]:
    """All links of a Link field. A `<` within a quoted text begins no link."""
    behind: int | None = None
    for found in _PIECE.finditer(value):
        if found["params"] is not None:
            yield LinkValue(*found.span("target"), found["params"])
        elif found["open"] is not None:
            behind = found.start() + 1
    if behind is not None:
        for found in _PIECE_BEHIND.finditer(value, behind):
            if found["params"] is not None:
                yield LinkValue(*found.span("target"), found["params"])
