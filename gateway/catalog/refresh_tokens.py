"""Reads from a catalog entry how to get a refresh token: which scope to request, or other advice."""

from collections.abc import Collection
from typing import Final

from gateway.catalog.provider import Provider

OFFLINE: Final = "offline_access"


def refresh_scope(provider: Provider) -> str | None:
    """Return the scope that the provider requires for a refresh token; None if the entry names no such scope.

    The scope is `requires_scope` in the entry's `refresh`. Without this field, the scope is `offline_access`, provided
    that the entry's `default_scopes` contain it.
    """
    if provider.refresh is not None and provider.refresh.requires_scope:
        return provider.refresh.requires_scope
    return OFFLINE if OFFLINE in (provider.default_scopes or ()) else None


def advice_on_refresh_token(provider: Provider, requested_scopes: Collection[str]) -> str:
    """Return advice on how to get a refresh token with the next authorization.

    `requested_scopes`: the scopes requested so far.
    """
    name, params = provider.display_name, provider.authorization_params
    scope = refresh_scope(provider)
    if scope is None and OFFLINE in (*requested_scopes, *(provider.available_scopes or ())):
        scope = OFFLINE
    if scope is not None and scope not in requested_scopes:
        return f"Add the scope '{scope}' to the integration and let the end user authorize again."
    requests_offline_access = params.get("access_type") == "offline"
    action = f"the scope '{scope}'" if scope else "access_type=offline" if requests_offline_access else None
    if action is None:
        page = f" ({provider.docs})" if provider.docs else ""
        return f"See {name}'s documentation{page} on how to get a refresh token: often with a scope such as {OFFLINE}."
    if "consent" not in params.get("prompt", "").split():
        return (
            f"Each authorization requests {action}. Some providers also need prompt=consent: add it to authorization_params "
            "of the entry. An import must include its refresh_token."
        )
    return (
        f"Each authorization requests {action} and prompt=consent: check at {name} that this app may use refresh tokens. "
        "An import must include its refresh_token."
    )
