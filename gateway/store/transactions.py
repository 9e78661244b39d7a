"""Transactions: reads and writes through the engines, and the differences between dialects.

Each write runs in a task of its own.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar

from sqlalchemy import Connection, Dialect, Executable, RowMapping, Table
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from gateway import clock
from gateway.errors import Unavailable
from gateway.records.trace import current_cause, current_traceparent
from gateway.store.database_faults import DatabaseDamage, DatabaseUnavailable, raised_as_unavailable

# ── The engines of a database, and how JSON is stored.


CloseLeft = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of one database.

    `writes_at_once`: how many write transactions may be open at the same time. `takes_one_statement`: whether one
    statement can read and write several tables. `close_left`: functions that close the connections that were in use
    during `dispose`.
    """

    writer: AsyncEngine
    reader: AsyncEngine
    writes_at_once: int
    takes_one_statement: bool = False
    close_left: tuple[CloseLeft, ...] = ()

    async def dispose(self) -> None:
        """Close all connections, the readers first.

        On SQLite, the last connection to close writes the WAL into the file. A reader must not write, so a writer
        closes last.
        """
        await self.reader.dispose()
        await self.writer.dispose()
        for close in self.close_left:
            await close()


def as_json(value: Any) -> str:
    """Return the JSON text that both databases store."""
    return json.dumps(value, separators=(",", ":"), default=dict)  # `default=dict` converts any Mapping


# ── An insert that does nothing if the row exists. SQLAlchemy has a different class for it in each dialect.


async def insert_if_absent(db: AsyncConnection, table: Table, row: Mapping[str, Any], *, key: Sequence[str]) -> bool:
    """Insert `row` unless a row with the same `key` columns exists. Return whether `row` was inserted."""
    values = dict(row)
    statement = inserting(db)(table).values(values).on_conflict_do_nothing(index_elements=key)
    return (await db.execute(statement)).rowcount == 1


def inserting(db: AsyncConnection) -> Any:
    """Return the dialect's own `insert`, with ON CONFLICT.

    Does not import the other dialect, which would cost 2 MB of memory.
    """
    if db.dialect.name == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert
    from sqlalchemy.dialects import postgresql

    return postgresql.insert


T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]
Fence = Callable[[AsyncConnection], Awaitable[None]]
Before = Callable[[], Awaitable[Fence | None]]

NOTIFY_EVERY_S: Final = 0.02  # the minimum time between two notifications, so that one covers a burst of commits
MAX_TRIES: Final = 8  # maximum number of tries; a try fails if another process replaces the data key in the meantime
# a key in a connection's `info`; if set, other processes are notified after the commit
NOTIFIES: Final = "gateway_notifies"
CROWDED: Final = "too many writes are queued"


def with_cause(work: Work[T], by: str | None) -> Work[T]:
    """Return a function that runs `work` with `by` as its cause (`current_cause`), in any task."""
    if by is None:
        return work

    async def run(db: AsyncConnection) -> T:
        before = current_cause.set(by)
        try:
            return await work(db)
        finally:
            current_cause.reset(before)

    return run


class FenceFailed(Exception):
    """A check that was made before a transaction no longer holds inside it.

    The transaction has written nothing, and the check is repeated.
    """


class MissingMasterKey(Unavailable):
    """The step `before` of a write needs a master key that a reload of the configuration can still bring.

    `wait_for_key`: waits for the key outside the queue of writes, for a limited time, and returns whether to try again.
    """

    def __init__(self, refusal: Unavailable, wait_for_key: Callable[[], Awaitable[bool]]) -> None:
        super().__init__(refusal.code, refusal.message, payload=refusal.payload, retry_after_s=refusal.retry_after_s)
        self.wait_for_key = wait_for_key


@dataclass(frozen=True, slots=True)
class OneStatement(Generic[T]):
    """A transaction's work as a single statement.

    A single statement saves the round trips for BEGIN, the fence, the change log entry and COMMIT. The statement either
    does everything and returns one row, or changes nothing and returns no row. `result`: converts the row to the result
    of the work.
    """

    statement: Executable
    parameters: Mapping[str, Any]
    result: Callable[[RowMapping], T]
    notifies: bool = False


AtOnce = Callable[[], OneStatement[T] | None] | None


Access = Literal["read", "write"]


@dataclass(slots=True)
class DatabaseWaits:
    """How often this process used the database, and how many seconds in total it waited before.

    A read waits for a connection of the pool. A write waits for its turn in the queue.
    """

    accesses: dict[Access, int] = field(default_factory=lambda: {"read": 0, "write": 0})
    seconds: dict[Access, float] = field(default_factory=lambda: {"read": 0.0, "write": 0.0})

    def record(self, access: Access, waited_s: float) -> None:
        self.accesses[access] += 1
        self.seconds[access] += waited_s


