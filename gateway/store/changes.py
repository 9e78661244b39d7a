"""The change log: an append-only log of changed connections, from which processes learn each other's changes.

The last statement of a writer's transaction appends the entry, without a lock. So transactions of different connections
commit independently. PostgreSQL assigns ids before the commit, so a higher id can become visible before a lower one.
The reader therefore remembers the missing ids (`LogPosition.missing`) and looks for them again in each read. The reader
stops looking for an id when the id appears, or when no open transaction can still commit it.
"""

import asyncio
from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CursorResult,
    Executable,
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
from gateway.store.tables import changes
from gateway.store.transactions import NOTIFIES, Transactions, driver_of

# ── The last statement of a transaction. On SQLite, the commit shares this statement's trip to the driver's thread.


async def execute_last(db: AsyncConnection, statement: Executable, parameters: Mapping[str, Any]) -> CursorResult[Any]:
    """Run the last statement of the caller's transaction.

    Afterwards, the caller must run no statement and raise nothing. On SQLite, the statement also commits the
    transaction, unless other writes share it. On PostgreSQL, the transaction commits when the caller's function
    returns.
    """
    if db.dialect.name == "sqlite":
        driver_of(db).commit_with_next()
    return await db.execute(statement, parameters)


# ── Refreshes that this process has written itself. The process need not read these rows again from the change log.

MAX_OWN_CHANGES: Final = 10_000  # the limit for a process that does not read the log, such as a command


class OwnChanges:
    """This process's own changes, by their ids in the change log.

    A change that is not recorded here is read like a change of another process.
    """

    def __init__(self) -> None:
        self._marks: dict[int, Mark] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def record(self, change_id: int, mark: Mark) -> None:
        """Record a committed change. `mark`: the row's mark after the change."""
        if len(self._marks) < MAX_OWN_CHANGES:
            self._marks[change_id] = mark

    def mark_of_change(self, change_id: int) -> Mark | None:
        """Return the row's mark after the change; None if this process has not recorded the change."""
        return self._marks.get(change_id)

    def forget(self, last_id: int, missing_ids: Container[int] = ()) -> None:
        """Forget the changes up to `last_id`, which were read, except `missing_ids`, which are read later."""
        for change_id in [id_ for id_ in self._marks if id_ <= last_id and id_ not in missing_ids]:
            del self._marks[change_id]

    def clear(self) -> None:
        """Forget all changes: after a restore, the log has other ids."""
        self._marks.clear()


# ── Pruning old rows of append-only tables. Small transactions and pauses keep the delay for other writes short.

# rows per transaction; takes a few milliseconds, during which SQLite blocks other writers
ROWS_PER_TRANSACTION: Final = 1000


async def prune_oldest(transactions: Transactions, table: Table, is_old: ColumnElement[bool]) -> int:
    """Remove the rows of `table` for which `is_old` is true, the lowest ids first. Return how many.

    In an append-only table the lowest ids are the oldest rows, so the primary key finds these rows. After each
    transaction, this function pauses for as long as the transaction took, so that others can write.
    """
    oldest = select(table.c.id).order_by(table.c.id).limit(ROWS_PER_TRANSACTION).scalar_subquery()
    statement = delete(table).where(table.c.id.in_(oldest), is_old)
    total = 0
    while True:
        started = clock.monotonic()
        removed_rows = (await transactions.write(lambda db: db.execute(statement))).rowcount
        if not removed_rows:  # no old row is left, or another node has just removed these rows
            return total
        total += removed_rows
        await asyncio.sleep(clock.monotonic() - started)


KEEP_FOR: Final = timedelta(days=1)
MISSING_S: Final = 60.0
"""The minimum time to look for a missing id, in seconds. The id of a rolled back transaction never appears."""
MAX_MISSING: Final = 10_000
LOOK_BACK_ENTRIES: Final = 10_000  # a new reader looks for missing ids among this many entries at the end of the log
MAX_IN_FLIGHT: Final = 100  # at most this many uncommitted transactions have an id below all visible ids

INSERT_ENTRY: Final = insert(changes)
LATER_ENTRIES: Final = select(changes).where(changes.c.id > bindparam("last_id")).order_by(changes.c.id)
MISSING_ENTRIES: Final = (
    select(changes).where(changes.c.id.in_(bindparam("missing", expanding=True))).order_by(changes.c.id)
)
RECENT_IDS: Final = select(changes.c.id).order_by(changes.c.id.desc()).limit(LOOK_BACK_ENTRIES)
LAST_ID: Final = select(func.coalesce(func.max(changes.c.id), 0))
FIRST_AND_LAST_ID: Final = select(func.coalesce(func.min(changes.c.id), 0), func.coalesce(func.max(changes.c.id), 0))


def missing_s(statement_s: float) -> float:
    """Return how long to look for a missing id, in seconds.

    `statement_s` (`store.pool.statement_s`) limits the statement that appends, the idle time after it, and the commit.
    The result is longer than these three limits together.
    """
    return max(MISSING_S, 4 * statement_s)


