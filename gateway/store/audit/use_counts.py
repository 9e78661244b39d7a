"""Counts how often each key used each connection's credential, by the hour. A call costs one addition in memory.

The sums are written every few seconds (`gateway/observe/call_queue.py`). So a killed process loses the counts of the
last few seconds. The audit chain does not contain the counts: there are too many counts, and a single count proves
nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.audit import CredentialUseCount, CredentialUseFilter, CredentialUsePage, CredentialUseRef
from gateway.store.tables import credential_uses
from gateway.store.transactions import Transactions, inserting

ROWS_PER_TRANSACTION: Final = (
    200  # rows per transaction; takes a few milliseconds, during which SQLite blocks other writers
)
HOUR_S: Final = 3600


class UseStore:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add_many(self, counts: Sequence[CredentialUseCount]) -> None:
        """Add the counts to the stored sums. Raises Unavailable; some of the counts can then already be stored."""
        for at in range(0, len(counts), ROWS_PER_TRANSACTION):
            # All processes use the same order, so that no deadlock is possible.
            rows = [_row(count) for count in sorted(counts[at : at + ROWS_PER_TRANSACTION])]

            async def write(db: AsyncConnection, rows: Sequence[Mapping[str, Any]] = rows) -> None:
                statement = inserting(db)(credential_uses)
                added = {name: credential_uses.c[name] + statement.excluded[name] for name in ("calls", "failed")}
                key = [column.name for column in credential_uses.primary_key]
                await db.execute(statement.on_conflict_do_update(index_elements=key, set_=added), rows)

            await self._transactions.write(write)

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
        of = (table.integration_id, table.connection_id, table.key_id)
        sums = select(*of, func.sum(table.calls).label("calls"), func.sum(table.failed).label("failed"))
        grouped = sums.where(*conditions).group_by(*of).subquery()
        # Each row also has the totals of all rows, so that one query is enough.
        whole = [func.sum(grouped.c.calls).over(), func.sum(grouped.c.failed).over(), func.count().over()]
        largest_first = select(
            grouped,
            *(column.label(name) for column, name in zip(whole, ("all_calls", "all_failed", "lines"), strict=True)),
        )
        largest_first = largest_first.order_by(grouped.c.calls.desc(), *(grouped.c[column.name] for column in of))
        async with self._transactions.read() as db:
            rows = (await db.execute(largest_first.limit(filters.limit))).all()
        if not rows:
            return CredentialUsePage([], 0, 0, 0)
        first = rows[0]
        uses = [
            (
                CredentialUseRef(filters.environment, row.integration_id, row.connection_id, row.key_id),
                int(row.calls),
                int(row.failed),
            )
            for row in rows
        ]
        return CredentialUsePage(uses, int(first.all_calls), int(first.all_failed), int(first.lines))

    async def prune(self, before: datetime) -> int:
        """Remove the counts of all hours before `before`. Return how many rows were removed."""
        last, total = hour_of(before), 0
        async with self._transactions.read() as db:
            first = (await db.execute(select(func.min(credential_uses.c.hour)))).scalar()
        while first is not None and first < last:
            gone = delete(credential_uses).where(credential_uses.c.hour == first)
            total += (await self._transactions.write(lambda db, gone=gone: db.execute(gone))).rowcount  # type: ignore[misc]
            async with self._transactions.read() as db:
                first = (await db.execute(select(func.min(credential_uses.c.hour)))).scalar()
        return total


def hour_of(at: datetime) -> int:
    """Return the hour that contains `at`, as a number of hours since 1970."""
    return int(at.timestamp()) // HOUR_S


def hour_at(number: int) -> datetime:
    """Return when the hour with this number begins."""
    return datetime.fromtimestamp(number * HOUR_S, UTC)


def _row(count: CredentialUseCount) -> dict[str, Any]:
    return {"hour": hour_of(count.hour), **count.use._asdict(), "calls": count.calls, "failed": count.failed}
