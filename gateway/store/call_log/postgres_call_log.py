"""The call log in a PostgreSQL table partitioned by day: `call_log`, which operators can query too.

The node that writes the first row of a day creates that day's partition. A day is pruned by dropping its partition.
PostgreSQL reuses the space of deleted rows, but does not return the space to the disk. So the limit on bytes is
converted to a limit on rows, at `ROW_BYTES` bytes per row.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.errors import Unavailable
from gateway.records.operation import Operation, OperationFilter, OperationPage, StoredOperation
from gateway.records.proxied_call import ExchangeRecord
from gateway.records.traffic import Traffic
from gateway.store.call_log.call_log_store import SEARCH_S, CallLogBounds, operations
from gateway.store.call_log.call_totals import (
    TABLE,
    query_by_result,
    query_by_slot,
    schema,
    time_slot,
    totals_of,
    traffic,
    upsert,
)
from gateway.store.transactions import Transactions

ROW_BYTES: Final = 400  # estimated size of a row, including indexes
ROWS_PER_STATEMENT: Final = 2000  # rows per statement; the event loop runs between two statements
IDS_PER_DELETE: Final = 5000
ROWS_PER_SLICE: Final = 50_000  # number of rows that a text search reads before it checks its time limit again
DAY: Final = timedelta(days=1)
LOCK: Final = 5_201_713  # for pg_advisory_xact_lock, so that only one node at a time creates or drops a partition
MISSING_TABLE: Final = frozenset({"42P01", "23514"})
"""SQLSTATE of an undefined table, and of a row without a partition, which is a check violation; there is no other check."""
PARTITION_NAME: Final = "call_log_%Y%m%d"

COLUMNS: Final = (
    *("at", "kind", "request_id", "environment", "integration_id", "connection_id", "method", "host", "path", "status"),
    *(
        "error_code",
        "duration_ms",
        "gateway_ms",
        "token_ms",
        "upstream_ms",
        "bytes_in",
        "bytes_out",
        "key_id",
        "trace_id",
    ),
    *("rule", "attempts", "detail"),
)
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS call_log (
    id bigint GENERATED ALWAYS AS IDENTITY, at timestamptz NOT NULL, kind text NOT NULL, request_id text NOT NULL,
    environment text NOT NULL, integration_id text NOT NULL, connection_id text NOT NULL, method text NOT NULL,
    host text NOT NULL, path text NOT NULL, status integer NOT NULL, error_code text, duration_ms real NOT NULL,
    gateway_ms real, token_ms real, upstream_ms real, bytes_in bigint NOT NULL, bytes_out bigint NOT NULL, key_id bigint,
    trace_id text, rule text, attempts integer NOT NULL, detail text
) PARTITION BY RANGE (at)
"""
INDEXES: Final = (
    "CREATE INDEX IF NOT EXISTS call_log_by_id ON call_log (id)",
    "CREATE INDEX IF NOT EXISTS call_log_by_connection ON call_log (environment, connection_id, id)",
    "CREATE INDEX IF NOT EXISTS call_log_by_integration ON call_log (environment, integration_id, id)",
    "CREATE INDEX IF NOT EXISTS call_log_by_key ON call_log (key_id, id) WHERE key_id IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS call_log_by_status ON call_log (status, id) WHERE status >= 400",
    "CREATE INDEX IF NOT EXISTS call_log_by_error ON call_log (error_code, id) WHERE error_code IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS call_log_by_kind ON call_log (kind, id) WHERE kind <> 'call'",
    "CREATE INDEX IF NOT EXISTS call_log_by_request ON call_log USING hash (request_id)",
    "CREATE INDEX IF NOT EXISTS call_log_by_trace ON call_log (trace_id) WHERE trace_id IS NOT NULL",
)
INSERT: Final = (
    f"INSERT INTO call_log ({', '.join(COLUMNS)}) VALUES ({', '.join(f'${n}' for n in range(1, len(COLUMNS) + 1))})"
)
ADD_TOTAL: Final = upsert(lambda n: f"${n}", "greatest")
PARTITIONS: Final = text(
    "SELECT child.relname FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid"
    " WHERE inhparent = to_regclass('call_log') ORDER BY child.relname DESC"
)


