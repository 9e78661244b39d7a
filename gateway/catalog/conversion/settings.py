"""The fields of a form ▸ our settings."""

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.catalog.conversion.notes import Notes, Place
from gateway.catalog.conversion.plain import as_flag, as_text
from gateway.catalog.setting import Setting

_FLAGS: Final = frozenset({"optional", "secret", "hidden", "automated"})
_TEXTS: Final = frozenset(
    {"title", "description", "example", "pattern", "default_value", "prefix", "suffix", "doc_section"}
)
_FORMATS: Final = frozenset({"hostname", "uri", "uuid", "email"})
_JS_GROUP: Final = re.compile(r"\(\?<(?![=!])")


def converted_form(given: Any, place: Place, notes: Notes) -> dict[str, Any]:
    """The settings of a form by name."""
    if not isinstance(given, Mapping):
        notes.lost(place, "is no form: a form is names with their fields")
        return {}
    return {str(name): _setting(field, (*place, name), notes) for name, field in given.items()}


def _setting(given: Any, place: Place, notes: Notes) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in given.items() if isinstance(given, Mapping) else ():
        at = (*place, key)
        match key:
            case "type":
                if value != "string":
                    notes.changed(at, f"{value!r}: a setting is text")
            case "pattern":
                _pattern(out, str(value), at, notes)
            case "format" if value not in _FORMATS:
                notes.lost(at, f"there is no format {value!r}; there are {', '.join(sorted(_FORMATS))}")
            case "enum" if isinstance(value, list):
                out[key] = [as_text(one) for one in value]
            case "order" | "visible_when" | "format":
                out[key] = value
            case _ if key in _FLAGS:
                out[key] = as_flag(value)
            case _ if key in _TEXTS:
                if value is not None:
                    out[key] = as_text(value)
            case _ if key in Setting.model_fields:
                out[key] = value
            case _:
                notes.lost(at, f"a setting has no {key!r}")
    return out


def _pattern(out: dict[str, Any], pattern: str, at: Place, notes: Notes) -> None:
    """In Python's words, where JavaScript has others."""
    python = _JS_GROUP.sub("(?P<", pattern).replace("\\/", "/")
    try:
        re.compile(python)
    except (re.error, OverflowError, RecursionError) as wrong:
        notes.lost(at, f"is no regular expression that we can read: {wrong}")
        return
    out["pattern"] = python
