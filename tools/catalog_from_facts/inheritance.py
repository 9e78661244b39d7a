"""Reduces the entries of a family, which share one app, to the fields that differ from their base entry."""

from collections.abc import Mapping
from typing import Any, Final

# Families whose members have the same consent, token requests and refresh rules.
FAMILIES: Final = frozenset({"google", "microsoft", "microsoft-oauth2-cc", "zoho", "adp"})
_OWN: Final = frozenset({"name", "alias", "display_name", "categories", "provenance", "review", "sources"})
# An entry does not inherit these fields from its base entry. It inherits all other fields.
_NOT_THE_FAMILYS: Final = frozenset(
    {"homepage", "docs_connect", "default_scopes", "available_scopes", "path_form", "paginate"}
    | {"paginate_alternatives", "verification", "allowed_origins", "webhook_signature", "connection_config"}
)
MAX_NULLS: Final = 3


def without_inherited_fields(
    entry: Mapping[str, Any], base_name: str, base: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the fields in which `entry` differs from `base`. Return None if it would have to remove too many fields of
    `base`.
    """
    own = _additional_fields(entry, {key: value for key, value in base.items() if key not in _OWN})
    if _nulls(own) > MAX_NULLS or entry["auth_mode"] != base["auth_mode"]:
        return None
    return {"alias": base_name, **own}


def _additional_fields(entry: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for key, value in entry.items():
        inherited = base.get(key)
        if isinstance(value, Mapping) and isinstance(inherited, Mapping):
            if inner := _additional_fields(value, inherited):
                said[key] = inner
        elif key not in base or value != inherited:
            said[key] = value
    return said | {key: None for key in base if key not in entry and key in _NOT_THE_FAMILYS}


def _nulls(value: Any) -> int:
    return sum(1 if item is None else _nulls(item) for item in value.values()) if isinstance(value, Mapping) else 0
