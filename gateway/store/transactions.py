"""Transactions: reads and writes through the engines, and the differences between dialects.

Each write runs in a task of its own.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar

from sqlalchemy import ClauseElement, Dialect, Select, Table
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.sql.compiler import SQLCompiler

from gateway import clock
from gateway.errors import Unavailable
from gateway.records.trace import current_cause, current_traceparent
from gateway.store.database_faults import DatabaseDamage, DatabaseUnavailable, raised_as_unavailable

# ── The engines of a database, and how JSON is stored.


CloseRemaining = Callable[[], Awaitable[None]]
BoundStatement = tuple[str, Sequence[Any]]
"""The text of a statement, and its arguments in order."""
FetchRow = Callable[[AsyncConnection, BoundStatement], Awaitable[Sequence[Any] | None]]
"""Runs a statement that returns at most one row, and returns this row."""
RunInOneTrip = Callable[[AsyncConnection, Sequence[BoundStatement]], Awaitable[Sequence[Any] | None]]
"""Runs the statements of a `OneTrip`, and returns the row of the last; None if the first has returned no row."""


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of one database.

    - `writes_at_once`: how many write transactions may be open at the same time
    - `fetch_row`: runs a query on a connection of `reader`
    - `run_in_one_trip`: runs a `OneTrip` on a connection of `writer`
    - `close_remaining`: functions that close the connections that were in use during `dispose`
    """

    writer: AsyncEngine
    reader: AsyncEngine
    writes_at_once: int
    fetch_row: FetchRow
    run_in_one_trip: RunInOneTrip
    close_remaining: tuple[CloseRemaining, ...] = ()

    async def dispose(self) -> None:
        """Close all connections, the readers first.

        On SQLite, the last connection to close writes the WAL into the file. A reader must not write, so a writer
        closes last.
        """
        await self.reader.dispose()
        await self.writer.dispose()
        for close in self.close_remaining:
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
QUEUE_FULL: Final = "too many writes are queued"


def with_cause(work: Work[T], cause: str | None) -> Work[T]:
    """Return a function that runs `work` with `cause` as its cause (`current_cause`), in any task."""
    if cause is None:
        return work

    async def run(db: AsyncConnection) -> T:
        former_cause = current_cause.set(cause)
        try:
            return await work(db)
        finally:
            current_cause.reset(former_cause)

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


class CompiledStatement:
    """A statement that is compiled once, and that the driver runs itself.

    For each execution, SQLAlchemy takes more CPU time than the driver.
    """

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        assert isinstance(compiled, SQLCompiler)
        self._text = compiled.string
        self._arguments = [
            (name, bind.required, bind.value, bind.type.dialect_impl(dialect).bind_processor(dialect))
            for name, bind in ((name, compiled.binds[name]) for name in compiled.positiontup or ())
        ]

    def bind(self, parameters: Mapping[str, Any]) -> BoundStatement:
        """Return the statement with its arguments. `parameters` may have more members than the statement needs."""
        arguments = []
        for name, required, value, convert in self._arguments:
            argument = parameters[name] if required else value
            arguments.append(argument if convert is None else convert(argument))
        return self._text, arguments


