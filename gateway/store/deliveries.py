"""Deliveries: which of them are due, and in which order they are sent. Also the list of events for operators.

A queue consists of the deliveries from one environment to one target. The deliveries of one sequence (a connection's
events) are sent in order: a process can claim only the first unfinished delivery. If this delivery is postponed, all
deliveries after it are postponed too. So a search for due deliveries does not read the whole backlog.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.audit import AuditAction, AuditEntry
from gateway.records.connection import ConnectionRef, Sealed
from gateway.records.event import Delivery, DeliveryOutcome, DeliveryState, EventContent
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.changes import record_change
from gateway.store.data_keys import DataKeys
from gateway.store.outbox import RETRY_PERIOD
from gateway.store.tables import deliveries, outbox, webhooks_seen
from gateway.store.transactions import Transactions
from gateway.vault import Vault

TargetQueue = tuple[str, str]

COLUMNS: Final = (
    *(deliveries.c.id, deliveries.c.message_id, deliveries.c.at, deliveries.c.environment, deliveries.c.integration_id),
    *(deliveries.c.connection_id, deliveries.c.target, deliveries.c.state, deliveries.c.attempts, deliveries.c.due_at),
    *(deliveries.c.give_up_at, deliveries.c.status, deliveries.c.detail, deliveries.c.ended_at),
    deliveries.c.outbox.label("outbox_id"),
    outbox.c.event,
)
JOINED: Final = deliveries.join(outbox, outbox.c.id == deliveries.c.outbox)
_EARLIEST_DUE: Final = select(func.min(deliveries.c.due_at)).where(deliveries.c.due_at.is_not(None))
NO_LEASE: Final[dict[str, Any]] = {"lease_owner": None, "lease_until": None}

_earlier = deliveries.alias("ahead")
_IS_FIRST_OF_SEQUENCE: Final = ~exists().where(
    _earlier.c.environment == deliveries.c.environment,
    _earlier.c.target == deliveries.c.target,
    _earlier.c.sequence == deliveries.c.sequence,
    _earlier.c.due_at.is_not(None),
    _earlier.c.id < deliveries.c.id,
)


@dataclass(frozen=True, slots=True)
class DueDeliveries:
    """The deliveries to send.

    `queues`: the queues with a delivery that is due now. `next_at`: when the next other delivery is due or the next
    lease expires, whichever is earlier; None if there is neither.
    """

    queues: Sequence[TargetQueue]
    next_at: datetime | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """The backlog of one environment.

    `pending`: the number of waiting deliveries. `oldest_at`: the time of the oldest waiting delivery.
    """

    environment: str
    pending: int
    oldest_at: datetime


class DeliveryStore:
    """Deliveries for the process that sends them.

    `owner`: the name of a process. A claimed delivery belongs to its owner until the lease expires.
    """

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys) -> None:
        self._transactions = transactions
        self._vault = vault
        self._keys = keys

    async def find_due(self, now: datetime) -> DueDeliveries:
        """Return the deliveries to send. Takes no lock."""
        table = deliveries.c
        async with self._transactions.read() as db:
            if (await db.execute(_EARLIEST_DUE)).scalar() is None:  # usually, no delivery is waiting
                return DueDeliveries((), None)
            queues_query = select(table.environment, table.target).where(_is_claimable(now)).distinct()
            next_due_query = select(func.min(table.due_at)).where(table.due_at > now)
            lease_end_query = select(func.min(table.lease_until)).where(
                table.due_at.is_not(None), table.lease_until > now
            )
            due_queues = [(row.environment, row.target) for row in await db.execute(queues_query)]
            next_times = [(await db.execute(query)).scalar() for query in (next_due_query, lease_end_query)]
        return DueDeliveries(due_queues, min((moment for moment in next_times if moment is not None), default=None))

    async def claim(
        self, queue: TargetQueue, *, owner: str, now: datetime, ttl: timedelta, limit: int
    ) -> list[Delivery]:
        """Claim at most `limit` due deliveries of `queue`, the longest overdue first.

        `owner` gets the lease until `now` + `ttl`.
        """
        table = deliveries.c
        of_queue = (table.environment == queue[0], table.target == queue[1])
        free_rows_query = (
            select(table.id).where(*of_queue, _is_claimable(now)).order_by(table.due_at, table.id).limit(limit)
        )
        lease = {"lease_owner": owner, "lease_until": now + ttl}

        async def write(db: AsyncConnection) -> list[Delivery]:
            ids = list((await db.execute(free_rows_query.with_for_update(skip_locked=True, of=deliveries))).scalars())
            if not ids:
                return []
            claim_update = update(deliveries).where(table.id.in_(ids), _is_unleased(now)).values(lease)
            claimed_ids = [row.id for row in await db.execute(claim_update.returning(table.id))]
            query = select(*COLUMNS).select_from(JOINED).where(table.id.in_(claimed_ids)).order_by(table.id)
            return [delivery_of(row) for row in await db.execute(query)]

        return await self._transactions.write(write)

    async def content(self, delivery: Delivery) -> EventContent:
        """Return the event that `delivery` sends. Raises Unavailable, VaultError."""
        async with self._transactions.read() as db:
            row = (await db.execute(select(outbox).where(outbox.c.id == delivery.outbox_id))).one()
        webhook = {}
        if row.sealed is not None:
            sealed = Sealed(row.sealed, **webhook_seal_place(row.environment, row.uid))
            await self._keys.load_keys_of(sealed)
            webhook = self._vault.open_json(sealed)
        return EventContent(row.at, row.environment, row.integration_id, row.provider, row.event, row.facts, webhook)

    async def settle(self, delivery: Delivery, outcome: DeliveryOutcome, *, owner: str, now: datetime) -> bool:
        """Write the outcome of an attempt, and release the lease.

        Returns False if another process has taken the lease.
        """
        table = deliveries.c
        has_ended = outcome.due_at is None
        # Only a failed attempt postpones the later deliveries. After a replay, `attempts` does not count earlier ones.
        has_postponed_later = delivery.attempts > 0 or delivery.give_up_at - delivery.at > RETRY_PERIOD
        values = NO_LEASE | {
            "state": outcome.state.value,
            "attempts": table.attempts + 1,
            "status": outcome.status,
            "detail": outcome.detail,
            "due_at": outcome.due_at,
            "ended_at": now if has_ended else None,
        }

        async def write(db: AsyncConnection) -> bool:
            delivery_update = update(deliveries).where(
                table.id == delivery.id, table.lease_owner == owner, table.due_at.is_not(None)
            )
            sequence = (await db.execute(delivery_update.values(values).returning(table.sequence))).one_or_none()
            if sequence is None:
                return False
            if sequence[0] is not None and (not has_ended or has_postponed_later):
                next_delivery = and_(
                    table.environment == delivery.environment,
                    table.target == delivery.target,
                    table.sequence == sequence[0],
                    table.due_at.is_not(None),
                    table.id > delivery.id,
                )
                await db.execute(update(deliveries).where(next_delivery).values(due_at=outcome.due_at or now))
            return True

        return await self._transactions.write(write)

    async def make_due_now(self, queue: TargetQueue, now: datetime) -> None:
        """Make the postponed deliveries of `queue` due now, because the receiver responds again."""
        table = deliveries.c
        postponed = (table.environment == queue[0], table.target == queue[1], table.due_at > now)
        await self._transactions.write(lambda db: db.execute(update(deliveries).where(*postponed).values(due_at=now)))

    async def release(self, owner: str) -> None:
        """Release the deliveries that `owner` has claimed but not sent, so that another process can send them."""
        deliveries_update = update(deliveries).where(
            deliveries.c.lease_owner == owner, deliveries.c.due_at.is_not(None)
        )
        await self._transactions.write(lambda db: db.execute(deliveries_update.values(NO_LEASE)))

    async def backlog(self) -> list[Backlog]:
        """Return the backlog of each environment that has waiting deliveries."""
        table = deliveries.c
        query = select(table.environment, func.count(), func.min(table.at)).where(table.due_at.is_not(None))
        async with self._transactions.read() as db:
            return [Backlog(*row) for row in await db.execute(query.group_by(table.environment))]


def delivery_of(row: Any) -> Delivery:
    """Return the delivery in a row with the columns `COLUMNS`."""
    return Delivery(**{**row._mapping, "state": DeliveryState(row.state)})


def webhook_seal_place(environment: str, uid: str) -> dict[str, Any]:
    """Return the place that the ciphertext of a stored webhook is bound to."""
    return {"environment": environment, "table": "outbox", "row": uid, "column": "sealed", "version": 1}


def _is_claimable(now: datetime) -> ColumnElement[bool]:
    return and_(deliveries.c.due_at <= now, _is_unleased(now), _IS_FIRST_OF_SEQUENCE)


def _is_unleased(now: datetime) -> ColumnElement[bool]:
    return or_(deliveries.c.lease_until.is_(None), deliveries.c.lease_until <= now)


# ── Events for operators: list, send again, prune.

DELIVERED_KEPT: Final = timedelta(days=3)
DEAD_KEPT: Final = timedelta(days=30)
WEBHOOKS_REMEMBERED: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """A filter for events. A delivery must meet all given conditions.

    `cursor`: the id of the last delivery of the previous page; None for the first page.
    """

    environment: str
    state: DeliveryState | None = None
    connection_id: str | None = None
    message_ids: Sequence[str] = ()
    since: datetime | None = None
    limit: int = 100
    cursor: int | None = None


class EventLog:
    """The events, for operators. Delivered events are kept for 3 days, dead (given up) events for 30."""

    def __init__(self, transactions: Transactions, trail: AuditTrail) -> None:
        self._transactions = transactions
        self._trail = trail

    async def list(self, filters: EventFilter) -> list[Delivery]:
        """Return the matching deliveries, the newest first."""
        conditions = [
            *_conditions(filters),
            *([deliveries.c.id < filters.cursor] if filters.cursor is not None else []),
        ]
        query = select(*COLUMNS).select_from(JOINED).where(*conditions).order_by(deliveries.c.id.desc())
        async with self._transactions.read() as db:
            return [delivery_of(row) for row in await db.execute(query.limit(filters.limit))]

    async def replay(self, filters: EventFilter, now: datetime) -> int:
        """Send the matching deliveries again, for up to a day, with the same message ids. Return their number.

        Ignores `limit` and `cursor` of `filters`. Skips deliveries that a process is sending now.
        """
        table = deliveries.c
        is_idle = or_(table.lease_until.is_(None), table.lease_until <= now)
        values = {"state": DeliveryState.PENDING.value, "attempts": 0, "due_at": now, "give_up_at": now + RETRY_PERIOD}
        values |= {"ended_at": None, **NO_LEASE}
        statement = update(deliveries).where(*_conditions(filters), is_idle).values(values)
        entry = AuditEntry.of(AuditAction.EVENTS_REPLAYED, filters.environment, now)

        async def write(db: AsyncConnection) -> int:
            returned = statement.returning(table.integration_id, table.connection_id)
            rows = (await db.execute(returned)).all()
            if rows:  # `record_change` wakes the delivery tasks of other processes
                await self._trail.record(db, replace(entry, detail={"deliveries": len(rows)}))
                first_row = rows[0]
                await record_change(
                    db, ConnectionRef(filters.environment, first_row.integration_id, first_row.connection_id or ""), now
                )
            return len(rows)

        return await self._transactions.write(write)

    async def prune(self, now: datetime) -> None:
        """Remove old deliveries that have ended, and events and webhook digests that are no longer needed."""
        table = deliveries.c
        is_old = or_(
            _has_ended(DeliveryState.DELIVERED, now - DELIVERED_KEPT), _has_ended(DeliveryState.DEAD, now - DEAD_KEPT)
        )
        without_deliveries = ~exists().where(table.outbox == outbox.c.id)

        async def write(db: AsyncConnection) -> None:
            await db.execute(delete(deliveries).where(is_old))
            await db.execute(delete(outbox).where(outbox.c.at < now - DELIVERED_KEPT, without_deliveries))
            await db.execute(delete(webhooks_seen).where(webhooks_seen.c.at < now - WEBHOOKS_REMEMBERED))

        await self._transactions.write(write)


def _conditions(filters: EventFilter) -> list[ColumnElement[bool]]:
    table = deliveries.c
    conditions: list[ColumnElement[bool]] = [table.environment == filters.environment]
    if filters.state is not None:
        conditions.append(table.state == filters.state.value)
    if filters.connection_id is not None:
        conditions.append(table.connection_id == filters.connection_id)
    if filters.message_ids:
        conditions.append(table.message_id.in_(filters.message_ids))
    if filters.since is not None:
        conditions.append(table.at >= filters.since)
    return conditions


def _has_ended(state: DeliveryState, before: datetime) -> ColumnElement[bool]:
    return (deliveries.c.state == state.value) & (deliveries.c.ended_at < before)
