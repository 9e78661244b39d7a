"""When a token is renewed ahead of its end: min(300 s, a tenth of its lifetime), less up to 20 % of jitter."""

import hashlib
from datetime import datetime, timedelta
from typing import Final

from gateway import clock
from gateway.catalog.provider import Provider
from gateway.records.connection import Connection

LONGEST: Final = timedelta(seconds=300)
PART: Final = 0.1
JITTER: Final = 0.2


def refresh_from(connection: Connection, provider: Provider) -> datetime | None:
    """From then on it is renewed behind the requests that use it; None where no end is known.

    The entry's `token_expiration_buffer` (seconds) overrides the margin, capped at half the lifetime, so that a token
    is never born due.
    """
    if connection.expires_at is None:
        return None
    obtained = connection.last_refreshed_at or connection.created_at
    lifetime = max(connection.expires_at - obtained, timedelta(0))
    if provider.token_expiration_buffer is not None:
        margin = min(timedelta(seconds=provider.token_expiration_buffer), lifetime / 2)
    else:
        margin = min(LONGEST, lifetime * PART)
    return connection.expires_at - margin * (1 - JITTER * _share(connection))


def renew_at(connection: Connection, provider: Provider, now: float) -> float | None:
    """The same on the monotonic clock, `now` on which it is; None where it has come already."""
    due = refresh_from(connection, provider)
    left_s = (due - clock.now()).total_seconds() if due is not None else None
    return now + left_s if left_s is not None and left_s > 0 else None


def seconds_left(connection: Connection, provider: Provider, now: datetime, *, at_most: float) -> float:
    """Until the credential must be looked at again: until its margin begins, or inside it until its end; else `at_most`."""
    due = refresh_from(connection, provider)
    if due is None or connection.expires_at is None:
        return at_most
    return ((due if now < due else connection.expires_at) - now).total_seconds()


def _share(connection: Connection) -> float:
    """0 … 1, the same on every node for one credential and different for its neighbours, so that renewals spread."""
    digest = hashlib.blake2s(f"{connection.uid}/{connection.version}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 0xFFFFFFFF
