"""Limits the nesting depth of JSON values. Code that visits a very deep value can fail or take seconds."""

import json
import re
from typing import Any, Final

MAX_LEVELS: Final = 64
"""Maximum depth of a value that a caller sends."""
MAX_STORED_LEVELS: Final = 128
"""Maximum depth of a stored value. Earlier versions could store deeper values; their deeper parts are read as null."""

# A string without an end matches up to the end of the text. So the search does not start again inside such a string.
_BRACKET_OR_STRING: Final = re.compile(r'[\[\]{}]|"(?:[^"\\]++|\\.)*+(?:"|\\?+\Z)', re.DOTALL)


def nests_deeper(value: Any, levels: int) -> bool:
    """Return whether arrays and objects are nested more than `levels` levels deep."""
    containers = [value] if isinstance(value, (dict, list)) else []
    for _ in range(levels):
        containers = [
            inner
            for container in containers
            for inner in (container.values() if isinstance(container, dict) else container)
            if isinstance(inner, (dict, list))
        ]
        if not containers:
            return False
    return bool(containers)


def prune(value: Any, levels: int) -> Any:
    """Return `value` with null in place of each array or object that is more than `levels` levels deep."""
    if isinstance(value, dict):
        return {name: prune(inner, levels - 1) for name, inner in value.items()} if levels else None
    if isinstance(value, list):
        return [prune(inner, levels - 1) for inner in value] if levels else None
    return value


def prune_text(text: str, levels: int) -> str:
    """Return the JSON `text` with null in place of each array or object that is more than `levels` levels deep."""
    kept_parts: list[str] = []
    depth = kept_to = 0
    for match in _BRACKET_OR_STRING.finditer(text):
        bracket = match[0]
        if bracket in ("[", "{"):
            depth += 1
            if depth == levels + 1:
                kept_parts += (text[kept_to : match.start()], "null")
        elif bracket in ("]", "}"):
            if depth == levels + 1:
                kept_to = match.end()
            depth -= 1
    return "".join(kept_parts) + text[kept_to:] if depth <= levels else "".join(kept_parts)


def parse_stored_json(text: Any) -> Any:
    """Parse a stored JSON text, up to a depth of `MAX_STORED_LEVELS` levels.

    Raises ValueError, and TypeError if `text` is a number: SQLite returns a number for a text of digits.
    """
    if isinstance(text, str) and text.count("{") + text.count("[") > MAX_STORED_LEVELS:
        text = prune_text(text, MAX_STORED_LEVELS)
    return json.loads(text)
