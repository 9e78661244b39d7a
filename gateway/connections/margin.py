"""When a token is renewed ahead of its end: min(300 s, a tenth of its lifetime), less up to 20 % of jitter.

On the last stretch of that, half of it and a second at most, a request waits for the renewal: its token could be dead on
arrival, since providers count from when they made it and we from when it came, and not every provider answers 401 then.
"""

import hashlib
from datetime import datetime, timedelta
from typing import Final

from gateway import clock
from gateway.catalog.provider import Provider
from gateway.connections.slots import Slots
from gateway.records.connection import Connection

LONGEST: Final = timedelta(seconds=300)
PART: Final = 0.1
JITTER: Final = 0.2
LAST_STRETCH: Final = timedelta(seconds=1)


def refresh_from(connection: Connection, provider: Provider) -> datetime | None:
    """From then on it is renewed behind the requests that use it; None where no end is known.

    The entry's `token_expiration_buffer` (seconds) overrides the margin, capped at half the lifetime, so that a token
    is never born due.
    """
    if connection.expires_at is None:
        return None
    return connection.expires_at - _margin(connection, provider, connection.expires_at) * (
        1 - JITTER * _share(connection)
    )


def last_from(connection: Connection, provider: Provider) -> datetime | None:
    """From then on its renewal is worth waiting for; None where no end is known."""
    if connection.expires_at is None:
        return None
    return connection.expires_at - min(LAST_STRETCH, _margin(connection, provider, connection.expires_at) / 2)


def renew_at(connection: Connection, provider: Provider, now: float, slots: Slots, *, within_s: float) -> float | None:
    """When it is begun, on the monotonic clock, `now` on which it is; None where that has come, or is further than `within_s`.

    In a crowd that is earlier than `refresh_from`, but not before half of its lifetime is over.
    """
    due = refresh_from(connection, provider)
    if due is None or connection.expires_at is None:
        return None
    left_s = (due - clock.now()).total_seconds()
    if not 0 < left_s <= within_s:
        return None
    half_s = _lifetime(connection, connection.expires_at).total_seconds() / 2
    ahead_s = (connection.expires_at - due).total_seconds()
    return slots.take(now + left_s, earliest=now + left_s + ahead_s - half_s, now=now)


def seconds_left(connection: Connection, provider: Provider, now: datetime, *, at_most: float) -> float:
    """Until the credential must be looked at again: at its margin, at its last stretch, at its end; else `at_most`."""
    if connection.expires_at is None:
        return at_most
    ahead = (refresh_from(connection, provider), last_from(connection, provider), connection.expires_at)
    return min(((at - now).total_seconds() for at in ahead if at is not None and now < at), default=0.0)


def _margin(connection: Connection, provider: Provider, expires_at: datetime) -> timedelta:
    lifetime = _lifetime(connection, expires_at)
    if provider.token_expiration_buffer is not None:
        return min(timedelta(seconds=provider.token_expiration_buffer), lifetime / 2)
    return min(LONGEST, lifetime * PART)


def _lifetime(connection: Connection, expires_at: datetime) -> timedelta:
    return max(expires_at - (connection.last_refreshed_at or connection.created_at), timedelta(0))


def _share(connection: Connection) -> float:
    """0 … 1, the same on every node for one credential and different for its neighbours, so that renewals spread."""
    digest = hashlib.blake2s(f"{connection.uid}/{connection.version}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 0xFFFFFFFF
