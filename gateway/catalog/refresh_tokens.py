"""Finds out from an entry how to get a refresh token: the scope to request, or other advice."""

from collections.abc import Collection
from typing import Final

from gateway.catalog.provider import Provider

OFFLINE: Final = "offline_access"


def refresh_scope(provider: Provider) -> str | None:
    """Return the scope that the provider requires for a refresh token; None if the entry names none."""
    if provider.refresh is not None and provider.refresh.requires_scope:
        return provider.refresh.requires_scope
    return OFFLINE if OFFLINE in (provider.default_scopes or ()) else None


def advice_on_refresh_token(provider: Provider, asked: Collection[str]) -> str:
    """Return advice on how the next consent returns a refresh token. `asked`: the requested scopes."""
    name, params = provider.display_name, provider.authorization_params
    scope = refresh_scope(provider)
    if scope is None and OFFLINE in (*asked, *(provider.available_scopes or ())):
        scope = OFFLINE
    if scope is not None and scope not in asked:
        return f"Add the scope '{scope}' to the integration and let the end user authorize again."
    offline = params.get("access_type") == "offline"
    done = f"the scope '{scope}'" if scope else "access_type=offline" if offline else None
    if done is None:
        page = f" ({provider.docs})" if provider.docs else ""
        return f"See {name}'s documentation{page} for what brings one: often a scope such as {OFFLINE}."
    if "consent" not in params.get("prompt", "").split():
        return (
            f"Each authorization asks for {done}: some providers also need prompt=consent, which belongs in "
            "authorization_params of the entry. An import has to bring its refresh_token."
        )
    return (
        f"Each authorization asks for {done} and prompt=consent: check at {name} that this app may use refresh tokens. "
        "An import has to bring its refresh_token."
    )
