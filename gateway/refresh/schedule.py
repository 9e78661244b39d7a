"""Decides when to refresh: an access token before it expires, a refresh token before it expires from disuse.

Shortly before an access token expires, requests wait for its refresh. Many servers round the expiry down to a whole
second, so a token can expire up to a second earlier than `expires_in` says. The gateway must not send an expired token,
because some providers do not respond to it with 401. A token that lives for a few seconds is refreshed after half of
its lifetime at the earliest.
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
# A refresh may start before its due time, but not after it. So each refresh gets the latest free slot up to its due
# time. If 10,000 refreshes are due at the same moment, the first refresh starts about a quarter of an hour earlier.

SLOT_WIDTH_S: Final = 0.1
MIN_SLOTS_BEFORE_CLEANUP: Final = 1024


class RefreshSlots:
    """Slots on the monotonic clock, `width_s` seconds apart. Each slot is given to one refresh."""

    def __init__(self, width_s: float = SLOT_WIDTH_S) -> None:
        self._width_s = width_s
        self._earlier_slots: dict[int, int] = {}  # maps a taken slot to an earlier slot; slots in between are taken
        self._cleanup_at = MIN_SLOTS_BEFORE_CLEANUP

    def __len__(self) -> int:
        """Return how many taken slots are stored."""
        return len(self._earlier_slots)

    def reserve(self, due: float, *, earliest: float, now: float) -> float:
        """Take the latest free slot up to `due` and return its time; return `due` itself if no slot is free.

        The slot is not before `earliest` and not before `now`. All times are monotonic seconds.
        """
        if len(self._earlier_slots) >= self._cleanup_at:
            self._forget(now)
        last_slot = int(due / self._width_s)
        free_slot = self._latest_free(last_slot)
        moment = due if free_slot == last_slot else free_slot * self._width_s
        if moment < max(earliest, now):
            return due
        self._earlier_slots[free_slot] = free_slot - 1
        return moment

    def _forget(self, now: float) -> None:
        """Remove the slots that have passed. `reserve` calls this rarely, because it scans all slots."""
        passed = int(now / self._width_s)
        self._earlier_slots = {
            slot: earlier_slot for slot, earlier_slot in self._earlier_slots.items() if slot >= passed
        }
        self._cleanup_at = 2 * len(self._earlier_slots) + MIN_SLOTS_BEFORE_CLEANUP

    def _latest_free(self, last_slot: int) -> int:
        """Return the latest free slot up to `last_slot`, and shorten the path of later searches."""
        candidate, passed = last_slot, list[int]()
        while (earlier_slot := self._earlier_slots.get(candidate)) is not None:
            passed.append(candidate)
            candidate = earlier_slot
        for slot in passed:
            self._earlier_slots[slot] = candidate
        return candidate


MIN_WINDOW: Final = timedelta(seconds=2)
MAX_WINDOW: Final = timedelta(seconds=300)
PART_OF_LIFE: Final = 0.1
MAX_PART_OF_LIFE: Final = 0.5  # maximum refresh window as a part of the lifetime, so that a new token is never due
JITTER: Final = 0.2  # the refresh window is shortened by at most this share
# Requests wait for a refresh in this time before the expiry: one second for rounding, plus the network time.
WAIT_WINDOW: Final = timedelta(seconds=1.1)
MAX_WAIT_SHARE: Final = 0.75  # maximum share of the refresh window for WAIT_WINDOW; the jitter leaves 0.8 of it


def refresh_from(connection: Connection, provider: Provider) -> datetime | None:
    """Return from when the token is refreshed in the background; None if its expiry is unknown.

    Requests still use the old token during this refresh. `token_expiration_buffer` in the catalog entry, in seconds,
    replaces the default refresh window. The window is at most half of the token's lifetime.
    """
    if connection.expires_at is None:
        return None
    return connection.expires_at - _refresh_window(connection, provider, connection.expires_at) * (
        1 - JITTER * share(f"{connection.uid}/{connection.version}")
    )


def requests_wait_from(connection: Connection, provider: Provider) -> datetime | None:
    """Return the time from which a request waits for the refresh; None if the token's expiry is unknown."""
    if connection.expires_at is None:
        return None
    return connection.expires_at - min(
        WAIT_WINDOW, _refresh_window(connection, provider, connection.expires_at) * MAX_WAIT_SHARE
    )


def refresh_at(
    connection: Connection, provider: Provider, now: float, slots: RefreshSlots, *, within_s: float
) -> float | None:
    """Return when to start the refresh, in monotonic seconds like `now`.

    Return None if the time of `refresh_from` has passed or is more than `within_s` seconds away.

    If many refreshes are due together, the time is before `refresh_from`, but not before half of the token's lifetime.
    """
    due = refresh_from(connection, provider)
    if due is None or connection.expires_at is None:
        return None
    left_s = (due - clock.now()).total_seconds()
    if not 0 < left_s <= within_s:
        return None
    half_s = lifetime(connection, connection.expires_at).total_seconds() / 2
    window_s = (connection.expires_at - due).total_seconds()
    return slots.reserve(now + left_s, earliest=now + left_s + window_s - half_s, now=now)


def seconds_left(connection: Connection, provider: Provider, now: datetime, *, max_s: float) -> float:
    """Return the seconds until the next of `refresh_from`, `requests_wait_from` and the expiry.

    Return 0 if the credential has expired, and `max_s` if its expiry is unknown.
    """
    if connection.expires_at is None:
        return max_s
    moments = (refresh_from(connection, provider), requests_wait_from(connection, provider), connection.expires_at)
    return min(
        ((moment - now).total_seconds() for moment in moments if moment is not None and now < moment), default=0.0
    )


