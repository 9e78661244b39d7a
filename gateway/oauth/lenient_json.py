"""Reads the JSON of a token answer. Nothing odd beside its tokens may make it unreadable: they exist nowhere else."""

import json
import re
from typing import Any, Final

DEEPEST: Final = 32  # levels of arrays and objects that are kept; all below counts as null
LONGEST_INTEGER: Final = 100  # digits

# An unclosed string matches to the end, so that no second quote is searched from there.
_BRACKET_OR_STRING: Final = re.compile(r'[\[\]{}]|"(?:[^"\\]++|\\.)*+(?:"|\\?+\Z)', re.DOTALL)


def parse(body: bytes) -> Any:
    """The value in `body`. Raises ValueError where it is no JSON.

    Numbers that no float holds, NaN, infinities and what lies too deep are null. Bytes that are no UTF-8 are replaced.
    """
    text = body.decode(json.detect_encoding(body), "replace")
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        value = _DECODER.decode(_without_depths(text))
    return _pruned(value, DEEPEST)


def _integer(text: str) -> int | None:
    return int(text) if len(text) <= LONGEST_INTEGER else None


def _number(text: str) -> float | None:
    number = float(text)
    return number if abs(number) != float("inf") else None


_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_float=_number, parse_constant=lambda _: None, strict=False)


def _pruned(value: Any, levels: int) -> Any:
    if isinstance(value, dict):
        return {name: _pruned(inner, levels - 1) for name, inner in value.items()} if levels else None
    if isinstance(value, list):
        return [_pruned(inner, levels - 1) for inner in value] if levels else None
    return value


def _without_depths(text: str) -> str:
    """`text` with null in place of each array or object below `DEEPEST` levels."""
    kept: list[str] = []
    depth = at = 0
    for found in _BRACKET_OR_STRING.finditer(text):
        bracket = found[0]
        if bracket in ("[", "{"):
            depth += 1
            if depth == DEEPEST + 1:
                kept += (text[at : found.start()], "null")
        elif bracket in ("]", "}"):
            if depth == DEEPEST + 1:
                at = found.end()
            depth -= 1
    return "".join(kept) + text[at:] if depth <= DEEPEST else "".join(kept)
