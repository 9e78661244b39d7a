"""What other processes must see: an append-only log of the connections that were written, stored, removed or broken."""

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connection import ConnectionRef
from gateway.store.tables import changes
from gateway.store.transactions import Transactions

KEPT: Final = timedelta(days=1)
LAST: Final = select(func.coalesce(func.max(changes.c.id), 0))


class ChangesMissed(Exception):
    """The log no longer reaches back to where the reader stood: whatever it kept may be stale. Go on from `last_id`."""

    def __init__(self, last_id: int) -> None:
        super().__init__("changes were pruned before they were read")
        self.last_id = last_id


async def note_change(db: AsyncConnection, ref: ConnectionRef, now: datetime) -> None:
    """Add `ref` to the log, in the transaction of the change itself."""
    await db.execute(insert(changes).values(at=now, **ref._asdict()))


class ChangeLog:
    """Read by every process, its own writes included."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def last_id(self) -> int:
        """Where the log ends now: where a process that has kept nothing yet begins to read."""
        async with self._transactions.read() as db:
            found: int = (await db.execute(LAST)).scalar_one()
            return found

    async def since(self, last_id: int) -> tuple[int, list[ConnectionRef]]:
        """The connections that changed after `last_id`, each once, and the id to ask with next. Raises ChangesMissed.

        Ids are in the order of commits, since SQLite has one writer.
        """
        later = select(changes).where(changes.c.id > last_id).order_by(changes.c.id)
        async with self._transactions.read() as db:
            first: int = (await db.execute(select(func.coalesce(func.min(changes.c.id), 0)))).scalar_one()
            rows = (await db.execute(later)).all()
        newest = rows[-1].id if rows else last_id
        if first > last_id + 1:
            raise ChangesMissed(newest)
        refs = dict.fromkeys(ConnectionRef(row.environment, row.integration_id, row.connection_id) for row in rows)
        return newest, list(refs)

    async def version(self) -> Hashable:
        """Something that differs from last time if anything was committed since, at the price of no table read.

        SQLite's data_version, which compares only with itself on the same connection, hence that connection's identity.
        """
        async with self._transactions.watch() as db:
            raw = await db.get_raw_connection()
            return id(raw.driver_connection), (await db.exec_driver_sql("PRAGMA data_version")).scalar_one()

    async def prune(self, now: datetime) -> None:
        """Forget what is older than a day, but never the last entry, by which a reader sees whether it missed any."""
        old = delete(changes).where(changes.c.at < now - KEPT, changes.c.id < LAST.scalar_subquery())
        await self._transactions.write(lambda db: db.execute(old))
