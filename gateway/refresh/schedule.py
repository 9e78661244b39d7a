"""When tokens are refreshed: an access token before it expires, a refresh token before it expires from disuse.

Shortly before an access token expires, requests wait for its refresh. Many servers round the expiry down to a whole
second, so a token may expire up to a second before `expires_in` says, and some providers do not respond with 401 then.
A token that lives for a few seconds is refreshed at half its lifetime, at the earliest.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from gateway import clock
from gateway.auth import modes
from gateway.auth.oauth2 import OAuth2, refreshes_by_access_token
from gateway.catalog.provider import Provider
from gateway.catalog.refresh_tokens import advice_on_refresh_token
from gateway.records.connection import Connection, Lifespan
from gateway.records.integration import Integration

# ── Spreads refreshes that are due together.
#
# A token may be refreshed somewhat before it is due, never later. So each refresh gets the latest free slot up to its
# due time. If 10,000 are due at the same moment, the first one starts a quarter of an hour earlier.

WIDTH_S: Final = 0.1
SPARE: Final = 1024


class RefreshSlots:
    """Slots on the monotonic clock, `width_s` seconds apart. Each is taken once."""

    def __init__(self, width_s: float = WIDTH_S) -> None:
        self._width_s = width_s
        self._before: dict[int, int] = {}  # a taken slot ▸ an earlier slot with no free slot in between
        self._most = SPARE

    def __len__(self) -> int:
        """Return how many slots are remembered."""
        return len(self._before)

    def take(self, due: float, *, earliest: float, now: float) -> float:
        """Take the latest free slot between `earliest` (or `now`, if later) and `due`, and return its time; `due`
        itself if none is free. All times in monotonic seconds."""
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
        """Forget the slots that have passed; rarely called, since it scans all of them."""
        passed = int(now / self._width_s)
        self._before = {slot: before for slot, before in self._before.items() if slot >= passed}
        self._most = 2 * len(self._before) + SPARE

    def _free(self, last: int) -> int:
        """Return the latest free slot at `last` or before; later searches take a shorter path."""
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
MOST_OF_LIFE: Final = 0.5  # the refresh window is at most this part of the lifetime, so that a new token is never due
JITTER: Final = 0.2  # the refresh window is shortened by up to this part
LAST_STRETCH: Final = timedelta(seconds=1.1)  # the second by which servers round, plus the network time to the provider
LAST_PART: Final = 0.75  # LAST_STRETCH is at most this part of the refresh window, which the jitter shortens to 0.8


def refresh_from(connection: Connection, provider: Provider) -> datetime | None:
    """Return when background refreshes of the token may start, while requests still use it; None if its expiry is
    unknown.

    The entry's `token_expiration_buffer` (seconds) overrides the refresh window; both are capped at half the lifetime.
    """
    if connection.expires_at is None:
        return None
    return connection.expires_at - _margin(connection, provider, connection.expires_at) * (
        1 - JITTER * share(f"{connection.uid}/{connection.version}")
    )


def last_from(connection: Connection, provider: Provider) -> datetime | None:
    """Return the time from which a request waits for the refresh; None if the token's expiry is unknown."""
    if connection.expires_at is None:
        return None
    return connection.expires_at - min(LAST_STRETCH, _margin(connection, provider, connection.expires_at) * LAST_PART)


def refresh_at(
    connection: Connection, provider: Provider, now: float, slots: RefreshSlots, *, within_s: float
) -> float | None:
    """Return when to start the refresh (monotonic seconds, like `now`); None if `refresh_from` has passed or is more
    than `within_s` away.

    If many refreshes are due together, the time is before `refresh_from`, but not before half of the token's lifetime.
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
    """Return the seconds until the credential changes phase (window, last stretch, expiry): 0 once it has expired,
    `at_most` if its expiry is unknown."""
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
    """Return the lifetime of the connection's access token, counted from when it was obtained."""
    return max(expires_at - (connection.last_refreshed_at or connection.created_at), timedelta(0))


def share(key: str) -> float:
    """Return a number 0 … 1, the same on every node for one key and different for other keys, so that refreshes
    spread."""
    return int.from_bytes(hashlib.blake2s(key.encode(), digest_size=4).digest(), "big") / 0xFFFFFFFF


# ── Refresh token expiry, by the provider's entry, and when to refresh an unused connection before that.

UNUSED_FROM: Final = 0.5  # an unused refresh token is refreshed from this part of its lifetime on …
UNUSED_SPREAD: Final = 0.25  # … or up to this part later, by connection: mass imports cause no mass refresh


def idle_limit(provider: Provider) -> timedelta | None:
    """Return how long a refresh token lives without a refresh; None if the entry states no such limit.

    A limit for an inactive owner counts as a limit for disuse, because no provider reports whether the owner is active.
    If each refresh returns a new token, a limit on a token's age is a limit on disuse too.
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
    """Return how long a refresh token lives regardless of use; no refresh extends that."""
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
    """Return the lifespan of the token that refreshes `held`: a refresh token, or an access token exchanged for a new
    one.

    `key` spreads refreshes of different connections.
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
    """Return whether `held` is refreshed by its access token alone, and so only while that token is valid."""
    return refreshes_by_access_token(provider) and not held.get("refresh_token")


def refreshable_after_expiry(provider: Provider, held: Mapping[str, Any]) -> bool:
    """Return whether `held` can be refreshed after its access token has expired."""
    mode = modes()[provider.auth_mode]
    return mode.refreshable(held, provider) and not needs_a_live_token(provider, held)


def ends_with_token(provider: Provider, held: Mapping[str, Any]) -> bool:
    """Return whether `held` is a grant that ends with its access token because it has no refresh token."""
    mode = modes().get(provider.auth_mode)
    if not isinstance(mode, OAuth2) or held["type"] not in mode.types():
        return False
    return mode.expires_at(held) is not None and not mode.refreshable(held, provider)


def refresh_token_advice(provider: Provider, integration: Integration | None) -> str:
    """Return the advice on how to get a refresh token, by the entry and the scopes that the integration asks for."""
    own = integration.scopes if integration is not None else None
    return advice_on_refresh_token(provider, own if own is not None else provider.default_scopes or ())


def _refreshes(provider: Provider, held: Mapping[str, Any]) -> bool:
    by_itself = provider.refresh is not None and provider.refresh.by_access_token
    user = held.get("user")
    return bool(held.get("refresh_token") or by_itself or (isinstance(user, Mapping) and user.get("refresh_token")))
