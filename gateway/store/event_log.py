"""Events as an operator looks at them: list, look up, send again, forget."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, delete, exists, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connection import ConnectionRef
from gateway.records.event import Delivery, DeliveryState
from gateway.store.changes import note_change
from gateway.store.deliveries import COLUMNS, JOINED, NO_LEASE, delivery_of
from gateway.store.outbox import TRIED_FOR
from gateway.store.tables import deliveries, outbox, webhooks_seen
from gateway.store.transactions import Transactions

DELIVERED_KEPT: Final = timedelta(days=3)
DEAD_KEPT: Final = timedelta(days=30)
WEBHOOKS_REMEMBERED: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """All that is given must hold. `cursor`: the id of the delivery after which a list goes on."""

    environment: str
    state: DeliveryState | None = None
    connection_id: str | None = None
    message_ids: Sequence[str] = ()
    since: datetime | None = None
    limit: int = 100
    cursor: int | None = None


class EventLog:
    """Delivered events are kept for three days, dead ones for thirty."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def list(self, wanted: EventFilter) -> list[Delivery]:
        """The newest first."""
        conditions = [*_conditions(wanted), *([deliveries.c.id < wanted.cursor] if wanted.cursor is not None else [])]
        found = select(*COLUMNS).select_from(JOINED).where(*conditions).order_by(deliveries.c.id.desc())
        async with self._transactions.read() as db:
            return [delivery_of(row) for row in await db.execute(found.limit(wanted.limit))]

    async def replay(self, wanted: EventFilter, now: datetime) -> int:
        """Send these again from now on, for a day, under the ids they have; how many. `limit` and `cursor` do not count.

        What is being sent at this moment is left alone.
        """
        table = deliveries.c
        idle = or_(table.lease_until.is_(None), table.lease_until <= now)
        again = {"state": DeliveryState.PENDING.value, "attempts": 0, "due_at": now, "give_up_at": now + TRIED_FOR}
        again |= {"ended_at": None, **NO_LEASE}
        changed = update(deliveries).where(*_conditions(wanted), idle).values(again)

        async def write(db: AsyncConnection) -> int:
            returned = changed.returning(table.integration_id, table.connection_id)
            rows = (await db.execute(returned)).all()
            if rows:  # other processes look for work when something has changed
                first = rows[0]
                await note_change(
                    db, ConnectionRef(wanted.environment, first.integration_id, first.connection_id or ""), now
                )
            return len(rows)

        return await self._transactions.write(write)

    async def prune(self, now: datetime) -> None:
        """Forget what is over and old."""
        table = deliveries.c
        over = or_(_ended(DeliveryState.DELIVERED, now - DELIVERED_KEPT), _ended(DeliveryState.DEAD, now - DEAD_KEPT))
        unheard = ~exists().where(table.outbox == outbox.c.id)

        async def write(db: AsyncConnection) -> None:
            await db.execute(delete(deliveries).where(over))
            await db.execute(delete(outbox).where(outbox.c.at < now - DELIVERED_KEPT, unheard))
            await db.execute(delete(webhooks_seen).where(webhooks_seen.c.at < now - WEBHOOKS_REMEMBERED))

        await self._transactions.write(write)


def _conditions(wanted: EventFilter) -> list[ColumnElement[bool]]:
    table = deliveries.c
    conditions: list[ColumnElement[bool]] = [table.environment == wanted.environment]
    if wanted.state is not None:
        conditions.append(table.state == wanted.state.value)
    if wanted.connection_id is not None:
        conditions.append(table.connection_id == wanted.connection_id)
    if wanted.message_ids:
        conditions.append(table.message_id.in_(wanted.message_ids))
    if wanted.since is not None:
        conditions.append(table.at >= wanted.since)
    return conditions


def _ended(state: DeliveryState, before: datetime) -> ColumnElement[bool]:
    return (deliveries.c.state == state.value) & (deliveries.c.ended_at < before)