class PostgresCallLog:
    """The call log on PostgreSQL. The table is created with the first row."""

    def __init__(self, transactions: Transactions, bounds: CallLogBounds | None = None) -> None:
        self.bounds = bounds or CallLogBounds()
        self._transactions = transactions
        self._days: set[date] = set()  # the days whose partition exists, as far as this process knows

    async def add_many(self, records: Sequence[ExchangeRecord | Operation]) -> None:
        """Store all records or none. Raises Unavailable."""
        if not records:
            return
        rows = operations(records)
        values = []
        for start in range(0, len(rows), ROWS_PER_STATEMENT):
            values.append([_row_values(row) for row in rows[start : start + ROWS_PER_STATEMENT]])
            await asyncio.sleep(0)
        days = {row.at.astimezone(UTC).date() for row in rows}
        totals = totals_of(rows)

        async def write(db: AsyncConnection) -> None:
            if new_days := days - self._days:
                await _create_partitions(db, new_days)
            for batch in values:
                await db.exec_driver_sql(INSERT, batch)
            # the last statement, because it locks rows that other nodes change too
            await db.exec_driver_sql(ADD_TOTAL, totals)

        try:
            await self._transactions.write(write)
        except (DBAPIError, Unavailable) as fault:
            if not _is_table_missing(fault):
                raise
            # A standby that lacks the table or a partition has taken over, or another node has dropped the partition.
            self._days.clear()
            await self._transactions.write(write)
        self._days |= days

    async def find(self, filters: OperationFilter) -> OperationPage:
        """Return the newest operations that match `filters`. Raises Unavailable."""
        try:
            return await self._find_page(filters)
        except Unavailable as fault:
            if not _is_table_missing(fault):
                raise
            return await self._find_page(filters)  # another node has just dropped the partition of a day

    async def _find_page(self, filters: OperationFilter) -> OperationPage:
        since = self.bounds.oldest(clock.now())
        since = since if filters.since is None else max(since, filters.since)
        condition, values = _conditions(filters, since)
        started, page = clock.monotonic(), list[StoredOperation]()
        async with self._transactions.read() as db:
            days = [_day_of(row[0]) for row in await db.execute(PARTITIONS)]
            for day in days:
                if not _overlaps(day, since, filters.until):
                    continue
                for low, high in await _id_ranges(db, day, filters):
                    values |= {"low_id": low, "high_id": high, "most": filters.limit + 1 - len(page)}
                    statement = text(
                        f"SELECT id, {', '.join(COLUMNS)} FROM {day.strftime(PARTITION_NAME)} WHERE {condition} LIMIT :most"
                    )
                    page += [_operation(row) for row in await db.execute(statement, values)]
                    if len(page) > filters.limit:
                        return OperationPage(page[: filters.limit], more=True)
                    if clock.monotonic() - started > SEARCH_S:
                        oldest = text(
                            f"SELECT at FROM {day.strftime(PARTITION_NAME)} WHERE id >= :low_id ORDER BY id LIMIT 1"
                        )
                        oldest_at = (await db.execute(oldest, {"low_id": low})).scalar_one_or_none()
                        return OperationPage(page, True, low, oldest_at or _midnight(day))
        return OperationPage(page)

    async def totals(self, environment: str, since: datetime) -> Traffic:
        """Return the sums from the quarter of an hour that contains `since` until now. Raises Unavailable."""
        parameters = {"p1": environment, "p2": time_slot(since)}
        async with self._transactions.read() as db:
            if (await db.execute(text(f"SELECT to_regclass('{TABLE}')"))).scalar() is None:
                return Traffic()
            slots = (await db.execute(text(query_by_slot(lambda n: f":p{n}")), parameters)).all()
            places = (await db.execute(text(query_by_result(lambda n: f":p{n}")), parameters)).all()
        return traffic(slots, places)

    async def prune(self, now: datetime) -> int:
        """Remove the oldest rows until the bounds are met. Return how many rows were deleted one by one.

        Rows of dropped partitions are not counted. Raises Unavailable.
        """
        oldest = self.bounds.oldest(now).astimezone(UTC).date()
        await self._transactions.write(lambda db: _prune_totals(db, time_slot(self.bounds.oldest(now))))
        async with self._transactions.read() as db:
            days = [_day_of(row[0]) for row in await db.execute(PARTITIONS)]
        for day in days:
            if day < oldest:
                await self._transactions.write(lambda db, day=day: _drop_partition(db, day))  # type: ignore[misc]
                self._days.discard(day)
        return await self._prune_to_row_limit([day for day in days if day >= oldest])

    async def close(self) -> None:
        """Do nothing, because the call log uses the store's own connections."""

    async def _prune_to_row_limit(self, days: Sequence[date]) -> int:
        """Delete the rows below the lowest id to keep. Drop a day's partition if all its ids are lower.

        `days`: the days with a partition, the newest first.
        """
        max_rows = self.bounds.max_bytes // ROW_BYTES
        max_rows = max_rows if self.bounds.max_rows is None else min(max_rows, self.bounds.max_rows)
        removed_rows, newest = 0, 0
        for day in days:
            name = day.strftime(PARTITION_NAME)
            async with self._transactions.read() as db:
                id_range = (await db.execute(text(f"SELECT min(id), max(id) FROM {name}"))).one()
            if id_range[1] is None:
                continue
            newest = max(newest, id_range[1])
            kept_from = newest - max_rows + 1
            if id_range[1] < kept_from:
                await self._transactions.write(lambda db, day=day: _drop_partition(db, day))  # type: ignore[misc]
                self._days.discard(day)
                continue
            for low in range(id_range[0], kept_from, IDS_PER_DELETE):
                high = min(low + IDS_PER_DELETE, kept_from)
                statement = text(f"DELETE FROM {name} WHERE id >= :low AND id < :high")
                ids = {"low": low, "high": high}
                result = await self._transactions.write(lambda db, ids=ids, sql=statement: db.execute(sql, ids))  # type: ignore[misc]
                removed_rows += result.rowcount
        return removed_rows


