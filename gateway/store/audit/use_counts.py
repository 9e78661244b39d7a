"""Counts how often each key used each connection's credential, by the hour. A call costs one addition in memory.

The sums are written every few seconds (`gateway/observe/call_queue.py`). So a killed process loses the counts of the
last few seconds. The audit chain does not contain the counts: there are too many counts, and a single count proves
nothing. The first use in each hour also sets `last_fetched_at` of the connection, as a read through the API does.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, bindparam, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.records.audit import CredentialUseCount, CredentialUseFilter, CredentialUsePage, CredentialUseRef
from gateway.records.connection import ConnectionRef
from gateway.store.tables import UtcTime, connections, credential_uses
from gateway.store.transactions import Transactions, inserting

ROWS_PER_TRANSACTION: Final = (
    200  # rows per transaction; takes a few milliseconds, during which SQLite blocks other writers
)
HOUR_S: Final = 3600
MAX_REMEMBERED: Final = 100_000  # connections whose `last_fetched_at` a process knows to be set; about 20 MB of memory

_FETCHED: Final = connections.c.last_fetched_at
_SET_FETCHED: Final = (
    update(connections)
    .where(*(connections.c[name] == bindparam(f"at_{name}") for name in ConnectionRef._fields))
    .where(or_(_FETCHED.is_(None), bindparam("hour_start", type_=UtcTime) > _FETCHED))
    .values(last_fetched_at=bindparam("now", type_=UtcTime))
)


class UseStore:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        # The connections whose `last_fetched_at` this process has set in this hour, so that it is set once an hour.
        self._fetched_hour, self._fetched = 0, set[ConnectionRef]()

    async def add_many(self, counts: Sequence[CredentialUseCount]) -> None:
        """Add the counts to the stored sums. Raises Unavailable; some of the counts can then already be stored."""
        for start in range(0, len(counts), ROWS_PER_TRANSACTION):
            # All processes use the same order, so that no deadlock is possible.
            batch = sorted(counts[start : start + ROWS_PER_TRANSACTION])
            rows, now = [_row(count) for count in batch], clock.now()
            fetched_refs = self._not_fetched_yet(batch, now)
            fetch_updates = [_fetched_parameters(ref, now) for ref in fetched_refs]

            async def write(
                db: AsyncConnection, rows: Sequence[Mapping[str, Any]] = rows, fetch_updates: Any = fetch_updates
            ) -> None:
                statement = inserting(db)(credential_uses)
                sums = {name: credential_uses.c[name] + statement.excluded[name] for name in ("calls", "failed")}
                key = [column.name for column in credential_uses.primary_key]
                await db.execute(statement.on_conflict_do_update(index_elements=key, set_=sums), rows)
                if fetch_updates:
                    await db.execute(_SET_FETCHED, fetch_updates)

            await self._transactions.write(write)
            if len(self._fetched) >= MAX_REMEMBERED:
                self._fetched.clear()  # the statement changes nothing where the time is already set
            self._fetched.update(fetched_refs)

    def _not_fetched_yet(self, counts: Sequence[CredentialUseCount], now: datetime) -> list[ConnectionRef]:
        """Return the connections in `counts` whose `last_fetched_at` this process has not set in this hour, sorted."""
        if self._fetched_hour != hour_of(now):
            self._fetched_hour, self._fetched = hour_of(now), set()
        return sorted({ConnectionRef(*count.use[:3]) for count in counts} - self._fetched)

    async def find(self, filters: CredentialUseFilter) -> CredentialUsePage:
        """Return the sums by connection and key, the most used first."""
        table = credential_uses.c
        conditions: list[ColumnElement[bool]] = [
            table.environment == filters.environment,
            table.hour >= hour_of(filters.since),
            table.hour <= hour_of(filters.until - timedelta(microseconds=1)),
        ]
        if filters.key_ids:
            conditions.append(table.key_id.in_(filters.key_ids))
        if filters.integration_id is not None:
            conditions.append(table.integration_id == filters.integration_id)
        if filters.connection_id is not None:
            conditions.append(table.connection_id == filters.connection_id)
        subject_columns = (table.integration_id, table.connection_id, table.key_id)
        sums_query = select(
            *subject_columns, func.sum(table.calls).label("calls"), func.sum(table.failed).label("failed")
        )
        grouped_sums = sums_query.where(*conditions).group_by(*subject_columns).subquery()
        # Each row also has the totals of all rows, so that one query is enough.
        total_columns = [
            func.sum(grouped_sums.c.calls).over(),
            func.sum(grouped_sums.c.failed).over(),
            func.count().over(),
        ]
        largest_query = select(
            grouped_sums,
            *(
                column.label(name)
                for column, name in zip(total_columns, ("all_calls", "all_failed", "lines"), strict=True)
            ),
        )
        largest_query = largest_query.order_by(
            grouped_sums.c.calls.desc(), *(grouped_sums.c[column.name] for column in subject_columns)
        )
        async with self._transactions.read() as db:
            rows = (await db.execute(largest_query.limit(filters.limit))).all()
        if not rows:
            return CredentialUsePage([], 0, 0, 0)
        first_row = rows[0]
        uses = [
            (
                CredentialUseRef(filters.environment, row.integration_id, row.connection_id, row.key_id),
                int(row.calls),
                int(row.failed),
            )
            for row in rows
        ]
        return CredentialUsePage(uses, int(first_row.all_calls), int(first_row.all_failed), int(first_row.lines))

    async def prune(self, before: datetime) -> int:
        """Remove the counts of all hours before `before`. Return how many rows were removed."""
        last_hour, total = hour_of(before), 0
        async with self._transactions.read() as db:
            first_hour = (await db.execute(select(func.min(credential_uses.c.hour)))).scalar()
        while first_hour is not None and first_hour < last_hour:
            statement = delete(credential_uses).where(credential_uses.c.hour == first_hour)
            total += (await self._transactions.write(lambda db, statement=statement: db.execute(statement))).rowcount  # type: ignore[misc]
            async with self._transactions.read() as db:
                first_hour = (await db.execute(select(func.min(credential_uses.c.hour)))).scalar()
        return total


def hour_of(moment: datetime) -> int:
    """Return the hour that contains `moment`, as a number of hours since 1970."""
    return int(moment.timestamp()) // HOUR_S


def hour_at(number: int) -> datetime:
    """Return when the hour with this number begins."""
    return datetime.fromtimestamp(number * HOUR_S, UTC)


def _fetched_parameters(ref: ConnectionRef, now: datetime) -> dict[str, Any]:
    """Return the parameters of `_SET_FETCHED`."""
    reference_values = {f"at_{name}": value for name, value in ref._asdict().items()}
    return {**reference_values, "now": now, "hour_start": hour_at(hour_of(now))}


def _row(count: CredentialUseCount) -> dict[str, Any]:
    return {"hour": hour_of(count.hour), **count.use._asdict(), "calls": count.calls, "failed": count.failed}