def _refresh_window(connection: Connection, provider: Provider, expires_at: datetime) -> timedelta:
    life = lifetime(connection, expires_at)
    if provider.token_expiration_buffer is not None:
        window = timedelta(seconds=provider.token_expiration_buffer)
    else:
        window = min(max(MIN_WINDOW, life * PART_OF_LIFE), MAX_WINDOW)
    return min(window, life * MAX_PART_OF_LIFE)


def lifetime(connection: Connection, expires_at: datetime) -> timedelta:
    """Return the lifetime of the connection's access token, counted from when it was obtained."""
    return max(expires_at - (connection.last_refreshed_at or connection.created_at), timedelta(0))


def share(key: str) -> float:
    """Return a number from 0 to 1, computed from a hash of `key`, to spread the refreshes of many connections.

    All nodes compute the same number for a key.
    """
    return int.from_bytes(hashlib.blake2s(key.encode(), digest_size=4).digest(), "big") / 0xFFFFFFFF


# ── Computes when a refresh token expires by the catalog entry, and when to refresh an unused connection before that.

# An unused refresh token is refreshed after `UNUSED_FROM` to `UNUSED_FROM + UNUSED_SPREAD` of its lifetime. The time
# differs between connections, so that a mass import does not cause a mass refresh.
UNUSED_FROM: Final = 0.5
UNUSED_SPREAD: Final = 0.25


def idle_limit(provider: Provider) -> timedelta | None:
    """Return how long a refresh token lives without a refresh; None if the entry states no such limit.

    A limit for an inactive owner counts as a limit for disuse, because no provider reports whether the owner is active.
    If each refresh returns a new token, a limit on a token's age is a limit on disuse too.
    """
    policy = provider.refresh
    if policy is None:
        return None
    days_limits = [policy.expires_after_days_unused, policy.expires_after_days_owner_inactive]
    if policy.rotating:
        days_limits.append(policy.expires_after_days)
    known_days = [days for days in days_limits if days is not None]
    return timedelta(days=min(known_days)) if known_days else None


def age_limit(provider: Provider) -> timedelta | None:
    """Return how long a refresh token lives regardless of use; None if no limit is known. No refresh extends the
    limit."""
    policy = provider.refresh
    if policy is None or policy.expires_after_days is None or policy.rotating:
        return None
    return timedelta(days=policy.expires_after_days)


def refresh_tokens_expire(provider: Provider) -> bool:
    """Return whether the refresh tokens of this provider's connections expire by themselves."""
    by_access_token = provider.refresh is not None and bool(provider.refresh.by_access_token)
    return by_access_token or idle_limit(provider) is not None or age_limit(provider) is not None


def lifespan(
    provider: Provider, credential: Mapping[str, Any], *, key: str, granted_at: datetime, refreshed_at: datetime
) -> Lifespan:
    """Return the lifespan of the token that refreshes `credential`.

    That token is a refresh token, or an access token that the provider exchanges for a new one. `key`: a string that
    differs between connections, to spread their refreshes.
    """
    mode = modes().get(provider.auth_mode)
    if mode is None or credential["type"] not in mode.types():
        return Lifespan()
    token_ends = mode.expires_at(credential)
    if not mode.refreshable(credential, provider):
        return Lifespan(token_ends)
    needs_valid_token = needs_valid_access_token(provider, credential)
    if not _has_token_for_refresh(provider, credential):
        return Lifespan(settled=not needs_valid_token)
    unused_limit, max_age = idle_limit(provider), age_limit(provider)
    end_times = [granted_at + max_age] if max_age is not None else []
    unused_limits = [unused_limit] if unused_limit is not None else []
    if needs_valid_token and token_ends is not None:
        unused_limits.append(max(token_ends - refreshed_at, timedelta()))
    keep_alive_at = None
    if unused_limits:
        end_times.append(refreshed_at + min(unused_limits))
        keep_alive_at = refreshed_at + min(unused_limits) * (UNUSED_FROM + UNUSED_SPREAD * share(key))
    dies_at = min(end_times) if end_times else None
    return Lifespan(
        dies_at,
        keep_alive_at if dies_at is None or keep_alive_at is None or keep_alive_at < dies_at else None,
        not needs_valid_token,
    )


def needs_valid_access_token(provider: Provider, credential: Mapping[str, Any]) -> bool:
    """Return whether `credential` is refreshed by its access token alone, which must then be valid."""
    return refreshes_by_access_token(provider) and not credential.get("refresh_token")


def refreshable_after_expiry(provider: Provider, credential: Mapping[str, Any]) -> bool:
    """Return whether `credential` can be refreshed after its access token has expired."""
    mode = modes()[provider.auth_mode]
    return mode.refreshable(credential, provider) and not needs_valid_access_token(provider, credential)


def ends_with_token(provider: Provider, credential: Mapping[str, Any]) -> bool:
    """Return whether the access token in `credential` expires and cannot be refreshed."""
    mode = modes().get(provider.auth_mode)
    if not isinstance(mode, OAuth2) or credential["type"] not in mode.types():
        return False
    return mode.expires_at(credential) is not None and not mode.refreshable(credential, provider)


def refresh_token_advice(provider: Provider, integration: Integration | None) -> str:
    """Return advice on how to get a refresh token, depending on the catalog entry and the integration's scopes."""
    own_scopes = integration.scopes if integration is not None else None
    return advice_on_refresh_token(provider, own_scopes if own_scopes is not None else provider.default_scopes or ())


def _has_token_for_refresh(provider: Provider, credential: Mapping[str, Any]) -> bool:
    by_access_token = provider.refresh is not None and provider.refresh.by_access_token
    user = credential.get("user")
    return bool(
        credential.get("refresh_token") or by_access_token or (isinstance(user, Mapping) and user.get("refresh_token"))
    )