class Transactions:
    """Reads and writes the database. Raises Unavailable if the database is locked, full, read-only or gone."""

    def __init__(
        self,
        engines: Engines,
        *,
        queue_s: float,
        check: Callable[[], None] = lambda: None,
        notify: Callable[["Transactions"], Awaitable[None]] | None = None,
    ) -> None:
        self._engines = engines
        self._notify = notify
        self._notifying: asyncio.Task[None] | None = None
        self._notify_again = False
        self._check = check
        self._queue_s = queue_s
        self._turn = asyncio.Semaphore(engines.writes_at_once)
        self._running: set[asyncio.Task[object]] = set()
        self.damage = DatabaseDamage()
        self.waits = DatabaseWaits()

    @property
    def writes_at_once(self) -> int:
        return self._engines.writes_at_once

    @property
    def dialect(self) -> Dialect:
        return self._engines.writer.dialect

    @property
    def takes_one_statement(self) -> bool:
        """Whether one statement can read and write several tables. True on PostgreSQL, false on SQLite."""
        return self._engines.takes_one_statement

    async def write(self, work: Work[T], *, before: Before | None = None, at_once: AtOnce[T] = None) -> T:
        """Run `work` in one transaction and commit it. Waits at most `queue_s` seconds for its turn.

        `before`: runs before the transaction, in the same turn, and returns a fence or None. A fence runs first in the
        transaction. The fence checks that the result of `before` is still valid, and locks what it has checked. If the
        check fails, the fence raises FenceFailed, and `before` runs again. If `before` raises MissingMasterKey, other
        writes run until the key arrives.

        `at_once`: returns one statement that does the work of `work` in the usual case, or None. The statement is tried
        first. If it returns no row, `work` runs.

        The write continues if the caller is cancelled. A transaction cut in the middle would leave its connection in an
        unknown state, and a refreshed token that is not stored is lost. The write's task has the name of the caller's
        task.
        """
        asking = asyncio.current_task()
        work = with_cause(work, current_traceparent())
        task = asyncio.create_task(self._in_turns(work, before, at_once), name=asking.get_name() if asking else None)
        self._running.add(task)
        task.add_done_callback(self._on_task_ended)
        return await asyncio.shield(task)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Yield a read-only connection that sees committed data."""
        self.check()  # without this check, an open connection would still read a removed file
        asked_at = clock.monotonic()
        with raised_as_unavailable(self.damage):
            async with self._engines.reader.connect() as db:
                self.waits.record("read", clock.monotonic() - asked_at)
                yield db

    async def close(self) -> None:
        """Wait for running writes, then close every connection."""
        while self._running:
            await asyncio.wait(set(self._running))
        await self._engines.dispose()

    async def _in_turns(self, work: Work[T], before: Before | None, at_once: AtOnce[T]) -> T:
        while True:
            try:
                return await self._in_turn(work, before, at_once)
            except MissingMasterKey as lack:
                if not await lack.wait_for_key():
                    raise

    async def _in_turn(self, work: Work[T], before: Before | None, at_once: AtOnce[T]) -> T:
        asked_at = clock.monotonic()
        try:
            async with asyncio.timeout(self._queue_s):
                await self._turn.acquire()
        except TimeoutError:
            raise DatabaseUnavailable(CROWDED) from None
        finally:
            self.waits.record("write", clock.monotonic() - asked_at)
        try:
            return await self._run_alone(work, before, at_once)
        finally:
            self._turn.release()

    async def _run_alone(self, work: Work[T], before: Before | None, at_once: AtOnce[T] = None) -> T:
        """Run `before`, then the fence and `work`, or the single statement. The write already has its turn."""
        self.check()
        for _ in range(MAX_TRIES):
            fence = await before() if before is not None else None
            one_statement = at_once() if at_once is not None and self.takes_one_statement else None
            if one_statement is not None and (row := await self._one_row(one_statement)) is not None:
                return one_statement.result(row)
            try:
                return await self.begin(work if fence is None else with_fence(fence, work))
            except FenceFailed:
                continue
        raise DatabaseUnavailable("its data keys are being replaced")

    def check(self) -> None:
        """Raise Unavailable if the open database file was removed or replaced."""
        with raised_as_unavailable(self.damage):
            self._check()

    async def begin(self, work: Work[T]) -> T:
        """Run `work` in one transaction, without waiting for a turn. Used by `before`, and to open the store."""
        with raised_as_unavailable(self.damage):
            async with self._engines.writer.begin() as db:
                db.info.pop(NOTIFIES, None)
                done = await work(db)
                notifies = db.info.pop(NOTIFIES, False)
        self.damage.record_commit()
        if notifies and self._notify is not None:
            self._notify_others()
        return done

    async def _one_row(self, one_statement: OneStatement[T]) -> RowMapping | None:
        with raised_as_unavailable(self.damage):
            async with self._engines.writer.connect() as db:
                row = await db.run_sync(_execute_alone, one_statement)
        if row is not None:
            self.damage.record_commit()
        if row is not None and one_statement.notifies and self._notify is not None:
            self._notify_others()
        return row

    def _notify_others(self) -> None:
        """Notify other processes. All commits until `NOTIFY_EVERY_S` after a notification share the next one."""
        self._notify_again = True
        if self._notifying is None or self._notifying.done():
            self._notifying = asyncio.create_task(self._notify_processes(), name="notify_others")
            self._running.add(self._notifying)
            self._notifying.add_done_callback(self._on_task_ended)

    async def _notify_processes(self) -> None:
        assert self._notify is not None
        while self._notify_again:
            self._notify_again = False
            with suppress(Unavailable):  # no error: other processes look for changes at least once a second
                await self._notify(self)
            await clock.sleep(NOTIFY_EVERY_S)

    def _on_task_ended(self, task: asyncio.Task[object]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            # marks the exception as retrieved; the caller also gets it, unless the caller was cancelled
            task.exception()


def _execute_alone(connection: Connection, one_statement: OneStatement[Any]) -> RowMapping | None:
    """Execute the statement as a transaction of its own, and return its row.

    AUTOCOMMIT is set for this execution only. An engine with AUTOCOMMIT would cost more, because SQLAlchemy prepares
    listeners for the engine's event with each connection.
    """
    connection.execution_options(isolation_level="AUTOCOMMIT")
    return connection.execute(one_statement.statement, one_statement.parameters).mappings().one_or_none()


def with_fence(fence: Fence, work: Work[T]) -> Work[T]:
    """Return a function that runs `fence` and then `work`."""

    async def run_fenced(db: AsyncConnection) -> T:
        await fence(db)
        return await work(db)

    return run_fenced
