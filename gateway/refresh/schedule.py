"""When tokens are refreshed: an access token ahead of its end, a refresh token before it expires unused.

On the last stretch of an access token a request waits for the refresh. Many servers round its end down to a whole second,
so it may be dead up to a second before the time that `expires_in` gives, and not every provider answers 401 then. A token of
a few seconds is refreshed when half of its lifetime is over, at the earliest.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from gateway import clock
from gateway.auth import modes
from gateway.auth.oauth2 import OAuth2, exchanges_itself
from gateway.catalog.provider import Provider
from gateway.catalog.refresh_tokens import what_brings_one
from gateway.records.connection import Connection, Lifespan
from gateway.records.integration import Integration

# ── When refreshes that are due together are begun: one after the other, the last of them when it is due.
#
# A token may be refreshed somewhat earlier than it is due, never later. So each refresh gets the latest moment, up to
# when it is due, that no other has yet. Of 10,000 that are due within a minute the first begin a quarter of an hour
# before it.

WIDTH_S: Final = 0.1
SPARE: Final = 1024


class RefreshSlots:
    """Moments on the monotonic clock, in seconds, `WIDTH_S` apart. What was taken is not given back; it passes."""

    def __init__(self, width_s: float = WIDTH_S) -> None:
        self._width_s = width_s
        self._before: dict[int, int] = {}  # a slot that is taken ▸ one before it with none that is free in between
        self._most = SPARE

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._before)

    def take(self, due: float, *, earliest: float, now: float) -> float:
        """The latest free moment in `earliest` … `due`; `due` itself where there is none."""
        if len(self._before) >= self._most:
            self._forget(now)
        last = int(due / self._width_s)
        free = self._free(last)
        moment = due if free == last else free * self._width_s
        if moment < max(earliest, now):
            return due
        self._before[free] = free - 1
        return moment

    def _forget(self, now: float) -> None:
        """Forget the slots that have passed; called seldom, since it goes through all of them."""
        passed = int(now / self._width_s)
        self._before = {slot: before for slot, before in self._before.items() if slot >= passed}
        self._most = 2 * len(self._before) + SPARE

    def _free(self, last: int) -> int:
        """The latest at `last` or before; the way there is the shorter for who comes next."""
        free, way = last, list[int]()
        while (before := self._before.get(free)) is not None:
            way.append(free)
            free = before
        for slot in way:
            self._before[slot] = free
        return free


SHORTEST: Final = timedelta(seconds=2)
LONGEST: Final = timedelta(seconds=300)
PART: Final = 0.1
MOST_OF_LIFE: Final = 0.5  # a token is never born due
JITTER: Final = 0.2
LAST_STRETCH: Final = timedelta(seconds=1.1)  # the second by which servers round, and the way to the provider
LAST_PART: Final = 0.75  # the part of the refresh window, at most: less than jitter leaves of it


def refresh_from(connection: Connection, provider: Provider) -> datetime | None:
    """Return when background refreshes of the token may begin, behind the requests that use it; None if its end is not known.

    The entry's `token_expiration_buffer` (seconds) overrides the margin; both are capped at half the lifetime.
    """
    if connection.expires_at is None:
        return None
    return connection.expires_at - _margin(connection, provider, connection.expires_at) * (
        1 - JITTER * share(f"{connection.uid}/{connection.version}")
    )


def last_from(connection: Connection, provider: Provider) -> datetime | None:
    """Return the time from which a request waits for the refresh; None if the token's end is not known."""
    if connection.expires_at is None:
        return None
    return connection.expires_at - min(LAST_STRETCH, _margin(connection, provider, connection.expires_at) * LAST_PART)


def refresh_at(
    connection: Connection, provider: Provider, now: float, slots: RefreshSlots, *, within_s: float
) -> float | None:
    """Return when to begin the refresh, on the monotonic clock, like `now`; None if that has come, or is further than `within_s`.

    In a crowd that is earlier than `refresh_from`, but not before half of its lifetime is over.
    """
    due = refresh_from(connection, provider)
    if due is None or connection.expires_at is None:
        return None
    left_s = (due - clock.now()).total_seconds()
    if not 0 < left_s <= within_s:
        return None
    half_s = lifetime(connection, connection.expires_at).total_seconds() / 2
    ahead_s = (connection.expires_at - due).total_seconds()
    return slots.take(now + left_s, earliest=now + left_s + ahead_s - half_s, now=now)


