"""A SQLite driver that makes one trip to the connection's thread per statement, where aiosqlite makes up to four.

A trip wakes the thread and then the event loop, and both wait for Python's interpreter lock.
Under load, a trip costs several times as much as SQLite itself. So one trip runs a statement, fetches all rows and
closes the cursor. A statement such as BEGIN shares the trip of the next statement. A commit shares the trip of the last
statement. If no code of the gateway runs between its statements, a whole transaction is one trip.
"""

import asyncio
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import aiosqlite

CHUNK_ROWS: Final = 64  # for aiosqlite's own cursors, which this driver does not use


class OneTripCursor:
    """The cursor for SQLAlchemy. After a statement, the cursor has all rows, and SQLite's own cursor is closed."""

    __slots__ = ("_connection", "_rows", "arraysize", "description", "lastrowid", "rowcount")

    def __init__(self, connection: "OneTripConnection") -> None:
        self._connection = connection
        self._rows: Sequence[Any] = ()
        self.arraysize = 1
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        await self._run(lambda cursor: cursor.execute(statement, parameters))

    async def executemany(self, statement: str, parameters: Sequence[Sequence[Any]]) -> None:
        await self._run(lambda cursor: cursor.executemany(statement, parameters))

    async def fetchall(self) -> Sequence[Any]:
        rows, self._rows = self._rows, ()
        return rows

    async def close(self) -> None:
        """Do nothing, because SQLite's own cursor is already closed."""

    async def _run(self, statement: Callable[[sqlite3.Cursor], object]) -> None:
        result = await self._connection.run_on_connection(partial(_run, statement))
        self.description, self._rows, self.rowcount, self.lastrowid = result


class OneTripConnection(aiosqlite.Connection):
    """A connection that creates cursors without a trip to its thread. The thread does not keep the process alive."""

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, CHUNK_ROWS)
        self._thread.daemon = True  # SQLAlchemy sets this only for the connections that it creates itself
        self._queued_statements: list[str] = []
        self._is_last = False
        self._is_cut_off = False
        self.shared = False  # true: several writes share the transaction, so no single write may commit

    def cursor(self) -> OneTripCursor:  # type: ignore[override]  # what SQLAlchemy enters
        return OneTripCursor(self)

    def run_with_next(self, statement: str) -> None:
        """Run `statement` (BEGIN, SAVEPOINT or RELEASE) before the next statement, in the same trip.

        If `statement` fails, the next statement raises the error and does not run.
        """
        self._queued_statements.append(statement)

    def commit_with_next(self) -> None:
        """Commit in the trip of the next statement, which must be the last of its transaction.

        If the commit fails, the next statement raises the error.
        """
        self._is_last = not self.shared

    async def run_all(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[Any] | None:
        """Run the first statement and, if it returns a row, the other statements. Return the row of the last one.

        The statements are a transaction of their own, unless other writes share the transaction.
        """
        run = run_statements if self.shared else _run_in_transaction
        row: Sequence[Any] | None = await self.run_on_connection(partial(run, statements))
        return row

    async def run_on_connection(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """Run `work` in the connection's thread and return its result."""
        queued_statements, self._queued_statements = self._queued_statements, []
        is_last, self._is_last = self._is_last, False
        try:
            return await self._execute(partial(_run_trip, queued_statements, work, is_last), self._conn)  # type: ignore[no-untyped-call]
        except asyncio.CancelledError:
            self._is_cut_off = True  # the waiting task was cancelled, but the thread still runs the work
            raise

    async def commit(self) -> None:
        """Commit the transaction and its open savepoints. Makes no trip if no statement was run."""
        self._forget_queued()
        if self._is_cut_off or self.in_transaction:
            await self.run_on_connection(sqlite3.Connection.commit)

    async def rollback(self) -> None:
        """Roll back. Makes no trip if no transaction is open, because a pool rolls back even after a commit."""
        self._forget_queued()
        if self._is_cut_off or self.in_transaction:
            await self.run_on_connection(sqlite3.Connection.rollback)
            self._is_cut_off = False

    def _forget_queued(self) -> None:
        """Forget the statements that would share the trip of a next statement, because there is none."""
        self._queued_statements.clear()
        self._is_last = False


class Connector:
    """Opens `path` only if it exists: SQLite would otherwise create an empty file in place of a removed one.

    If the caller is cancelled, the connection is still opened, and then closed. Otherwise the connection's thread would
    report to an event loop that has possibly ended.
    """

    def __init__(self, path: Path) -> None:
        self._uri = f"file:{quote(str(path))}?mode=rw"
        self._open_connections: weakref.WeakSet[OneTripConnection] = weakref.WeakSet()

    async def __call__(self) -> OneTripConnection:
        open_task = asyncio.ensure_future(self._open())
        try:
            return await asyncio.shield(open_task)
        except asyncio.CancelledError:
            with suppress(sqlite3.Error):
                await (await open_task).close()
            raise

    async def close_remaining(self) -> None:
        """Close the connections that were in use during the engine's `dispose`, which did not close them.

        A connection of this kind later returns to the disposed pool, which does not close connections.
        """
        for connection in list(self._open_connections):
            with suppress(sqlite3.Error, ValueError):  # ValueError: another task is already closing the connection
                await connection.close()

    async def _open(self) -> OneTripConnection:
        connection = OneTripConnection(partial(sqlite3.connect, self._uri, uri=True, check_same_thread=False))
        await connection
        self._open_connections.add(connection)
        return connection


def _run_trip(
    queued_statements: Sequence[str], work: Callable[[sqlite3.Connection], Any], is_last: bool, db: sqlite3.Connection
) -> Any:
    for statement in queued_statements:
        db.execute(statement).close()
    result = work(db)
    if is_last:
        db.commit()
    return result


def run_statements(statements: Sequence[tuple[str, Sequence[Any]]], db: sqlite3.Connection) -> Sequence[Any] | None:
    """Run the first statement and, if it returns a row, the other statements. Return the row of the last one. Blocks."""
    row: Sequence[Any] | None = None
    for text, arguments in statements:
        rows = db.execute(text, arguments).fetchall()
        if not rows:
            return None
        row = rows[0]
    return row


def _run_in_transaction(
    statements: Sequence[tuple[str, Sequence[Any]]], db: sqlite3.Connection
) -> Sequence[Any] | None:
    """Run `statements` like `run_statements`, as a transaction of their own."""
    db.execute("BEGIN IMMEDIATE")
    try:
        row = run_statements(statements, db)
        db.commit()
    except BaseException:
        db.rollback()
        raise
    return row


def _run(
    statement: Callable[[sqlite3.Cursor], object], db: sqlite3.Connection
) -> tuple[Any, Sequence[Any], int, int | None]:
    cursor = db.cursor()
    try:
        statement(cursor)
        rows = cursor.fetchall() if cursor.description else ()
        # SQLite knows the row count only after the last row
        return cursor.description, rows, cursor.rowcount, cursor.lastrowid
    finally:
        cursor.close()
