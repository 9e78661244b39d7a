"""The change log: what other processes must see, and what this one has written itself; old rows removed.

What other processes must see: an append-only log of the connections that were written, stored, removed or failed.

A writer appends as the last statement of its transaction, without a lock: transactions of different connections commit
independently. PostgreSQL hands out ids before the commit, so a later id may become visible first. The reader therefore
remembers the ids that it has not seen below the last one (`LogPosition.missing`) and asks for them again until they appear,
or until no transaction that could still commit them can be alive.
"""

import asyncio
from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, CursorResult, Executable, Table, bindparam, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.records.connection import ConnectionRef, Mark
from gateway.store.backend import ChangeWatch
from gateway.store.tables import changes
from gateway.store.transactions import NOTIFIES, Transactions

# ── The last statement of a transaction, marked as such where that saves a round trip.


async def execute_last(db: AsyncConnection, statement: Executable, parameters: Mapping[str, Any]) -> CursorResult[Any]:
    """Run `statement`, after which the caller's transaction runs no other and raises nothing.

    On SQLite it is committed when this returns, unless other writes share the transaction; elsewhere it commits at its end.
    """
    if db.dialect.name == "sqlite":
        connection = db.sync_connection
        assert connection is not None, "a transaction has a connection"
        driver: Any = connection.connection.driver_connection
        driver.commit_with_next()
    return await db.execute(statement, parameters)


# ── Refreshes that this process has written itself, so that following the change log it need not read them back.

MOST: Final = 10_000  # where nobody follows the log, as in a command


class OwnChanges:
    """This process's own changes, by their ids in the change log. One that is not recorded here is read like another's."""

    def __init__(self) -> None:
        self._marks: dict[int, Mark] = {}

    def __len__(self) -> int:
        return len(self._marks)

    def record(self, change_id: int, mark: Mark) -> None:
        """Committed under that id, which no other reader is notified of; `mark` is the row's afterwards."""
        if len(self._marks) < MOST:
            self._marks[change_id] = mark

    def of(self, change_id: int) -> Mark | None:
        """The row's mark after that change, where it was ours."""
        return self._marks.get(change_id)

    def forget(self, last_id: int, missing: Container[int] = ()) -> None:
        """Forget what was read up to `last_id`, so that it is not read again, but for the `missing`."""
        for change_id in [one for one in self._marks if one <= last_id and one not in missing]:
            del self._marks[change_id]

    def clear(self) -> None:
        """The log is another by now."""
        self._marks.clear()


# ── Old rows of tables that only grow at their end, removed so that other writes hardly wait.

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
        if not removed:  # none is left, or another node has just removed them
            return total
        total += removed
        await asyncio.sleep(clock.monotonic() - begun)


KEPT: Final = timedelta(days=1)
MISSING_S: Final = 60.0
"""How long to look for a missing id at least, in seconds. An id that never appears is that of a rolled back transaction."""
MOST_MISSING: Final = 10_000
LOOK_BACK: Final = 10_000  # ids before the end of the log, of which some may not be committed when a reader begins
IN_FLIGHT: Final = 100  # transactions at most that have an id below all that are visible

NOTED: Final = insert(changes)
LATER: Final = select(changes).where(changes.c.id > bindparam("last_id")).order_by(changes.c.id)
AMONG: Final = select(changes).where(changes.c.id.in_(bindparam("missing", expanding=True))).order_by(changes.c.id)
RECENT: Final = select(changes.c.id).order_by(changes.c.id.desc()).limit(LOOK_BACK)
LAST: Final = select(func.coalesce(func.max(changes.c.id), 0))
ENDS: Final = select(func.coalesce(func.min(changes.c.id), 0), func.coalesce(func.max(changes.c.id), 0))


def missing_s(statement_s: float) -> float:
    """How long to look for a missing id. `store.pool.statement_s` bounds each of the statement that appends, the idle time
    behind it and the commit; the result is longer than all three together."""
    return max(MISSING_S, 4 * statement_s)