def _is_table_missing(fault: DBAPIError | Unavailable) -> bool:
    """Return whether the cause is that the table, or the partition for a row's day, does not exist."""
    cause = fault.__cause__ if isinstance(fault, Unavailable) else fault
    return isinstance(cause, DBAPIError) and getattr(cause.orig, "sqlstate", None) in MISSING_TABLE


def _day_of(name: str) -> date:
    return datetime.strptime(name, PARTITION_NAME).replace(tzinfo=UTC).date()


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


async def _id_ranges(db: AsyncConnection, day: date, filters: OperationFilter) -> list[tuple[int, int]]:
    """Return the ranges of ids that a search reads in a day, the newest first. Both ends are included.

    A search that must read every row gets short ranges, so that it can stop between two of them.
    """
    id_range = (await db.execute(text(f"SELECT min(id), max(id) FROM {day.strftime(PARTITION_NAME)}"))).one()
    if id_range[0] is None:
        return []
    low = max(id_range[0], 0 if filters.after is None else filters.after + 1)
    high = id_range[1] if filters.before is None else min(id_range[1], filters.before - 1)
    if filters.text is None and filters.path is None and filters.tool is None:
        return [(low, high)] if low <= high else []
    return [(max(low, top - ROWS_PER_SLICE + 1), top) for top in range(high, low - 1, -ROWS_PER_SLICE)]


def _overlaps(day: date, since: datetime, until: datetime | None) -> bool:
    day_start = _midnight(day)
    return day_start + DAY > since and (until is None or day_start < until)


async def _create_partitions(db: AsyncConnection, days: set[date]) -> None:
    await db.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
    await db.execute(text(SCHEMA))
    await db.execute(text(schema()))
    for statement in INDEXES:
        await db.execute(text(statement))
    for day in sorted(days):
        day_start = _midnight(day)
        span = f"FROM ('{day_start.isoformat()}') TO ('{(day_start + DAY).isoformat()}')"
        await db.execute(
            text(f"CREATE TABLE IF NOT EXISTS {day.strftime(PARTITION_NAME)} PARTITION OF call_log FOR VALUES {span}")
        )


async def _drop_partition(db: AsyncConnection, day: date) -> None:
    await db.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
    await db.execute(text(f"DROP TABLE IF EXISTS {day.strftime(PARTITION_NAME)}"))


