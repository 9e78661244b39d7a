"""Parses and writes JSON by pydantic-core, several times faster than the standard library. Rare values go
to the standard library.
"""

import json
from typing import Any, Final

from pydantic_core import from_json, to_json

ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def parse_json(body: bytes) -> Any:
    """Parse JSON as `json.loads` does. Raises ValueError and RecursionError.

    A lone surrogate becomes a question mark, because the gateway's responses must be valid UTF-8.
    """
    try:
        return from_json(body, allow_inf_nan=False, cache_strings="none")
    except ValueError:  # invalid, or accepted only by the standard library: a lone surrogate, deep nesting, UTF-16
        document = json.loads(body)
    if b"\\ud" in body or b"\\uD" in body:
        document = json.loads(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))
    return document


def compact_json(value: Any) -> bytes:
    """Return a parsed JSON value as JSON without spaces. A lone surrogate becomes a question mark.

    Raises ValueError for NaN and infinite numbers, and RecursionError.
    """
    try:
        text = to_json(value)
    except ValueError:  # a lone surrogate, or deep nesting
        pass
    else:
        # to_json writes Infinity and NaN; a string can have the words too. The search for one byte is much faster.
        if not ((b"I" in text and b"Infinity" in text) or (b"N" in text and b"NaN" in text)):
            return text
    return ENCODER.encode(value).encode("utf-8", "replace")
