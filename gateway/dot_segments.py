"""Dot segments, seen as the most lenient reader behind us might see them.

One reading for what callers send and for what fills a template: where two differ, one lets through what the other stops.
"""

import re
from typing import Final
from urllib.parse import unquote

_SEPARATOR: Final = re.compile(r"/|\\|%2f|%5c", re.IGNORECASE)


def has_dot_segment(path: str) -> bool:
    """Whether a segment is ``.`` or ``..`` after one percent-decoding, with encoded and backward slashes as separators.

    What follows ``;`` in a segment does not count, since some servers drop it (RFC 3986 §3.3).
    """
    if "." not in path and "%2" not in path:
        return False
    return any(unquote(segment).partition(";")[0] in {".", ".."} for segment in _SEPARATOR.split(path))
