"""What other processes must see: an append-only log of the connections that were written, stored, removed or broken."""

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import bindparam, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connection import ConnectionRef, Mark
from gateway.store.last import execute_last
from gateway.store.own_changes import OwnChanges
from gateway.store.pruning import prune_oldest
from gateway.store.tables import changes
from gateway.store.transactions import Transactions
from gateway.store.watch import Watch

KEPT: Final = timedelta(days=1)
CHANNEL: Final = "gateway_changes"
TURN: Final = select(func.pg_advisory_xact_lock(0x6761_7465_7761_7902))  # the name, and which of our locks
NOTIFY: Final = select(func.pg_notify(CHANNEL, ""))
NOTED: Final = insert(changes)
LATER: Final = select(changes).where(changes.c.id > bindparam("last_id")).order_by(changes.c.id)
LAST: Final = select(func.coalesce(func.max(changes.c.id), 0))
ENDS: Final = select(func.coalesce(func.min(changes.c.id), 0), func.coalesce(func.max(changes.c.id), 0))


class ChangesMissed(Exception):
    """The log no longer reaches back to where the reader stood: whatever it kept may be stale. Go on from `last_id`."""

    def __init__(self, last_id: int) -> None:
        super().__init__("changes were pruned before they were read")
        self.last_id = last_id


async def note_change(db: AsyncConnection, ref: ConnectionRef, now: datetime, *, ends: bool = False) -> int:
    """Add `ref` to the log, as the last thing that the transaction of the change itself writes. Returns the entry's id.

    `ends`: nor does it read anything or raise afterwards.
    PostgreSQL gives ids out of turn, so whoever appends there holds a lock until the commit: a reader that has seen an
    id has seen all before it. It is the last lock that a transaction takes, so no two wait for each other.
    """
    postgres = db.dialect.name == "postgresql"
    if postgres:
        await db.execute(TURN)
    entry = {"at": now, **ref._asdict()}
    noted = await (execute_last(db, NOTED, entry) if ends and not postgres else db.execute(NOTED, entry))
    if postgres:
        await db.execute(NOTIFY)
    (change_id,) = noted.inserted_primary_key or (0,)
    return int(change_id)


class ChangeLog:
    """Read by every process, its own writes included; of some of these it knows what they made of the row."""

    def __init__(self, transactions: Transactions, watch: Watch, own: OwnChanges) -> None:
        self._transactions = transactions
        self._watch = watch
        self._own = own

    async def last_id(self) -> int:
        """Where the log ends now: where a process that has kept nothing yet begins to read."""
        async with self._transactions.read() as db:
            found: int = (await db.execute(LAST)).scalar_one()
            return found

    async def since(self, last_id: int) -> tuple[int, dict[ConnectionRef, Mark | None]]:
        """The id to ask with next, and the connections that changed after `last_id`. Raises ChangesMissed.

        With each the mark that its row had then, where all its changes were renewals of this process; else None.
        Ids are in the order of commits: SQLite has one writer, and `note_change` sees to it elsewhere.
        """
        async with self._transactions.read() as db:
            rows = (await db.execute(LATER, {"last_id": last_id})).all()
            newest: int = rows[-1].id if rows else last_id
            if not rows or rows[0].id != last_id + 1:  # else nothing lies between, and the log reaches back
                first, last = (await db.execute(ENDS)).one()  # last, so that what is pruned in between shows
                if first > last_id + 1 or last < last_id:  # the latter after an older backup was restored
                    self._own.clear()  # whose ids may be others' there
                    raise ChangesMissed(max(newest, last) if rows else last)
        self._own.forget(last_id)
        changed: dict[ConnectionRef, Mark | None] = {}
        for row in rows:
            ref = ConnectionRef(row.environment, row.integration_id, row.connection_id)
            changed[ref] = self._own.of(row.id) if changed.get(ref, True) else None
        return newest, changed

    async def version(self) -> Hashable:
        """Something that differs from last time if anything was committed since. Raises Unavailable, ChangesMissed."""
        return await self._watch.version()

    async def moved(self, at_most_s: float) -> None:
        """Return as soon as something may have changed, or after so many seconds. Never raises."""
        await self._watch.moved(at_most_s)

    async def close(self) -> None:
        await self._watch.close()

    async def prune(self, now: datetime) -> None:
        """Forget what is older than a day, but never the last entry, by which a reader sees whether it missed any."""
        old = (changes.c.at < now - KEPT) & (changes.c.id < LAST.scalar_subquery())
        await prune_oldest(self._transactions, changes, old)