@dataclass(frozen=True, slots=True)
class LogPosition:
    """How far a reader has read the log.

    `last_id`: the highest id read. `missing`: the ids below `last_id` that have not appeared yet, each with the time
    when a reader first missed it (monotonic seconds).
    """

    last_id: int = 0
    missing: Mapping[int, float] = field(default_factory=dict)

    def read(self, ids: Iterable[int], missing_s: float = MISSING_S) -> "LogPosition":
        """Return the position after reading `ids`, which are in ascending order.

        The reader gives up an id that has been missing for `missing_s` seconds.
        """
        now, missing, last_id = clock.monotonic(), dict(self.missing), self.last_id
        for id_ in ids:
            if id_ <= last_id:
                missing.pop(id_, None)
                continue
            missing |= dict.fromkeys(range(max(last_id + 1, id_ - MAX_MISSING), id_), now)
            last_id = id_
        return LogPosition(last_id, {id_: since for id_, since in missing.items() if now - since < missing_s})


class ChangesMissed(Exception):
    """The log no longer contains all entries after the reader's position.

    So the reader's cached rows are possibly stale. The reader must continue from `ChangeLog.log_end`.
    """


async def record_change(db: AsyncConnection, ref: ConnectionRef, now: datetime, *, is_last: bool = False) -> int:
    """Add `ref` to the log, as the last write of the transaction that makes the change. Return the entry's id.

    `is_last`: whether the transaction runs no other statement and raises nothing after this call. Readers are notified
    after the commit (`Transactions.begin`).
    """
    entry = {"at": now, **ref._asdict()}
    db.info[NOTIFIES] = True
    result = await (execute_last(db, INSERT_ENTRY, entry) if is_last else db.execute(INSERT_ENTRY, entry))
    (change_id,) = result.inserted_primary_key or (0,)
    return int(change_id)


async def record_changes(db: AsyncConnection, refs: Iterable[ConnectionRef], now: datetime) -> None:
    """Add each of `refs` to the log, in the transaction that makes the changes."""
    entries = [{"at": now, **ref._asdict()} for ref in refs]
    if entries:
        db.info[NOTIFIES] = True
        await db.execute(INSERT_ENTRY, entries)


class ChangeLog:
    """The change log, as one process reads it.

    A process also reads the entries of its own writes. For some of these entries, `OwnChanges` knows the row's new
    mark.
    """

    def __init__(
        self, transactions: Transactions, watch: ChangeWatch, own_changes: OwnChanges, *, statement_s: float = 0.0
    ) -> None:
        self._transactions = transactions
        self._watch = watch
        self._own_changes = own_changes
        self._missing_s = missing_s(statement_s)

    async def log_end(self) -> LogPosition:
        """Return the present end of the log: the position from which a process with an empty cache begins to read."""
        async with self._transactions.read() as db:
            ids = sorted((await db.execute(RECENT_IDS)).scalars())
        return LogPosition(max(ids[0] - MAX_IN_FLIGHT, 0)).read(ids) if ids else LogPosition()

    async def read_since(self, position: LogPosition) -> tuple[LogPosition, dict[ConnectionRef, Mark | None]]:
        """Return the next position, and the connections that changed after `position`. Raises ChangesMissed.

        A connection has its row's mark as value if this process has made and recorded all changes of the connection.
        Otherwise the value is None. The changes of one connection have the order of their commits, because each
        transaction locks the connection's row.
        """
        last_id = position.last_id
        async with self._transactions.read() as db:
            late_rows = (
                (await db.execute(MISSING_ENTRIES, {"missing": list(position.missing)})).all()
                if position.missing
                else []
            )
            rows = (await db.execute(LATER_ENTRIES, {"last_id": last_id})).all()
            if not rows or rows[0].id != last_id + 1:  # without the next id, the rows in between are possibly pruned
                # the last of the three queries, to notice rows that were pruned after the others
                first_id, newest_id = (await db.execute(FIRST_AND_LAST_ID)).one()
                # the lowest ids of a new log can still be missing
                lowest_expected = last_id + 1 if last_id else MAX_IN_FLIGHT
                if (
                    first_id > lowest_expected or newest_id < last_id
                ):  # newest_id < last_id: an older backup was restored
                    self._own_changes.clear()  # after a restore, the ids can belong to other changes
                    raise ChangesMissed
        position = position.read((row.id for row in (*late_rows, *rows)), self._missing_s)
        if len(position.missing) > MAX_MISSING:
            raise ChangesMissed
        changed_marks: dict[ConnectionRef, Mark | None] = {}
        for row in (*late_rows, *rows):
            ref = ConnectionRef(row.environment, row.integration_id, row.connection_id)
            changed_marks[ref] = self._own_changes.mark_of_change(row.id) if changed_marks.get(ref, True) else None
        self._own_changes.forget(position.last_id, position.missing)
        return position, changed_marks

    async def version(self) -> Hashable:
        """Return a value that changes at least with each new entry in the log. Raises Unavailable, ChangesMissed."""
        return await self._watch.version()

    async def wait_for_change(self, at_most_s: float) -> None:
        """Return when the database has possibly changed, at the latest after `at_most_s` seconds. Never raises."""
        await self._watch.wait_for_change(at_most_s)

    async def close(self) -> None:
        await self._watch.close()

    async def prune(self, now: datetime) -> None:
        """Remove entries older than a day, but never the last entry.

        From the last entry, a reader sees whether it has missed changes.
        """
        is_old = (changes.c.at < now - KEEP_FOR) & (changes.c.id < LAST_ID.scalar_subquery())
        await prune_oldest(self._transactions, changes, is_old)
