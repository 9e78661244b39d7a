"""Adds from ``oauth-quirks.json`` whether refresh tokens rotate and how long tokens are valid.

Entries that already have these fields do not change.
"""

from collections.abc import Mapping
from typing import Any, Final

Entry = dict[str, Any]

_FIELDS: Final = ("rotating", "access_token_lifetime_s", "expires_after_days_unused", "expires_after_days")


def with_lifetimes(name: str, entry: Entry, facts: Mapping[str, Any]) -> Entry:
    """Return `entry` with the fields that `facts` adds to its `refresh`. Existing fields keep their values."""
    fact = facts.get(name, {})
    if "same_as" in fact:
        fact = facts[fact["same_as"]]
    refresh = fact.get("refresh", {})
    known = {key: refresh[key] for key in _FIELDS if isinstance(refresh.get(key), int)}  # the field has whole days only
    if not known or entry["auth_mode"] != "OAUTH2":
        return entry
    return {**entry, "refresh": {**known, **entry.get("refresh", {})}}
