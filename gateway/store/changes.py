"""The change log: an append-only log of changed connections, by which processes see each other's changes.

A writer appends as the last statement of its transaction, without a lock: transactions of different connections commit
independently. PostgreSQL assigns ids before the commit, so a later id may become visible first. The reader therefore
remembers the missing ids below the last one (`LogPosition.missing`) and reads them again until they appear, or until no
transaction that could still commit them can be alive.
"""

import asyncio
from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CursorResult,
    Executable,
    RowMapping,
    Table,
    bindparam,
    delete,
    func,
    insert,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.records.connection import ConnectionRef, Mark
from gateway.store.backend import ChangeWatch
from gateway.store.connection_rows import AT, place
from gateway.store.tables import changes, connections
from gateway.store.transactions import NOTIFIES, Transactions

# ── The last statement of a transaction. On SQLite, marking it as the last saves a trip.


async def execute_last(db: AsyncConnection, statement: Executable, parameters: Mapping[str, Any]) -> CursorResult[Any]:
    """Run the last statement of the caller's transaction; afterwards the caller must run no statement and raise
    nothing.

    On SQLite this commits the transaction, unless other writes share it. On PostgreSQL the transaction commits at its
    end.
    """
    if db.dialect.name == "sqlite":
        _driver(db).commit_with_next()
    return await db.execute(statement, parameters)


def _driver(db: AsyncConnection) -> Any:
    connection = db.sync_connection
    assert connection is not None, "a transaction has a connection"
    return connection.connection.driver_connection


# ── Refreshes that this process has written itself: following the change log, it need not read their rows back.

MOST: Final = 10_000  # the limit if nothing follows the log, as in a command


class OwnChanges:
    """This process's own changes, by their ids in the change log. Changes not recorded here are read like other
    processes'."""

    def __init__(self) -> None:
        self._marks: dict[int, Mark] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def record(self, change_id: int, mark: Mark) -> None:
        """Record a committed change. `mark`: the row's mark after the change."""
        if len(self._marks) < MOST:
            self._marks[change_id] = mark

    def of(self, change_id: int) -> Mark | None:
        """Return the row's mark after the change; None if the change is not this process's."""
        return self._marks.get(change_id)

    def forget(self, last_id: int, missing: Container[int] = ()) -> None:
        """Forget the changes up to `last_id`, which were read and are not read again, except the `missing` ones."""
        for change_id in [one for one in self._marks if one <= last_id and one not in missing]:
            del self._marks[change_id]

    def clear(self) -> None:
        """Forget all changes: after a restore, the log has other ids."""
        self._marks.clear()


# ── Pruning old rows of append-only tables, with little delay for other writes.

AT_ONCE: Final = 1000  # rows per transaction: a few milliseconds, during which SQLite blocks other writers


async def prune_oldest(transactions: Transactions, table: Table, old: ColumnElement[bool]) -> int:
    """Remove the rows of `table` that are `old`, the lowest ids first. Returns how many.

    In an append-only table the lowest ids are the oldest rows, so the primary key finds them. After each transaction,
    this pauses for as long as the transaction took, so that others can write.
    """
    oldest = select(table.c.id).order_by(table.c.id).limit(AT_ONCE).scalar_subquery()
    gone = delete(table).where(table.c.id.in_(oldest), old)
    total = 0
    while True:
        started = clock.monotonic()
        removed = (await transactions.write(lambda db: db.execute(gone))).rowcount
        if not removed:  # no row is left, or another node has just removed the rows
            return total
        total += removed
        await asyncio.sleep(clock.monotonic() - started)


KEPT: Final = timedelta(days=1)
MISSING_S: Final = 60.0
"""The least time to look for a missing id, in seconds. An id that never appears belongs to a rolled back
transaction."""
MOST_MISSING: Final = 10_000
LOOK_BACK: Final = 10_000  # when a reader starts, it checks this many ids before the end of the log for missing ones
IN_FLIGHT: Final = 100  # at most this many uncommitted transactions have an id below all visible ids

NOTED: Final = insert(changes)
_NOTED_COLUMNS: Final = ("environment", "integration_id", "connection_id")
NOTED_ROW: Final = insert(changes).from_select(
    ["at", *_NOTED_COLUMNS],
    select(connections.c.updated_at, *(connections.c[name] for name in _NOTED_COLUMNS)).where(AT),
)
"""Adds the row at `place` to the log, with the time of its last change."""
LATER: Final = select(changes).where(changes.c.id > bindparam("last_id")).order_by(changes.c.id)
AMONG: Final = select(changes).where(changes.c.id.in_(bindparam("missing", expanding=True))).order_by(changes.c.id)
RECENT: Final = select(changes.c.id).order_by(changes.c.id.desc()).limit(LOOK_BACK)
LAST: Final = select(func.coalesce(func.max(changes.c.id), 0))
ENDS: Final = select(func.coalesce(func.min(changes.c.id), 0), func.coalesce(func.max(changes.c.id), 0))


def missing_s(statement_s: float) -> float:
    """Return how long to look for a missing id. `statement_s` (`store.pool.statement_s`) limits the statement that
    appends, the idle time after it, and the commit; the result is longer than the three together."""
    return max(MISSING_S, 4 * statement_s)


