"""How long a refresh token lives, by what its provider's entry says of disuse, and when to refresh it before that."""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from gateway.catalog.provider import Provider
from gateway.records.connection import Lifespan

FROM: Final = 0.5  # of the time it lives unused: then its keep-alive may come …
SPREAD: Final = 0.25  # … or up to so much later, different for each, so that a mass import is not a mass refresh


def idle_limit(provider: Provider) -> timedelta | None:
    """How long a refresh token lives without a refresh; None where the entry knows no such limit.

    Nobody tells us whether its owner is active, so the limit for an inactive owner counts like that for disuse. Where
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
    """Whether its refresh tokens die of themselves at all."""
    return idle_limit(provider) is not None or age_limit(provider) is not None


def lifespan(
    provider: Provider, held: Mapping[str, Any], *, key: str, granted_at: datetime, refreshed_at: datetime
) -> Lifespan:
    """Of the refresh token in `held`; nothing is known where there is none. `key` spreads neighbours."""
    if not _renews(provider, held):
        return Lifespan()
    idle, age = idle_limit(provider), age_limit(provider)
    ends = [granted_at + age] if age is not None else []
    due = None
    if idle is not None:
        ends.append(refreshed_at + idle)
        due = refreshed_at + idle * (FROM + SPREAD * share(key))
    dies_at = min(ends) if ends else None
    return Lifespan(dies_at, due if dies_at is None or due is None or due < dies_at else None)


def share(key: str) -> float:
    """0 … 1, the same on every node for one key."""
    return int.from_bytes(hashlib.blake2s(key.encode(), digest_size=4).digest(), "big") / 0xFFFFFFFF


def _renews(provider: Provider, held: Mapping[str, Any]) -> bool:
    by_itself = provider.refresh is not None and provider.refresh.by_access_token
    user = held.get("user")
    return bool(held.get("refresh_token") or by_itself or (isinstance(user, Mapping) and user.get("refresh_token")))
