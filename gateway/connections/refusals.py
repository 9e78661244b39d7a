"""What follows when a provider answers 401: the credential is renewed ahead of its time, once for all calls that it refuses.

A 401 leads to a renewal however young the token is, but to one only: where the provider refuses the token of that renewal
too, the 401 is passed on until `again_after` is over.
"""

import asyncio
from collections import OrderedDict
from datetime import timedelta
from typing import Final, Protocol

import structlog

from gateway import clock
from gateway.catalog.provider import Provider
from gateway.connections import backoff
from gateway.connections.fitting import mode_for
from gateway.connections.margin import lifetime
from gateway.connections.opened import Opened
from gateway.connections.renew import Renewer
from gateway.errors import GatewayError
from gateway.records.connection import Connection, ConnectionRef
from gateway.store import Store

AGAIN_AFTER: Final = timedelta(seconds=60)  # from one renewal that a 401 leads to until the next
SHORTEST: Final = timedelta(seconds=1)  # the same for tokens of a few seconds
MOST_NOTED: Final = 10_000

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
        self._refused: dict[tuple[ConnectionRef, int], asyncio.Task[Opened | None]] = {}
        self._renewed_at: OrderedDict[ConnectionRef, float] = OrderedDict()  # monotonic, of renewals for a 401

    async def newer_than(self, sent: Opened) -> Opened | None:
        """The connection with a newer credential than `sent` has, which the provider has just answered with a 401.

        Renewed now, unless that was done already, here or elsewhere. None where a newer one is not to be had: the mode
        knows no renewal, a 401 has just led to one, or the token endpoint refuses or is silent.
        """
        newer = await asyncio.shield(self.start(sent))
        return newer if newer is not None and newer.connection.version > sent.connection.version else None

    def start(self, sent: Opened) -> "asyncio.Task[Opened | None]":
        """The task that does that, one for all calls with this credential; it outlives the calls."""
        key = sent.connection.ref, sent.connection.version
        task = self._refused.get(key)
        if task is None:
            task = self._refused[key] = asyncio.create_task(self._after(sent))
            task.add_done_callback(lambda done: (self._refused.pop(key, None), done.cancelled() or done.exception()))
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
        now = clock.monotonic()
        last = self._renewed_at.get(row.ref)
        if last is not None and now - last < again_after(row).total_seconds():
            return None
        held = self._store.open(row.credential)
        provider = self._rows.provider_of(row)
        refreshable = mode_for(provider, held, row.ref).refreshable(held, provider)
        if not refreshable or not backoff.may_try(row, clock.now()):
            return None
        self._renewed_at[row.ref] = now
        self._renewed_at.move_to_end(row.ref)
        if len(self._renewed_at) > MOST_NOTED:
            self._renewed_at.popitem(last=False)
        return await self._renewer.renewed(row)


def again_after(row: Connection) -> timedelta:
    """How long after a renewal for a 401 the next 401 leads to another: a minute, or the token's lifetime if shorter."""
    if row.expires_at is None:
        return AGAIN_AFTER
    return min(AGAIN_AFTER, max(SHORTEST, lifetime(row, row.expires_at)))
