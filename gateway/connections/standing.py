"""The facts about a connection's refresh by which `gateway.refresh.decision` decides: its row, this machine, this node."""

from datetime import datetime, timedelta
from typing import Final

from gateway import clock
from gateway.catalog.load import Catalog
from gateway.connections.backoff import ROTATION_LOST
from gateway.records.connection import Connection
from gateway.refresh import decision
from gateway.refresh.decision import Facts, Holder, Node, Step, next_step
from gateway.store import Store

FENCE: Final = timedelta(seconds=60)
"""How long after the end of a lease its holder's machine may still come back and finish, before others go on without it."""
TAKEN_UP: Final = frozenset({Holder.HERE_DEAD, Holder.HERE_ENDED})
CLAIMING: Final = frozenset({Step.CLAIM, Step.TAKE_UP, Step.SEND_AGAIN})


class Standing:
    """Reads files of this machine where an intent is open, and nothing else."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store = store
        self._catalog = catalog

    async def step(self, row: Connection) -> Step:
        """What this node may do with `row` now."""
        return next_step(await self.facts(row))

    async def facts(self, row: Connection) -> Facts:
        intent, lease = row.intent is not None, _lease(row, clock.now())
        holder, recorded = Holder.NOBODY if row.lease is None else Holder.ELSEWHERE, False
        if intent:
            holder = await self._store.holders.of(row.lease)
            asked = lease is not decision.Lease.HELD and holder not in TAKEN_UP  # else it decides nothing
            recorded = asked and await self._store.journal.recorded(row)
        return Facts(
            node=self._node(),
            intent=intent,
            lease=lease,
            holder=holder,
            recorded=recorded,
            rotates=row.rotates or self._declared_rotating(row),
            reported=intent and row.failure is not None and row.failure.code == ROTATION_LOST,
        )

    def _node(self) -> Node:
        if clock.offset.refused:
            return Node.CLOCK_OFF
        return Node.RECONCILING if self._store.failover.reconciling else Node.READY

    def _declared_rotating(self, row: Connection) -> bool:
        provider = self._catalog.get(row.provider)
        return provider is not None and provider.refresh is not None and bool(provider.refresh.rotating)


def _lease(row: Connection, now: datetime) -> decision.Lease:
    """By this node's measure of the database's time; the claim itself is judged by the database."""
    if row.lease is None:
        return decision.Lease.FREE
    if row.lease.until > now:
        return decision.Lease.HELD
    return decision.Lease.RUN_OUT if row.lease.until + FENCE > now else decision.Lease.LONG_RUN_OUT
