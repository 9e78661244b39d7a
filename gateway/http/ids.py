"""Checks the characters of integration and connection ids, and names the first forbidden character."""

import re
import string
from typing import Final

# OpenAPI publishes these patterns. So they must be valid in ECMA-262 with the flag `u`, in which a backslash before a
# quote is a syntax error.
CONNECTION_ID: Final = r"""^[a-zA-Z0-9,.;:=+~\[\]|@${}"'\\/_ -]+$"""
PROVIDER_CONFIG_KEY: Final = r"^[a-zA-Z0-9~:.@ _-]+$"
_MARKS: Final = {CONNECTION_ID: ",.;:=+~[]|@${}\"'\\/_-", PROVIDER_CONFIG_KEY: "~:.@_-"}
_FORMS: Final = {pattern: re.compile(pattern.removesuffix("$")) for pattern in _MARKS}
_PLAIN: Final = string.ascii_letters + string.digits + " "


def id_fault(text: str, pattern: str) -> str | None:
    """Return why `text` does not match `pattern`, for example ``holds 'ü'; allowed are …``; None if `text` matches.

    `pattern`: CONNECTION_ID or PROVIDER_CONFIG_KEY.
    """
    if _FORMS[pattern].fullmatch(text):
        return None
    marks = _MARKS[pattern]
    wrong = next((char for char in text if char not in _PLAIN + marks), None)
    if wrong is None:
        return "is empty"
    shown = f"'{wrong}'" if wrong.isprintable() else f"U+{ord(wrong):04X}"
    return f"holds {shown}; allowed are A-Z a-z 0-9, spaces and {' '.join(marks)}"
