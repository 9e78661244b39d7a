"""Old rows of tables that only grow at their end, removed so that other writes hardly wait."""

import asyncio
from typing import Final

from sqlalchemy import ColumnElement, Table, delete, select

from gateway import clock
from gateway.store.transactions import Transactions

AT_ONCE: Final = 1000  # rows a transaction: a few milliseconds, in which SQLite has no other writer


async def prune_oldest(transactions: Transactions, table: Table, old: ColumnElement[bool]) -> int:
    """Remove the rows of `table` that are `old`, the lowest ids first. Returns how many.

    Ids and ages rise together in such a table, so the primary key alone finds them, however large it is. After each
    transaction others have as much time as it took.
    """
    oldest = select(table.c.id).order_by(table.c.id).limit(AT_ONCE).scalar_subquery()
    gone = delete(table).where(table.c.id.in_(oldest), old)
    total = 0
    while True:
        begun = clock.monotonic()
        removed = (await transactions.write(lambda db: db.execute(gone))).rowcount
        if not removed:  # or another node has just removed them
            return total
        total += removed
        await asyncio.sleep(clock.monotonic() - begun)
