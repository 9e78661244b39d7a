"""Renews a credential: one task a node for all who ask, in their turn, and no leaving client can cancel it."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from gateway import clock
from gateway.catalog.load import Catalog
from gateway.connections.dialogues import Dialogues
from gateway.connections.integrations import Integrations
from gateway.connections.redeem import Redeemer
from gateway.connections.turns import Turns
from gateway.errors import GatewayError, Unavailable
from gateway.metrics import Metrics
from gateway.metrics.families import REFRESHES
from gateway.records.connection import Connection, ConnectionRef
from gateway.refresh.decision import Step
from gateway.store import Store

WAIT_S: Final = 45.0

log = structlog.get_logger(__name__)


class Renewer:
    """Shared by everything that needs a fresh token."""

    def __init__(
        self, store: Store, integrations: Integrations, catalog: Catalog, dialogues: Dialogues, metrics: Metrics
    ) -> None:
        self.metrics = metrics
        self._redeemer = Redeemer(store, integrations, catalog, dialogues, metrics)
        self._turns = Turns()
        self._running: dict[ConnectionRef, asyncio.Task[Connection]] = {}

    def turn_to(self, integrations: Integrations, catalog: Catalog, dialogues: Dialogues) -> None:
        """Work by another configuration; what is being asked for ends under the one it began with."""
        self._redeemer.turn_to(integrations, catalog, dialogues)

    async def renewed(self, connection: Connection, *, force: bool = False) -> Connection:
        """The connection with a newer credential than `connection` holds.

        `force` asks the endpoint even while an earlier failure says to wait. Raises ReconnectNeeded or Unavailable, the
        latter also where a new pair is there and the store does not take it; it is kept and offered again meanwhile.
        """
        task = self.start(connection, force=force, urgent=True)
        done, _ = await asyncio.wait({task}, timeout=WAIT_S)
        if not done:
            raise Unavailable(
                "store_unavailable",
                "The token is being renewed, and that is slow: its provider, or the gateway's database that is to store "
                "it, takes long. Try again in 5 seconds.",
                retry_after_s=5,
            )
        return task.result()

    def start(self, connection: Connection, *, force: bool = False, urgent: bool = False) -> "asyncio.Task[Connection]":
        """The task that renews it, begun or joined; it outlives whoever asked for it. `urgent`: somebody waits for it."""
        task = self._running.get(connection.ref)
        if task is None:
            task = asyncio.create_task(self._renew(connection, force, urgent))
            self._running[connection.ref] = task
            task.add_done_callback(lambda done: self._ended(connection.ref, done))
        elif urgent:
            self._turns.urge(connection.ref)
        return task

    def under_way(self, ref: ConnectionRef) -> bool:
        """Whether it is being renewed by this process, or waits for its turn."""
        return ref in self._running

    async def next_step(self, row: Connection) -> Step:
        """What this node may do with `row`, as it is in the store now."""
        return await self._redeemer.standing.step(row)

    def start_behind(self, connection: Connection, then: Callable[["asyncio.Task[Connection]"], None]) -> None:
        """As `start`, unless it is under way: then whoever began it has asked already."""
        if connection.ref not in self._running:
            self.start(connection).add_done_callback(then)

    async def close(self, within_s: float = 30) -> None:
        """Let what is under way finish: an answer that arrives now may hold the only refresh token there is."""
        self._turns.close()
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=within_s)

    def _ended(self, ref: ConnectionRef, task: "asyncio.Task[Connection]") -> None:
        self._running.pop(ref, None)
        if task.cancelled():
            return
        fault = task.exception()
        if fault is not None and not isinstance(fault, GatewayError):
            self.metrics.add(REFRESHES, *ref[:2], "failed")
            log.error("refresh_crashed", connection_id=ref.connection_id, exc_info=fault)

    async def _renew(self, seen: Connection, force: bool, urgent: bool) -> Connection:
        left_s = (seen.expires_at - clock.now()).total_seconds() if seen.expires_at is not None else 0.0
        await self._turns.take(seen.ref, urgent=urgent, ends_at=clock.monotonic() + left_s)
        try:
            return await self._redeemer.redeem(seen, force=force)
        finally:
            self._turns.give_back(seen.ref)
