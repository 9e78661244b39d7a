"""Limits how deep JSON values nest: Python code that walks a value deeper than its stack fails, or takes seconds."""

import json
import re
from typing import Any, Final

MOST_LEVELS: Final = 64
"""Levels of arrays and objects in a value that a caller may send."""
MOST_STORED_LEVELS: Final = 128
"""Levels that are read of a stored value; deeper ones, of earlier versions, become null."""

# An unclosed string matches to the end of the text, so that the regex does not search it again from inside.
_BRACKET_OR_STRING: Final = re.compile(r'[\[\]{}]|"(?:[^"\\]++|\\.)*+(?:"|\\?+\Z)', re.DOTALL)


def nested_deeper(value: Any, levels: int) -> bool:
    """Return whether arrays and objects nest more than `levels` deep."""
    layer = [value] if isinstance(value, (dict, list)) else []
    for _ in range(levels):
        layer = [
            inner
            for outer in layer
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not layer:
            return False
    return bool(layer)


def pruned(value: Any, levels: int) -> Any:
    """Return `value` with null in place of each array or object below `levels` levels."""
    if isinstance(value, dict):
        return {name: pruned(inner, levels - 1) for name, inner in value.items()} if levels else None
    if isinstance(value, list):
        return [pruned(inner, levels - 1) for inner in value] if levels else None
    return value


def pruned_text(text: str, levels: int) -> str:
    """Return the JSON `text` with null in place of each array or object below `levels` levels."""
    kept: list[str] = []
    depth = at = 0
    for found in _BRACKET_OR_STRING.finditer(text):
        bracket = found[0]
        if bracket in ("[", "{"):
            depth += 1
            if depth == levels + 1:
                kept += (text[at : found.start()], "null")
        elif bracket in ("]", "}"):
            if depth == levels + 1:
                at = found.end()
            depth -= 1
    return "".join(kept) + text[at:] if depth <= levels else "".join(kept)


def read_stored(text: Any) -> Any:
    """Parse a stored JSON text, of at most `MOST_STORED_LEVELS` levels. Raises ValueError, and TypeError for a number,
    as SQLite returns for a text of digits."""
    if isinstance(text, str) and text.count("{") + text.count("[") > MOST_STORED_LEVELS:
        text = pruned_text(text, MOST_STORED_LEVELS)
    return json.loads(text)
