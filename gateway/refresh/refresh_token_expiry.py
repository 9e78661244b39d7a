"""How long what refreshes a connection lives, by what its provider's entry says of disuse, and when to refresh it before that."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from gateway.auth import modes
from gateway.auth.oauth2 import OAuth2, exchanges_itself
from gateway.catalog.provider import Provider
from gateway.catalog.refresh_tokens import what_brings_one
from gateway.records.connection import Lifespan
from gateway.records.integration import Integration
from gateway.refresh.schedule import share

FROM: Final = 0.5  # of the time it lives unused: then its keep-alive may come …
SPREAD: Final = 0.25  # … or up to so much later, different for each, so that a mass import is not a mass refresh


def idle_limit(provider: Provider) -> timedelta | None:
    """How long a refresh token lives without a refresh; None where the entry knows no such limit.

    Nobody reports whether its owner is active, so the limit for an inactive owner counts like that for disuse. Where
    each refresh gives a new token, a limit on a token's age is one on disuse too.
    """
    policy = provider.refresh
    if policy is None:
        return None
    limits = [policy.expires_after_days_unused, policy.expires_after_days_owner_inactive]
    if policy.rotating:
        limits.append(policy.expires_after_days)
    known = [days for days in limits if days is not None]
    return timedelta(days=min(known)) if known else None


def age_limit(provider: Provider) -> timedelta | None:
    """How long it lives however much it is used; no refresh helps against that."""
    policy = provider.refresh
    if policy is None or policy.expires_after_days is None or policy.rotating:
        return None
    return timedelta(days=policy.expires_after_days)


def limited(provider: Provider) -> bool:
    """Whether what refreshes its connections dies of itself at all."""
    by_itself = provider.refresh is not None and bool(provider.refresh.by_access_token)
    return by_itself or idle_limit(provider) is not None or age_limit(provider) is not None


def lifespan(
    provider: Provider, held: Mapping[str, Any], *, key: str, granted_at: datetime, refreshed_at: datetime
) -> Lifespan:
    """Of what refreshes `held`: its refresh token or, where there is none and its access token is what counts, that.

    `key` spreads neighbours.
    """
    mode = modes().get(provider.auth_mode)
    if mode is None or held["type"] not in mode.types():
        return Lifespan()
    token_ends = mode.expires_at(held)
    if not mode.refreshable(held, provider):
        return Lifespan(token_ends)
    live = needs_a_live_token(provider, held)
    if not _refreshes(provider, held):
        return Lifespan(settled=not live)
    idle, age = idle_limit(provider), age_limit(provider)
    ends = [granted_at + age] if age is not None else []
    unused = [idle] if idle is not None else []
    if live and token_ends is not None:
        unused.append(max(token_ends - refreshed_at, timedelta()))
    due = None
    if unused:
        ends.append(refreshed_at + min(unused))
        due = refreshed_at + min(unused) * (FROM + SPREAD * share(key))
    dies_at = min(ends) if ends else None
    return Lifespan(dies_at, due if dies_at is None or due is None or due < dies_at else None, not live)


def needs_a_live_token(provider: Provider, held: Mapping[str, Any]) -> bool:
    """Whether it is refreshed by its access token alone, and so only while that is valid."""
    return exchanges_itself(provider) and not held.get("refresh_token")


def outlives_its_token(provider: Provider, held: Mapping[str, Any]) -> bool:
    """Whether `held` can be refreshed after its access token has ended."""
    mode = modes()[provider.auth_mode]
    return mode.refreshable(held, provider) and not needs_a_live_token(provider, held)


def ends_with_token(provider: Provider, held: Mapping[str, Any]) -> bool:
    """Whether `held` is a grant that ends with its access token, where a refresh token would have refreshed it."""
    mode = modes().get(provider.auth_mode)
    if not isinstance(mode, OAuth2) or held["type"] not in mode.types():
        return False
    return mode.expires_at(held) is not None and not mode.refreshable(held, provider)


def refresh_token_advice(provider: Provider, integration: Integration | None) -> str:
    """What brings a refresh token, by the entry and the scopes that the integration asks for."""
    own = integration.scopes if integration is not None else None
    return what_brings_one(provider, own if own is not None else provider.default_scopes or ())


def _refreshes(provider: Provider, held: Mapping[str, Any]) -> bool:
    by_itself = provider.refresh is not None and provider.refresh.by_access_token
    user = held.get("user")
    return bool(held.get("refresh_token") or by_itself or (isinstance(user, Mapping) and user.get("refresh_token")))
