"""Derives an entry's `evidence`, by group of fields, from the statements of sources about it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.catalog.evidence import FIELDS, GROUPS, weakest
from tools.evidence.compare import agrees, entry_values
from tools.evidence.drift import explanations
from tools.evidence.statements import KNOWLEDGE, sources, statements

Entry = Mapping[str, Any]

# The date on which the facts were collected.
DATE: Final = "2026-11-22"
MAX_NAMED: Final = 6

# Group ▸ name of a field in statements ▸ place of the field in an entry.
_ASSESSED: Final[Mapping[str, Mapping[str, str]]] = {
    "addresses": {
        "authorization_url": "authorization_url", "token_url": "token_url", "request_url": "request_url",
        "base_url": "proxy.base_url",
    },
    "client": {
        "token_request_auth_method": "token_request_auth_method", "scope_separator": "scope_separator",
        "disable_pkce": "disable_pkce",
    },
    "placement": {"placement": "proxy.headers"},
    "refresh": {
        "refresh.rotating": "refresh.rotating", "refresh.access_token_lifetime_s": "refresh.access_token_lifetime_s",
        "refresh.expires_after_days_unused": "refresh.expires_after_days_unused",
        "refresh.expires_after_days": "refresh.expires_after_days", "refresh.reuse_grace_s": "refresh.reuse_grace_s",
        "refresh_url": "refresh_url", "revocation_url": "revocation_url",
    },
    "account": {"verification": "proxy.verification", "account.id": "account.id"},
    "paging": {"paginate": "proxy.paginate"},
    "webhooks": {"webhook_signature.header": "webhook_signature.header"},
}  # fmt: skip
# Field ▸ other fields for which its statements are evidence too.
_ALSO: Final = {"paginate": ("paginate.parameters",), "disable_pkce": ("pkce",)}
# Fields for which the gateway has a default value, with the auth modes that use the field.
_DEFAULTED: Final = {"token_request_auth_method": {"OAUTH2", "OAUTH2_CC"}, "scope_separator": {"OAUTH2"}}


def evidence_of(name: str, entry: Entry) -> dict[str, Any]:
    """Return the `evidence` of the whole entry with this name."""
    found = {}
    for group in GROUPS:
        levels: dict[str, str] = {}
        named: set[str] = set()
        for field, place in _ASSESSED[group].items():
            if (assessed := _assess_field(name, entry, field, place)) is not None:
                levels[place], by = assessed
                named |= by
        if levels:
            found[group] = _group(levels, named, _differences(name, group))
    return found


def evidence_of_inheriting_entry(
    name: str, said_here: Entry, whole: Entry, inherited: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the evidence that an inheriting entry writes itself.

    These are the groups with a field that the entry sets, and the groups with another evidence than in the base entry.
    """
    touched = {*said_here, *(f"proxy.{key}" for key in said_here.get("proxy") or {})}
    found = evidence_of(name, whole)
    own = {group: item for group, item in found.items() if item != inherited.get(group) or FIELDS[group] & touched}
    return own | {group: None for group in inherited if group not in found and not FIELDS[group] & touched}


def _group(levels: Mapping[str, str], named: set[str], differs: Mapping[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {"level": weakest(iter(levels.values()))}
    if named:
        made |= {"sources": sorted(named, key=_rank)[:MAX_NAMED], "date": DATE}
    if len(set(levels.values())) > 1:
        made["fields"] = dict(levels)
    return made | ({"differs": dict(differs)} if differs else {})


def _rank(source: str) -> tuple[bool, str]:
    return (not is_vendor(source), source)


def is_vendor(source: str) -> bool:
    """Return whether `source` is the vendor's own document."""
    return bool(sources()[source].get("vendor"))


def _differences(name: str, group: str) -> dict[str, str]:
    known = explanations().get(name, {})
    return {place: known[field] for field, place in _ASSESSED[group].items() if field in known}


def _assess_field(name: str, entry: Entry, field: str, place: str) -> tuple[str, set[str]] | None:
    """Return level and sources of one field, or None if the entry does not have the field."""
    written = _is_written(entry, place)
    if not written and entry["auth_mode"] not in _DEFAULTED.get(field, ()):
        return None
    if field == "placement" and not list(entry_values(entry, field)):
        return None  # no such field, because the auth mode signs the whole request
    explicit, implied = set[str](), set[str]()
    for item in statements().get(name, ()):
        if item.field in (field, *_ALSO.get(field, ())) and agrees(entry, item):
            explicit |= set(item.explicit)
            implied |= set(item.implied)
    known = KNOWLEDGE in explicit | implied
    explicit, implied = explicit - {KNOWLEDGE}, implied - {KNOWLEDGE} - explicit
    return _level(explicit, implied, written=written or known, partial=field == "paginate"), explicit | implied


def _level(explicit: set[str], implied: set[str], *, written: bool, partial: bool) -> str:
    if explicit | implied:
        # parameters of the request do not show what the response contains
        vendor = any(map(is_vendor, explicit)) and not partial
        return "confirmed" if vendor or (explicit and len(explicit | implied) > 1) else "sourced"
    return "unconfirmed" if written else "assumed"


def _is_written(entry: Entry, place: str) -> bool:
    if place == "proxy.headers":
        return any(entry["proxy"].get(key) for key in ("headers", "query", "body")) or entry["auth_mode"] == "BASIC"
    value: Any = entry
    for step in place.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value is not None


def levels(entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Yield group, field and level of every field in the entry's evidence. If all fields of a group have one level,
    yield the group.
    """
    for group, item in entry.get("evidence", {}).items():
        for field, level in item.get("fields", {group: item["level"]}).items():
            yield group, field, level
