"""What follows when a provider answers 401: the credential is renewed ahead of its time, once for all whom it refuses."""

import asyncio
from datetime import timedelta
from typing import Final, Protocol

import structlog

from gateway import clock
from gateway.catalog.provider import Provider
from gateway.connections import backoff
from gateway.connections.fitting import mode_for
from gateway.connections.opened import Opened
from gateway.connections.renew import Renewer
from gateway.errors import GatewayError
from gateway.records.connection import Connection, ConnectionRef
from gateway.store import Store

RENEWED_LATELY: Final = timedelta(seconds=60)  # a token younger than this is not renewed for a provider's 401

log = structlog.get_logger(__name__)


class Rows(Protocol):
    """Where connections are kept (`connections.live`)."""

    async def known(self, ref: ConnectionRef) -> Connection:
        """The row as it is in memory or, where it is not, in the store. Raises NotFound."""

    def replace(self, connection: Connection) -> None:
        """Take over a row that was just written."""

    async def opened(self, environment: str, integration_id: str, connection_id: str) -> Opened:
        """The connection, ready for use."""

    def provider_of(self, connection: Connection) -> Provider:
        """The entry that the connection was made with. Raises ReconnectNeeded where its integration moved to another."""


class Refusals:
    """The renewals that a refused credential has set off, one a connection."""

    def __init__(self, store: Store, renewer: Renewer, rows: Rows) -> None:
        self._store = store
        self._renewer = renewer
        self._rows = rows
        self._refused: dict[ConnectionRef, asyncio.Task[Opened | None]] = {}

    async def newer_than(self, sent: Opened) -> Opened | None:
        """The connection with a newer credential than `sent` has, which the provider has just answered with a 401.

        Renewed now, unless that was done already, here or elsewhere. None where a newer one is not to be had: the mode
        knows no renewal, the token is fresh from the token endpoint, or that refuses or is silent.
        """
        newer = await asyncio.shield(self.start(sent))
        return newer if newer is not None and newer.connection.version > sent.connection.version else None

    def start(self, sent: Opened) -> "asyncio.Task[Opened | None]":
        """The task that does that, one for all whom the provider refuses meanwhile; it outlives whoever asked."""
        ref = sent.connection.ref
        task = self._refused.get(ref)
        if task is None:
            task = self._refused[ref] = asyncio.create_task(self._after(sent))
            task.add_done_callback(lambda done: (self._refused.pop(ref, None), done.cancelled() or done.exception()))
        return task

    async def close(self) -> None:
        """Let go of what waits for a renewal; the renewal itself is the renewer's."""
        for task in list(self._refused.values()):
            task.cancel()
        await asyncio.gather(*self._refused.values(), return_exceptions=True)

    async def _after(self, sent: Opened) -> Opened | None:
        ref, version = sent.connection.ref, sent.connection.version
        try:
            known = await self._rows.known(ref)
            row = known if known.version > version else await self._renewed(known)
            if row is None:
                return None
            self._rows.replace(row)
            return await self._rows.opened(*ref)
        except GatewayError as fault:
            log.info("no_newer_credential", connection_id=ref.connection_id, integration=ref[1], detail=fault.message)
            return None

    async def _renewed(self, row: Connection) -> Connection | None:
        """`row` renewed ahead of its time, by this node or another; None where that cannot or shall not be."""
        now = clock.now()
        first = row.version == 1  # an import may bring a token that is old
        if not first and row.last_refreshed_at is not None and now - row.last_refreshed_at < RENEWED_LATELY:
            return None
        held = self._store.open(row.credential)
        provider = self._rows.provider_of(row)
        if not mode_for(provider, held, row.ref).refreshable(held, provider) or not backoff.may_try(row, now):
            return None
        return await self._renewer.renewed(row)
