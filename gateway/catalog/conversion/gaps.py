"""What the other format lets an author leave unsaid, and ours does not: settings without a form, hosts without a format."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from gateway.catalog.address import parse_address
from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.conversion.notes import Notes
from gateway.catalog.names import spellings
from gateway.catalog.places import ADDRESSES
from gateway.catalog.template import Name, TemplateError, placeholders
from gateway.catalog.value import is_label

_CAPTURED: Final = ("connection_configuration", "token_response_metadata", "redirect_uri_metadata")
_SEVERAL: Final = "a.b"


def fill_gaps(out: dict[str, Any], notes: Notes) -> None:
    """Give every placeholder a setting, and settings that become a host or a whole address the format that lets them."""
    for name in sorted(set(_names(out))):
        namespace, dot, rest = name.partition(".")
        if namespace == "connectionConfig" and dot:
            _setting(out, rest, notes)
        elif dot == "" or namespace == "credentials":
            _credential(out, name, rest or name, notes)
        elif namespace == "assertionOption" and rest not in out.get("assertion_option", {}):
            out.setdefault("assertion_option", {})[rest] = {}
            notes.changed(("assertion_option",), f"{rest!r} is used and has no form; it has an empty one now")
    for template in _addresses(out):
        with suppress(TemplateError):
            _formats(out, template, notes)


def _setting(out: dict[str, Any], name: str, notes: Notes) -> None:
    known = {*out.get("connection_config", {})}.union(*(out.get(key) or () for key in _CAPTURED))
    if name not in known:
        out.setdefault("connection_config", {})[name] = {}
        notes.changed(("connection_config",), f"{name!r} is used and has no form; it has an empty one now")


def _credential(out: dict[str, Any], name: str, bare: str, notes: Notes) -> None:
    mode = AUTH_MODES.get(str(out.get("auth_mode")))
    if mode is None or mode.redirects or bare.startswith("raw.") or name.startswith("credentials") is False:
        return
    known = {*mode.fills, *mode.members, *out.get("credentials", {})}
    if not any(one in known for one in (*spellings(name), bare)):
        forms = out.setdefault("credentials", {})
        for asked in () if forms else mode.asks:
            forms.setdefault(asked, {})
        forms[bare] = {"secret": True}
        notes.changed(("credentials",), f"{bare!r} is used and has no form; it has an empty one now, as a secret")


def _formats(out: dict[str, Any], template: str, notes: Notes) -> None:
    address = parse_address(template)
    if address.whole is not None:
        _format(out, address.whole.name, "uri", notes)
    literal = "".join(piece for piece in address.host if isinstance(piece, str)).strip(".")
    for piece in address.host:
        if isinstance(piece, Name):
            setting = _of(out, piece.name)
            if setting is not None and (not literal or _may_have_dots(setting)):
                _format(out, piece.name, "hostname", notes)


def _may_have_dots(setting: Mapping[str, Any]) -> bool:
    """Whether the values its author had in mind are more than one label."""
    samples = [str(setting[key]) for key in ("example", "default_value") if setting.get(key)]
    return any("." in sample and not is_label(sample.lower()) for sample in samples)


def _format(out: dict[str, Any], name: str, wanted: str, notes: Notes) -> None:
    setting = _of(out, name)
    if setting is None or setting.get("format") == wanted or setting.get("enum"):
        return
    bare = name.partition(".")[2]
    setting["format"] = wanted
    notes.changed(("connection_config", bare), f"is {_A[wanted]} in an address, so it has 'format: {wanted}' now")
    for key in ("example", "default_value"):
        if key in setting and wanted == "uri" and not re.match(r"https?://", str(setting[key])):
            notes.lost(("connection_config", bare, key), "is no whole address")
            del setting[key]


_A: Final = {"hostname": "a host", "uri": "the whole beginning"}


def _of(out: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    namespace, _, bare = name.partition(".")
    found = out.get("connection_config", {}).get(bare) if namespace == "connectionConfig" else None
    return found if isinstance(found, dict) else None


def _addresses(out: Mapping[str, Any]) -> Iterator[str]:
    yield from (out[key] for key in ADDRESSES if isinstance(out.get(key), str))
    for forms in out.get("alternatives", {}).values():
        yield from forms
    yield from (step["url"] for step in out.get("additional_steps", ()) if "url" in step)
    proxy = out.get("proxy", {})
    if "base_url" in proxy:
        yield proxy["base_url"]
    if (override := proxy.get("verification", {}).get("base_url_override")) is not None:
        yield override


def _names(value: Any) -> Iterator[str]:
    match value:
        case str() if "${" in value:
            with suppress(TemplateError):
                yield from placeholders(value)
        case Mapping():
            for inner in value.values():
                yield from _names(inner)
        case list():
            for inner in value:
                yield from _names(inner)
