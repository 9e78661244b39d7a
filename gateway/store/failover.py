"""A failover of the database: a standby that took over may lack the last commits of the primary, and with them new tokens.

Nodes write back what they have in memory (`ConnectionStore.write_back`). Until that is done nobody may claim a lease, since
the refresh token that the database shows may be spent. So each claim names the timeline that its node goes by, and fails on
any other; and each node waits RECONCILE_S after the new timeline was first seen, by the time of the database (ADR 42).
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.store.tables import timelines
from gateway.store.transactions import Transactions
from gateway.store.upsert import insert_if_absent
from gateway.store.watch import Watch

RECONCILE_S: Final = 5.0
KNOWN: Final = select(timelines).order_by(timelines.c.since)


class Failover:
    """`timeline`: the one that this node has reconciled with; None where the database has none, as SQLite. `sql`: what
    names the timeline in a statement, the same for as long as this process runs.
    """

    def __init__(self, transactions: Transactions, watch: Watch) -> None:
        self._transactions = transactions
        self._watch = watch
        self.timeline: str | None = None
        self.sql: str | None = None
        self._begun = False
        self._until = 0.0

    @property
    def reconciling(self) -> bool:
        """Whether tokens in the database may be older than those that a node has in memory."""
        return self._begun or clock.monotonic() < self._until

    def begin(self) -> None:
        """The database may have lost commits."""
        self._begun = True

    async def end(self) -> None:
        """This node has written back what it had; also to be called at the start. Go by the present timeline."""
        timeline, wait_s = self._watch.timeline, RECONCILE_S if self._begun else 0.0
        if timeline is not None:
            known = await self._known()
            if timeline not in known:
                await self._add(timeline)
                known = await self._known()
            began, first = known[timeline], min(known.values())
            left_s = (began - clock.now()).total_seconds() + RECONCILE_S if began > first else 0.0
            wait_s = max(min(left_s, RECONCILE_S), wait_s)
            if self.timeline is None:
                self.sql = self._watch.timeline_sql
        self.timeline, self._begun = timeline, False
        self._until = clock.monotonic() + wait_s

    async def times(self) -> Sequence[datetime]:
        """When each failover was first noticed, oldest first."""
        return sorted((await self._known()).values())[1:]

    async def _known(self) -> dict[str, datetime]:
        async with self._transactions.read() as db:
            return {row.timeline: row.since for row in (await db.execute(KNOWN)).all()}

    async def _add(self, timeline: str) -> None:
        async def write(db: AsyncConnection) -> None:
            row = {"timeline": timeline, "since": clock.now()}
            await insert_if_absent(db, timelines, row, key=["timeline"])

        await self._transactions.write(write)