class CompiledQuery(CompiledStatement):
    """A query of columns that is compiled once, and that the driver runs itself."""

    def __init__(self, query: Select[Any], dialect: Dialect) -> None:
        super().__init__(query, dialect)
        self._columns = [
            (column.name, column.type.dialect_impl(dialect).result_processor(dialect, None))
            for column in query.selected_columns
        ]

    def values(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return the values of a row by the names of their columns."""
        return {
            name: value if convert is None else convert(value)
            for (name, convert), value in zip(self._columns, row, strict=True)
        }


@dataclass(frozen=True, slots=True)
class OneTrip(Generic[T]):
    """A transaction's work as statements that need one trip to the database, with BEGIN and COMMIT.

    The first statement returns one row. If it returns none, it has changed nothing, and the other statements do not
    run. On PostgreSQL, there is only one statement. `result`: converts the row of the last statement to the result of
    the work.
    """

    statements: Sequence[BoundStatement]
    result: Callable[[Sequence[Any]], T]
    notifies: bool = False


InOneTrip = Callable[[], OneTrip[T] | None] | None


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
        self._write_slots = asyncio.Semaphore(engines.writes_at_once)
        self._running: set[asyncio.Task[object]] = set()
        self.damage = DatabaseDamage()
        self.waits = DatabaseWaits()

    @property
    def writes_at_once(self) -> int:
        return self._engines.writes_at_once

    @property
    def dialect(self) -> Dialect:
        return self._engines.writer.dialect

    async def write(self, work: Work[T], *, before: Before | None = None, in_one_trip: InOneTrip[T] = None) -> T:
        """Run `work` in one transaction and commit it. Waits at most `queue_s` seconds for its turn.

        `before`: runs before the transaction, in the same turn, and returns a fence or None. A fence runs first in the
        transaction. The fence checks that the result of `before` is still valid, and locks what it has checked. If the
        check fails, the fence raises FenceFailed, and `before` runs again. If `before` raises MissingMasterKey, other
        writes run until the key arrives.

        `in_one_trip`: returns statements that do the work of `work` in the usual case, or None. They are tried first. If
        they return no row, `work` runs.

        The write continues if the caller is cancelled. A transaction cut in the middle would leave its connection in an
        unknown state, and a refreshed token that is not stored is lost. The write's task has the name of the caller's
        task.
        """
        calling_task = asyncio.current_task()
        work = with_cause(work, current_traceparent())
        task = asyncio.create_task(
            self._in_turns(work, before, in_one_trip), name=calling_task.get_name() if calling_task else None
        )
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

    async def fetch_row(self, statement: BoundStatement) -> Sequence[Any] | None:
        """Return the row of a query that returns at most one row."""
        async with self.read() as db:
            return await self._engines.fetch_row(db, statement)

    async def close(self) -> None:
        """Wait for running writes, then close every connection."""
        while self._running:
            await asyncio.wait(set(self._running))
        await self._engines.dispose()

    async def _in_turns(self, work: Work[T], before: Before | None, in_one_trip: InOneTrip[T]) -> T:
        while True:
            try:
                return await self._in_turn(work, before, in_one_trip)
            except MissingMasterKey as fault:
                if not await fault.wait_for_key():
                    raise

    async def _in_turn(self, work: Work[T], before: Before | None, in_one_trip: InOneTrip[T]) -> T:
        asked_at = clock.monotonic()
        try:
            async with asyncio.timeout(self._queue_s):
                await self._write_slots.acquire()
        except TimeoutError:
            raise DatabaseUnavailable(QUEUE_FULL) from None
        finally:
            self.waits.record("write", clock.monotonic() - asked_at)
        try:
            return await self._run_alone(work, before, in_one_trip)
        finally:
            self._write_slots.release()

    async def _run_alone(self, work: Work[T], before: Before | None, in_one_trip: InOneTrip[T] = None) -> T:
        """Run `before`, then the statements of `in_one_trip`, or the fence and `work`. The write already has its turn."""
        self.check()
        for _ in range(MAX_TRIES):
            fence = await before() if before is not None else None
            one_trip = in_one_trip() if in_one_trip is not None else None
            if one_trip is not None and (row := await self._run_in_one_trip(one_trip)) is not None:
                return one_trip.result(row)
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
                result = await work(db)
                notifies = db.info.pop(NOTIFIES, False)
        self.damage.record_commit()
        if notifies and self._notify is not None:
            self._notify_others()
        return result

    async def _run_in_one_trip(self, one_trip: OneTrip[T]) -> Sequence[Any] | None:
        with raised_as_unavailable(self.damage):
            async with self._engines.writer.connect() as db:
                row = await self._engines.run_in_one_trip(db, one_trip.statements)
        if row is not None:
            self.damage.record_commit()
        if row is not None and one_trip.notifies and self._notify is not None:
            self._notify_others()
        return row

    def _notify_others(self) -> None:
        """Notify other processes of new commits. All commits until `NOTIFY_EVERY_S` after a notification share the next one."""
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


def driver_of(db: AsyncConnection) -> Any:
    """Return the driver's own connection."""
    connection = db.sync_connection
    assert connection is not None, "the connection is open"
    return connection.connection.driver_connection


def with_fence(fence: Fence, work: Work[T]) -> Work[T]:
    """Return a function that runs `fence` and then `work`."""

    async def run_fenced(db: AsyncConnection) -> T:
        await fence(db)
        return await work(db)

    return run_fenced
