"""Connections whose end is in sight and cannot be put off: each is told of in time, once for each number of days."""

from datetime import datetime, timedelta

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.event import Event
from gateway.records.states import ENDED
from gateway.store.outbox import Outbox
from gateway.store.tables import connections
from gateway.store.transactions import Transactions


class ExpiringStore:
    """Asks one range of the index on the end of connections, whatever their number."""

    def __init__(self, transactions: Transactions, outbox: Outbox) -> None:
        self._transactions = transactions
        self._outbox = outbox

    async def tell(self, environment: str, days: int, *, now: datetime, limit: int) -> int:
        """Write `connection.expiring` for those that end within so many `days` and were not told of so late; how many."""
        table = connections.c
        wanted = select(table.id).where(
            table.environment == environment,
            table.dies_at > now,
            table.dies_at <= now + timedelta(days=days),
            table.keep_alive_at.is_(None),
            table.state.not_in(sorted(ENDED)),
            or_(table.expiry_told_days.is_(None), table.expiry_told_days > days),
        )

        async def write(db: AsyncConnection) -> int:
            ids = list((await db.execute(wanted.order_by(table.dies_at).limit(limit).with_for_update())).scalars())
            for one in ids:
                await db.execute(update(connections).where(table.id == one).values(expiry_told_days=days))
                await self._outbox.note(db, one, Event.EXPIRING, now=now)
            return len(ids)

        async with self._transactions.read() as db:  # most often there is none, and no write need wait for its turn
            if (await db.execute(wanted.limit(1))).first() is None:
                return 0
        return await self._transactions.write(write)
