"""The log of proxied requests: written in batches, pruned by age and number, never waited for by a request."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, Final

from sqlalchemy import Dialect, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.proxied_call import ExchangeRecord
from gateway.store.changes import prune_oldest
from gateway.store.tables import request_log
from gateway.store.transactions import Transactions

# Rows a statement on SQLite, and all of a size in one trip. With each trip, and with each statement, its thread has to get the
# interpreter back from the event loop's, which under load costs more than to write a hundred rows. SQLite takes 32,766 values
# a statement, and holds the interpreter while it is given them.
AT_ONCE: Final = (1000, 100, 10, 1)
NEWEST: Final = select(func.coalesce(func.max(request_log.c.id), 0))
_COLUMNS: Final = tuple(column.name for column in request_log.columns if not column.primary_key)
_WIDTH: Final = len(_COLUMNS)
assert ExchangeRecord._fields[:_WIDTH] == _COLUMNS  # so that a row is a slice of a record


class RequestLog:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add_many(self, exchanges: Sequence[ExchangeRecord]) -> None:
        """Store a batch in one transaction, which begins when all that goes into it is ready."""
        if not exchanges:
            return
        runs = await _runs(self._transactions.dialect, exchanges)

        async def write(db: AsyncConnection) -> None:
            for statement, values in runs:
                await db.exec_driver_sql(statement, values)

        await self._transactions.write(write)

    async def prune(self, before: datetime, *, max_rows: int) -> int:
        """Remove what is older than `before`, and all but the newest `max_rows` rows. Returns how many.

        Rows are counted by their ids, of which some may be unused: never more than `max_rows` are kept.
        """
        async with self._transactions.read() as db:
            newest: int = (await db.execute(NEWEST)).scalar_one()
        old = (request_log.c.at < before) | (request_log.c.id <= newest - max_rows)
        return await prune_oldest(self._transactions, request_log, old)


async def _runs(dialect: Dialect, exchanges: Sequence[ExchangeRecord]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Statements, each with the values of all its runs.

    Core writes the statement, once. It does not prepare the rows: that would cost as much as proxying them did.
    """
    statement = _positional(dialect)
    if dialect.name != "sqlite":
        return [(statement, [exchange[:_WIDTH] for exchange in exchanges])]
    runs, begin = [], 0
    for size in AT_ONCE:
        many = []
        for at in range(begin, len(exchanges) - size + 1, size):
            many.append(_values(exchanges[at : at + size]))
            begin = at + size
            if size == AT_ONCE[0]:
                await asyncio.sleep(0)  # so many take the event loop a millisecond
        if many:
            runs.append((_of_many(statement, size), many))
    return runs


@lru_cache(maxsize=4)
def _positional(dialect: Dialect) -> str:
    """The statement that takes the members of a record in the order of `_COLUMNS`."""
    compiled = insert(request_log).inline().compile(dialect=dialect, column_keys=list(_COLUMNS))
    assert compiled.positiontup is None or tuple(compiled.positiontup) == _COLUMNS
    assert _COLUMNS[0] == "at"
    return str(compiled)


@cache
def _of_many(statement: str, rows: int) -> str:
    """The same for so many rows: its last pair of brackets, as often."""
    begin = statement.rindex("(")
    return statement[:begin] + ", ".join([statement[begin:]] * rows)


def _values(exchanges: Sequence[ExchangeRecord]) -> tuple[Any, ...]:
    """Those of all rows in one row, as a statement of `_of_many` takes them."""
    values: list[Any] = []
    for exchange in exchanges:
        values.append(_as_sqlite_keeps_it(exchange.at))
        values += exchange[1:_WIDTH]
    return tuple(values)


def _as_sqlite_keeps_it(at: datetime) -> str:
    """As `UtcTime` has it written there: text that sorts in the order of time."""
    in_utc = at if at.tzinfo is UTC else at.astimezone(UTC)
    return in_utc.isoformat(" ", "microseconds")[:26]  # less the zone, which is always UTC
