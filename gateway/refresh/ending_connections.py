"""Records connections whose access token has expired and cannot be refreshed, even if no call uses them."""

from datetime import datetime
from typing import Final

import structlog

from gateway import clock
from gateway.auth import modes
from gateway.errors import CredentialUnreadable, Unavailable
from gateway.generation import CurrentGeneration
from gateway.records.connection import Connection, RefreshFailure
from gateway.refresh.backoff import NOT_REFRESHABLE
from gateway.refresh.save_tokens import log_fields
from gateway.refresh.schedule import refreshable_after_expiry
from gateway.store import Store

ROWS_PER_QUERY: Final = 100  # credentials decrypted before the event loop runs other tasks
MESSAGE: Final = "the access token has expired, and the provider gave no refresh token"

log = structlog.get_logger(__name__)


def token_end_failure(now: datetime) -> RefreshFailure:
    """Return the failure of a connection whose access token has expired and cannot be refreshed."""
    return RefreshFailure(NOT_REFRESHABLE, MESSAGE, True, now, 1)


class EndedConnectionRecorder:
    """Records connections whose access token has expired and cannot be refreshed.

    Only the process that does the keep-alive uses a recorder.
    """

    def __init__(self, store: Store, current: CurrentGeneration) -> None:
        self._store = store
        self._current = current

    async def record(self) -> int:
        """Record every connection that has ended, and return the number of recorded connections.

        Skip a connection that another process refreshes now; the next run checks the connection again.
        """
        done, after = 0, None
        while rows := await self._store.expiring.token_ended(clock.now(), after=after, limit=ROWS_PER_QUERY):
            after = rows[-1]
            judged = [(row, self._is_dead(row)) for row in rows]
            dead = [row for row, is_dead in judged if is_dead]
            alive = [row for row, is_dead in judged if is_dead is False]
            await self._store.expiring.mark_checked(alive, now=clock.now())
            for row in await self._store.expiring.end(dead, token_end_failure(clock.now())):
                log.info("connection_needs_reauth", **log_fields(row.ref), reason=NOT_REFRESHABLE)
                done += 1
        return done

    def _is_dead(self, row: Connection) -> bool | None:
        """Return True if the credential can never be refreshed; None if its encryption key is not in the keyring yet.

        Also return False if this method cannot decide: the catalog entry is gone or has another auth mode now, or the
        row is damaged.
        """
        provider = self._current.generation.catalog.get(row.provider)
        mode = modes().get(provider.auth_mode) if provider is not None else None
        if provider is None or mode is None:
            return False
        try:
            credential = self._store.open(row.credential)
        except CredentialUnreadable:
            return False
        except Unavailable:
            return None
        return credential["type"] in mode.types() and not refreshable_after_expiry(provider, credential)
