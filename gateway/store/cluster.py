"""What nodes share: work that one does for all, who holds a lease, a failover of the database.

A failover of the database: a standby that took over may lack the last commits of the primary, and with them new tokens.

Nodes write back what they have in memory (`ConnectionStore.write_back`). Until that is done nobody may claim a lease, since
the refresh token that the database shows may be spent. So each claim names the timeline that its node goes by, and fails on
any other; and each node waits RECONCILE_S after the new timeline was first seen, by the time of the database (ADR 42).
"""

import asyncio
import secrets
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from sqlalchemy import delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.journal.marker import lives
from gateway.records.connection import Lease
from gateway.refresh.decision import Holder
from gateway.store.backend import NONE, ONLY, ChangeWatch
from gateway.store.journal_recovery import RefreshJournal
from gateway.store.tables import task_leases, timelines
from gateway.store.transactions import Transactions, insert_if_absent

# ── Work that one node does for all: a lease by name, which another takes over when its holder no longer renews it.


class TaskLeases:
    """`owner` names a process; it may ask again for what it holds, which renews it."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def hold(self, name: str, *, owner: str, now: datetime, ttl: timedelta) -> bool:
        """Whether `owner` is the one that does the work of that name until `now` + `ttl`."""
        values = {"owner": owner, "until": now + ttl}
        free = or_(task_leases.c.owner == owner, task_leases.c.until <= now)

        async def write(db: AsyncConnection) -> bool:
            if await insert_if_absent(db, task_leases, {"name": name, **values}, key=["name"]):
                return True
            claim = update(task_leases).where(task_leases.c.name == name, free)
            return (await db.execute(claim.values(values))).rowcount == 1

        return await self._transactions.write(write)

    async def release(self, name: str, *, owner: str) -> None:
        """Let another take it at once; nothing happens if it is another's."""
        mine = delete(task_leases).where(task_leases.c.name == name, task_leases.c.owner == owner)
        await self._transactions.write(lambda db: db.execute(mine))


RECONCILE_S: Final = 5.0
KNOWN: Final = select(timelines).order_by(timelines.c.since)


class Failover:
    """`timeline`: the one that this node has reconciled with; None where the database has none, as SQLite. `sql`: what
    names the timeline in a statement, the same for as long as this process runs.
    """

    def __init__(self, transactions: Transactions, watch: ChangeWatch) -> None:
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


# ── Who holds a lease, by the owner's name: `{node}.{process}.{attempt}`.
#
# `node` names a machine (`node_id`), `process` the file that a process of it keeps locked for as long as it lives.
# Owners of former versions are `{process}.{attempt}`.

PARTS: Final = 3


class Holders:
    """`folder`: the journal's, where those files lie; None where there is none."""

    def __init__(self, folder: Path | None, node: str, journal: RefreshJournal) -> None:
        self._folder = folder
        self._node = node
        self._journal = journal
        self._without_file = secrets.token_hex(6)
        self._ours = {self._without_file}

    async def new_owner(self) -> str:
        """A name for one attempt of this process."""
        process = await self._journal.process_name() or self._without_file
        self._ours.add(process)
        return f"{self._node}.{process}.{uuid.uuid4().hex}"

    async def of(self, lease: Lease | None) -> Holder:
        """What is known here of the process that holds or held `lease`."""
        if lease is None:
            return Holder.NOBODY
        node, process = lease.owner.rpartition(".")[0].rpartition(".")[0], process_of(lease)
        former = lease.owner.count(".") == PARTS - 2
        elsewhere = Holder.HERE_ENDED if self._node == ONLY else Holder.ELSEWHERE
        if lease.owner.count(".") not in (PARTS - 1, PARTS - 2) or not process.isalnum():
            return elsewhere
        if process in self._ours:
            return Holder.HERE_ENDED
        if not former and node == NONE:
            return Holder.WITHOUT_JOURNAL
        if self._folder is None or not (former or node == self._node):
            return elsewhere
        alive = await asyncio.to_thread(lives, self._folder, process)
        if alive is None:
            return elsewhere if former else Holder.HERE_ENDED
        return Holder.HERE_ALIVE if alive else Holder.HERE_DEAD


def process_of(lease: Lease) -> str:
    """The name of its holder's process, and of its marker; empty where the owner names none."""
    return lease.owner.rpartition(".")[0].rpartition(".")[2]