def seconds_left(connection: Connection, provider: Provider, now: datetime, *, at_most: float) -> float:
    """Return the seconds until the credential must be looked at again, at its margin, last stretch or end; else `at_most`."""
    if connection.expires_at is None:
        return at_most
    ahead = (refresh_from(connection, provider), last_from(connection, provider), connection.expires_at)
    return min(((at - now).total_seconds() for at in ahead if at is not None and now < at), default=0.0)


def _margin(connection: Connection, provider: Provider, expires_at: datetime) -> timedelta:
    life = lifetime(connection, expires_at)
    if provider.token_expiration_buffer is not None:
        wanted = timedelta(seconds=provider.token_expiration_buffer)
    else:
        wanted = min(max(SHORTEST, life * PART), LONGEST)
    return min(wanted, life * MOST_OF_LIFE)


def lifetime(connection: Connection, expires_at: datetime) -> timedelta:
    """Return how long the connection's access token lives, from when it was obtained."""
    return max(expires_at - (connection.last_refreshed_at or connection.created_at), timedelta(0))


def share(key: str) -> float:
    """0 … 1, the same on every node for one key and different for its neighbours, so that refreshes spread."""
    return int.from_bytes(hashlib.blake2s(key.encode(), digest_size=4).digest(), "big") / 0xFFFFFFFF


# ── How long what refreshes a connection lives, by what its provider's entry says of disuse, and when to refresh it before that.

UNUSED_FROM: Final = 0.5  # of the time it lives unused: then its keep-alive may come …
UNUSED_SPREAD: Final = 0.25  # … or up to so much later, different for each, so that a mass import is not a mass refresh


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
    """Return how long a refresh token lives however much it is used; no refresh prolongs that."""
    policy = provider.refresh
    if policy is None or policy.expires_after_days is None or policy.rotating:
        return None
    return timedelta(days=policy.expires_after_days)


def limited(provider: Provider) -> bool:
    """Return whether the refresh tokens of this provider's connections expire by themselves."""
    by_itself = provider.refresh is not None and bool(provider.refresh.by_access_token)
    return by_itself or idle_limit(provider) is not None or age_limit(provider) is not None


def lifespan(
    provider: Provider, held: Mapping[str, Any], *, key: str, granted_at: datetime, refreshed_at: datetime
) -> Lifespan:
    """Return the lifespan of what refreshes `held`: its refresh token, or an access token that is exchanged for a new one.

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
        due = refreshed_at + min(unused) * (UNUSED_FROM + UNUSED_SPREAD * share(key))
    dies_at = min(ends) if ends else None
    return Lifespan(dies_at, due if dies_at is None or due is None or due < dies_at else None, not live)


def needs_a_live_token(provider: Provider, held: Mapping[str, Any]) -> bool:
    """Return whether `held` is refreshed by its access token alone, and so only while that is valid."""
    return exchanges_itself(provider) and not held.get("refresh_token")


def outlives_its_token(provider: Provider, held: Mapping[str, Any]) -> bool:
    """Return whether `held` can be refreshed after its access token has ended."""
    mode = modes()[provider.auth_mode]
    return mode.refreshable(held, provider) and not needs_a_live_token(provider, held)


def ends_with_token(provider: Provider, held: Mapping[str, Any]) -> bool:
    """Return whether `held` is a grant that ends with its access token, where a refresh token would have refreshed it."""
    mode = modes().get(provider.auth_mode)
    if not isinstance(mode, OAuth2) or held["type"] not in mode.types():
        return False
    return mode.expires_at(held) is not None and not mode.refreshable(held, provider)


def refresh_token_advice(provider: Provider, integration: Integration | None) -> str:
    """Return the advice on how to get a refresh token, by the entry and the scopes that the integration asks for."""
    own = integration.scopes if integration is not None else None
    return what_brings_one(provider, own if own is not None else provider.default_scopes or ())


def _refreshes(provider: Provider, held: Mapping[str, Any]) -> bool:
    by_itself = provider.refresh is not None and provider.refresh.by_access_token
    user = held.get("user")
    return bool(held.get("refresh_token") or by_itself or (isinstance(user, Mapping) and user.get("refresh_token")))