@dataclass(frozen=True, slots=True)
class LogPosition:
    """How far a reader has read: all ids up to `last_id` but the `missing` ones, each with when it was first missed
    (monotonic seconds)."""

    last_id: int = 0
    missing: Mapping[int, float] = field(default_factory=dict)

    def read(self, ids: Iterable[int], missing_s: float = MISSING_S) -> "LogPosition":
        """The position once `ids`, in ascending order, were read as well. What is missing for `missing_s` is given up."""
        now, missing, last_id = clock.monotonic(), dict(self.missing), self.last_id
        for one in ids:
            if one <= last_id:
                missing.pop(one, None)
                continue
            missing |= dict.fromkeys(range(max(last_id + 1, one - MOST_MISSING), one), now)
            last_id = one
        return LogPosition(last_id, {one: since for one, since in missing.items() if now - since < missing_s})


class ChangesMissed(Exception):
    """The log no longer reaches back to where the reader stood: whatever it kept may be stale. Go on from `ChangeLog.end`."""


async def record_change(db: AsyncConnection, ref: ConnectionRef, now: datetime, *, ends: bool = False) -> int:
    """Add `ref` to the log, as the last thing that the transaction of the change itself writes. Returns the entry's id.

    `ends`: nor does it read anything or raise afterwards. Readers are notified after the commit (`Transactions.begin`).
    """
    entry = {"at": now, **ref._asdict()}
    db.info[NOTIFIES] = True
    noted = await (execute_last(db, NOTED, entry) if ends else db.execute(NOTED, entry))
    (change_id,) = noted.inserted_primary_key or (0,)
    return int(change_id)


class ChangeLog:
    """Read by every process, its own writes included; of some of these it knows what they made of the row."""

    def __init__(
        self, transactions: Transactions, watch: ChangeWatch, own: OwnChanges, *, statement_s: float = 0.0
    ) -> None:
        self._transactions = transactions
        self._watch = watch
        self._own = own
        self._missing_s = missing_s(statement_s)

    async def end(self) -> LogPosition:
        """Where the log ends now: where a process that has kept nothing yet begins to read."""
        async with self._transactions.read() as db:
            ids = sorted((await db.execute(RECENT)).scalars())
        return LogPosition(max(ids[0] - IN_FLIGHT, 0)).read(ids) if ids else LogPosition()

    async def since(self, position: LogPosition) -> tuple[LogPosition, dict[ConnectionRef, Mark | None]]:
        """The position to ask with next, and the connections that changed after `position`. Raises ChangesMissed.

        With each the mark that its row had then, where all its changes were refreshes of this process; else None.
        Of one connection, changes come in the order of their commits: each holds the lock of its row.
        """
        last_id = position.last_id
        async with self._transactions.read() as db:
            late = (await db.execute(AMONG, {"missing": list(position.missing)})).all() if position.missing else []
            rows = (await db.execute(LATER, {"last_id": last_id})).all()
            if not rows or rows[0].id != last_id + 1:  # otherwise no id is missing, and the log reaches back
                first, last = (await db.execute(ENDS)).one()  # last, so that what is pruned in between shows
                reaches = last_id + 1 if last_id else IN_FLIGHT  # the first ones of all may still be missing
                if first > reaches or last < last_id:  # the latter after an older backup was restored
                    self._own.clear()  # their ids may belong to other changes there
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
        """Something that differs from last time if anything was committed since. Raises Unavailable, ChangesMissed."""
        return await self._watch.version()

    async def moved(self, at_most_s: float) -> None:
        """Return as soon as something may have changed, or after so many seconds. Never raises."""
        await self._watch.moved(at_most_s)

    async def close(self) -> None:
        await self._watch.close()

    async def prune(self, now: datetime) -> None:
        """Forget what is older than a day, but never the last entry, by which a reader sees whether it missed any."""
        old = (changes.c.at < now - KEPT) & (changes.c.id < LAST.scalar_subquery())
        await prune_oldest(self._transactions, changes, old)