@dataclass(frozen=True, slots=True)
class LogPosition:
    """How far a reader has read: all ids up to `last_id` except the `missing` ones, each with the time when it was
    first missed (monotonic seconds)."""

    last_id: int = 0
    missing: Mapping[int, float] = field(default_factory=dict)

    def read(self, ids: Iterable[int], missing_s: float = MISSING_S) -> "LogPosition":
        """Return the position after reading `ids`, in ascending order. Ids that are missing for `missing_s` are given
        up."""
        now, missing, last_id = clock.monotonic(), dict(self.missing), self.last_id
        for one in ids:
            if one <= last_id:
                missing.pop(one, None)
                continue
            missing |= dict.fromkeys(range(max(last_id + 1, one - MOST_MISSING), one), now)
            last_id = one
        return LogPosition(last_id, {one: since for one, since in missing.items() if now - since < missing_s})


class ChangesMissed(Exception):
    """The log no longer reaches back to the reader's position: its cached rows may be stale. Continue from
    `ChangeLog.end`."""


async def record_change(db: AsyncConnection, ref: ConnectionRef, now: datetime, *, ends: bool = False) -> int:
    """Add `ref` to the log, as the last write of the transaction that makes the change. Returns the entry's id.

    `ends`: the transaction also reads nothing and raises nothing afterwards. Readers are notified after the commit
    (`Transactions.begin`).
    """
    entry = {"at": now, **ref._asdict()}
    db.info[NOTIFIES] = True
    inserted = await (execute_last(db, NOTED, entry) if ends else db.execute(NOTED, entry))
    (change_id,) = inserted.inserted_primary_key or (0,)
    return int(change_id)


async def update_and_record(
    db: AsyncConnection,
    update: Executable,
    parameters: Mapping[str, Any],
    ref: ConnectionRef,
    now: datetime,
    *,
    ends: bool,
) -> tuple[RowMapping | None, int]:
    """Run `update`, and add `ref` to the log if that changed its row. Returns the row and the entry's id.

    `update` returns at most that one row, and sets its `updated_at` to `now`. `ends`: as in `record_change`, if a row
    was changed; then SQLite needs one trip for the whole transaction.
    """
    follow_up = None
    if db.dialect.name == "sqlite":
        follow_up = _driver(db).follow_next(_noted_row(), place(ref), ends=ends)
    row = (await db.execute(update, parameters)).mappings().one_or_none()
    if row is None:
        return None, 0
    if follow_up is None:
        return row, await record_change(db, ref, now, ends=ends)
    db.info[NOTIFIES] = True
    return row, follow_up.row_id


@cache
def _noted_row() -> str:
    """Return `NOTED_ROW` as text for SQLite's own driver, with named parameters."""
    from sqlalchemy.dialects import sqlite  # not imported with PostgreSQL, since it costs 2 MB

    return str(NOTED_ROW.compile(dialect=sqlite.dialect(paramstyle="named")))


class ChangeLog:
    """The change log. Every process reads it, including its own writes; for some of these it knows the row's new
    mark."""

    def __init__(
        self, transactions: Transactions, watch: ChangeWatch, own: OwnChanges, *, statement_s: float = 0.0
    ) -> None:
        self._transactions = transactions
        self._watch = watch
        self._own = own
        self._missing_s = missing_s(statement_s)

    async def end(self) -> LogPosition:
        """Return the present end of the log. A process with an empty cache begins to read there."""
        async with self._transactions.read() as db:
            ids = sorted((await db.execute(RECENT)).scalars())
        return LogPosition(max(ids[0] - IN_FLIGHT, 0)).read(ids) if ids else LogPosition()

    async def since(self, position: LogPosition) -> tuple[LogPosition, dict[ConnectionRef, Mark | None]]:
        """Return the next position, and the connections that changed after `position`. Raises ChangesMissed.

        The value of a connection is its row's mark if all its changes were refreshes of this process, else None.
        Changes of one connection have the order of their commits, because each transaction holds the lock of its row.
        """
        last_id = position.last_id
        async with self._transactions.read() as db:
            late = (await db.execute(AMONG, {"missing": list(position.missing)})).all() if position.missing else []
            rows = (await db.execute(LATER, {"last_id": last_id})).all()
            if not rows or rows[0].id != last_id + 1:  # without the next id, rows may have been pruned
                first, last = (await db.execute(ENDS)).one()  # after the other reads, to notice rows pruned in between
                reaches = last_id + 1 if last_id else IN_FLIGHT  # the log's very first ids may still be missing
                if first > reaches or last < last_id:  # last < last_id: an older backup was restored
                    self._own.clear()  # after a restore, the ids may belong to other changes
                    raise ChangesMissed
        position = position.read((row.id for row in (*late, *rows)), self._missing_s)
        if len(position.missing) > MOST_MISSING:
            raise ChangesMissed
        changed: dict[ConnectionRef, Mark | None] = {}
        for row in (*late, *rows):
            ref = ConnectionRef(row.environment, row.integration_id, row.connection_id)
            changed[ref] = self._own.of(row.id) if changed.get(ref, True) else None
        self._own.forget(position.last_id, position.missing)
        return position, changed

    async def version(self) -> Hashable:
        """Return a value that differs from the last one if anything was committed since. Raises Unavailable,
        ChangesMissed."""
        return await self._watch.version()

    async def wait_for_change(self, at_most_s: float) -> None:
        """Return as soon as something may have changed, or after `at_most_s`. Never raises."""
        await self._watch.wait_for_change(at_most_s)

    async def close(self) -> None:
        await self._watch.close()

    async def prune(self, now: datetime) -> None:
        """Remove entries older than a day. The last entry stays: a reader needs it to see whether it missed changes."""
        old = (changes.c.at < now - KEPT) & (changes.c.id < LAST.scalar_subquery())
        await prune_oldest(self._transactions, changes, old)