async def _prune_totals(db: AsyncConnection, slot: int) -> None:
    if (await db.execute(text(f"SELECT to_regclass('{TABLE}')"))).scalar() is not None:
        await db.execute(text(f"DELETE FROM {TABLE} WHERE slot < :slot"), {"slot": slot})


def _row_values(operation: Operation) -> tuple[Any, ...]:
    """Return the values in the order of `COLUMNS`. Remove NUL characters, which PostgreSQL rejects in text."""
    return (
        operation.at,
        operation.kind,
        operation.request_id,
        operation.environment,
        operation.integration_id,
        operation.connection_id,
        operation.method,
        operation.host,
        operation.path.replace("\x00", ""),
        operation.status,
        operation.error_code,
        operation.duration_ms,
        operation.gateway_ms,
        operation.token_ms,
        operation.upstream_ms,
        operation.bytes_in,
        operation.bytes_out,
        operation.key_id,
        operation.trace_id,
        operation.rule,
        operation.attempts,
        None if operation.detail is None else json.dumps(operation.detail, default=str),
    )


def _operation(row: Any) -> StoredOperation:
    members: dict[str, Any] = dict(row._mapping)
    row_id = members.pop("id")
    detail: Mapping[str, Any] | None = None if members["detail"] is None else json.loads(members["detail"])
    return StoredOperation(row_id, Operation(**{**members, "detail": detail}))


def _any_of_condition(column: str, sql_type: str, values: frozenset[Any]) -> tuple[str, str, Any]:
    """Return a parameter's name, its condition and its value. The value None means that any value matches.

    With a single value, an index returns the rows in the wanted order.
    """
    if len(values) == 1:
        return column, f"{column} = :{column}", next(iter(values))
    return column, f"{column} = ANY(CAST(:{column} AS {sql_type}[]))", sorted(values) or None


def _conditions(filters: OperationFilter, since: datetime) -> tuple[str, dict[str, Any]]:
    """Return the text after WHERE, including ORDER BY, and its parameters."""
    conditions = ["environment = :environment", "at >= :since", "id BETWEEN :low_id AND :high_id"]
    values: dict[str, Any] = {"environment": filters.environment, "since": since}
    for name, condition, value in (
        ("until", "at < :until", filters.until),
        ("kind", "kind = :kind AND kind <> 'call'" if filters.kind != "call" else "kind = :kind", filters.kind),
        ("integration_id", "integration_id = :integration_id", filters.integration_id),
        ("connection_id", "connection_id = :connection_id", filters.connection_id),
        _any_of_condition("key_id", "bigint", filters.key_ids),
        ("method", "method = :method", filters.method),
        _any_of_condition("error_code", "text", filters.error_codes),
        (
            "excluded_codes",
            "(error_code IS NULL OR error_code <> ALL(CAST(:excluded_codes AS text[])))",
            sorted(filters.excluded_codes) or None,
        ),
        ("request_id", "request_id = :request_id", filters.request_id),
        ("trace_id", "trace_id = :trace_id", filters.trace_id),
        ("path", "starts_with(path, :path)", filters.path),
        ("tool", "detail IS NOT NULL AND CAST(detail AS jsonb) ->> 'tool' = :tool", filters.tool),
        (
            "words",
            "strpos(lower(concat_ws(' ', path, error_code, detail)), :words) > 0",
            filters.text and filters.text.lower(),
        ),
    ):
        if value is not None:
            conditions.append(condition)
            values[name] = value
    if filters.status is not None:
        conditions.append("status BETWEEN :low AND :high" + (" AND status >= 400" if filters.status[0] >= 400 else ""))
        values["low"], values["high"] = filters.status
    if filters.failed is not None:
        failed = "(error_code IS NOT NULL OR status >= 400)"
        conditions.append(failed if filters.failed else f"NOT {failed}")
    if filters.connections is not None:
        conditions.append(
            "(integration_id, connection_id) IN (SELECT * FROM unnest(CAST(:integrations AS text[]), CAST(:names AS text[])))"
        )
        pairs = sorted(filters.connections)
        values["integrations"], values["names"] = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return f"{' AND '.join(conditions)} ORDER BY id DESC", values
