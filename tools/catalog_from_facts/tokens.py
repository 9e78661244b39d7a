"""``oauth-quirks.json`` over entries that say nothing of it yet: whether refresh tokens rotate, and how long tokens live."""

from collections.abc import Mapping
from typing import Any, Final

Entry = dict[str, Any]

_FIELDS: Final = ("rotating", "access_token_lifetime_s", "expires_after_days_unused", "expires_after_days")


def with_lifetimes(name: str, entry: Entry, facts: Mapping[str, Any]) -> Entry:
    """`entry` with what `facts`, by entry, add to its `refresh`. What it says itself stays."""
    fact = facts.get(name, {})
    if "same_as" in fact:
        fact = facts[fact["same_as"]]
    refresh = fact.get("refresh", {})
    known = {key: refresh[key] for key in _FIELDS if isinstance(refresh.get(key), int)}  # a third of a day is not a day
    if not known or entry["auth_mode"] != "OAUTH2":
        return entry
    return {**entry, "refresh": {**known, **entry.get("refresh", {})}}
