"""How the API is called: ``proxy`` and what is below it."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.catalog.conversion.either import Eithers
from gateway.catalog.conversion.notes import Notes, Place
from gateway.catalog.conversion.plain import as_flag, as_list, as_text
from gateway.catalog.conversion.tokens import deep, text_map
from gateway.catalog.traffic import Paginate

_NUMBERS: Final = frozenset({"offset_start_value"})
_RETRY: Final = {"after": as_list, "at": as_list, "error_code": as_list, "remaining": as_text}
_METHODS: Final = ("GET", "POST", "HEAD", "PUT", "PATCH", "DELETE")
_OURS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade"}
)


def proxy(
    given: Mapping[str, Any], notes: Notes, eithers: Eithers, alternatives: dict[str, list[str]]
) -> dict[str, Any]:
    """Ours; other forms of the base address go into `alternatives`. Its ``connection_config`` is the entry's own matter."""
    out: dict[str, Any] = {}
    for key, value in given.items():
        at: Place = ("proxy", key)
        match key:
            case "base_url":
                out[key], before = eithers.address(as_text(value).rstrip("/"), at)
                if before:
                    alternatives["proxy.base_url"] = [one.rstrip("/") for one in before]
                    notes.changed(at, "'||' is alternatives.proxy.base_url")
            case "headers" | "query":
                out[key] = _placed(key, text_map(value, at, notes, eithers), notes)
            case "body":
                out[key] = deep(value, at, eithers)
            case "decompress":
                out[key] = as_flag(value)
            case "paginate" if isinstance(value, Mapping):
                out[key] = _paginate(value, at, notes)
            case "retry" if isinstance(value, Mapping):
                out[key] = _retry(value, at, notes)
            case "verification" if isinstance(value, Mapping):
                out[key] = _verification(value, at, notes, eithers)
            case "connection_config":
                pass
            case "forward_headers_on_redirect":
                notes.lost(at, "redirects are handed to the caller, who follows them through /proxy")
            case _:
                notes.lost(at, f"proxy has no {key!r}")
    return {key: value for key, value in out.items() if value not in ({}, None)}


def _placed(key: str, fields: dict[str, str], notes: Notes) -> dict[str, str]:
    kept: dict[str, str] = {}
    seen: set[str] = set()
    for name, template in fields.items():
        if key == "headers" and name.lower() in _OURS:
            notes.lost(("proxy", key, name), f"{name} belongs to the connection; the gateway writes it")
        elif key == "headers" and name.lower() in seen:
            notes.lost(("proxy", key, name), f"{name} is there twice, in different case")
        else:
            kept[name] = template
            seen.add(name.lower())
    return kept


def _paginate(given: Mapping[str, Any], place: Place, notes: Notes) -> dict[str, Any] | None:
    if given.get("type") not in {"cursor", "link", "offset"}:
        notes.lost(place, f"there is no paging of type {given.get('type')!r}; there are cursor, link and offset")
        return None
    out: dict[str, Any] = {}
    for key, value in given.items():
        if key not in Paginate.model_fields:
            notes.lost((*place, key), f"paginate has no {key!r}")
        elif key in _NUMBERS:
            out[key] = int(value)
        else:
            out[key] = as_text(value)
    return out


def _retry(given: Mapping[str, Any], place: Place, notes: Notes) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in given.items():
        if key in _RETRY:
            out[key] = _RETRY[key](value)
        elif key == "in_body":
            notes.lost((*place, key), "answers are streamed, so when to come back is read in header fields only")
        else:
            notes.lost((*place, key), f"retry has no {key!r}")
    return out


def _verification(given: Mapping[str, Any], place: Place, notes: Notes, eithers: Eithers) -> dict[str, Any] | None:
    out: dict[str, Any] = {}
    for key, value in given.items():
        at = (*place, key)
        match key:
            case "method" if str(value).upper() in _METHODS:
                out[key] = str(value).upper()
            case "endpoints" | "endpoint":
                paths = [eithers.text(path, at) for path in as_list(value)]
                out["endpoints"] = [path if path.startswith("/") else f"/{path}" for path in paths]
            case "base_url_override":
                out[key], others = eithers.address(as_text(value).rstrip("/"), at)
                if others:
                    notes.lost(at, f"has one form here; it is {out[key]!r} now")
            case "headers":
                out[key] = text_map(value, at, notes, eithers)
            case "data":
                out[key] = deep(value, at, eithers)
            case _:
                notes.lost(at, f"verification has no {key!r}: {value!r}")
    if not out.get("endpoints"):
        notes.lost(place, "names no endpoint to call")
        return None
    return out
