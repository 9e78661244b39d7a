"""When a token is renewed ahead of its end: min(300 s, a tenth of its lifetime), less up to 20 % of jitter."""

import hashlib
from datetime import datetime, timedelta
from typing import Final

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


def _share(connection: Connection) -> float:
    """0 … 1, the same on every node for one credential and different for its neighbours, so that renewals spread."""
    digest = hashlib.blake2s(f"{connection.uid}/{connection.version}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 0xFFFFFFFF
