"""SQLite's driver with one trip to a connection's thread for a statement, where it would otherwise take up to four.

A trip wakes a thread and the event loop again, each of which waits for the interpreter's lock: under load that costs several
times what SQLite itself does. So a statement is run, read to its end and closed in one; what only begins something goes
along with the statement after it, and the commit with the last one, where that is known to be the last.
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

CHUNK_ROWS: Final = 64  # for the driver's own cursors, which are not used here


class OneTripCursor:
    """The cursor that SQLAlchemy asks for. After a statement all its rows are here, and SQLite has closed it."""

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
        """Nothing is left to do."""

    async def _run(self, statement: Callable[[sqlite3.Cursor], object]) -> None:
        result = await self._connection.trip(partial(_run, statement))
        self.description, self._rows, self.rowcount, self.lastrowid = result


class OneTripConnection(aiosqlite.Connection):
    """A connection whose cursors are made without asking its thread, and which is no reason for a process to live on."""

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, CHUNK_ROWS)
        self._thread.daemon = True  # SQLAlchemy sets this when it makes the connection itself
        self._ahead: list[str] = []
        self._last = False
        self._cut = False
        self.shared = False  # shared by several writes, none of which may commit for the others

    def cursor(self) -> OneTripCursor:  # type: ignore[override]  # what SQLAlchemy enters
        return OneTripCursor(self)

    def ahead(self, statement: str) -> None:
        """Run this before the next statement and in its trip: one that begins a transaction, or a part of it, or ends a part.

        Should it fail, that statement raises and is not run.
        """
        self._ahead.append(statement)

    def commit_with_next(self) -> None:
        """The next statement is the last of its transaction. Should it fail, or the commit, that statement raises."""
        self._last = not self.shared

    async def trip(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """Run `work` in the connection's thread and return its result."""
        ahead, self._ahead = self._ahead, []
        last, self._last = self._last, False
        try:
            return await self._execute(partial(_between, ahead, work, last), self._conn)  # type: ignore[no-untyped-call]
        except asyncio.CancelledError:
            self._cut = True  # the waiting task has left, and the thread still works at it
            raise

    async def commit(self) -> None:
        """Commit what was begun; parts that are still open end with it. No trip where no statement was run."""
        self._nothing_comes()
        if self._cut or self.in_transaction:
            await self.trip(sqlite3.Connection.commit)

    async def rollback(self) -> None:
        """No trip where nothing is open, which is what a pool asks after each commit."""
        self._nothing_comes()
        if self._cut or self.in_transaction:
            await self.trip(sqlite3.Connection.rollback)
            self._cut = False

    def _nothing_comes(self) -> None:
        """Drop what was to go along with a next statement: none comes."""
        self._ahead.clear()
        self._last = False


class Connector:
    """Opens `path` only if it is there: SQLite would otherwise make an empty file in the place of one that was removed.

    If the caller is cancelled, the connection is opened and closed before that: its thread would otherwise answer an event
    loop that may have ended.
    """

    def __init__(self, path: Path) -> None:
        self._uri = f"file:{quote(str(path))}?mode=rw"
        self._opened: weakref.WeakSet[OneTripConnection] = weakref.WeakSet()

    async def __call__(self) -> OneTripConnection:
        opening = asyncio.ensure_future(self._open())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            with suppress(sqlite3.Error):
                await (await opening).close()
            raise

    async def close_left(self) -> None:
        """Close what the engine, which is disposed of, has not: a connection that a task had in hand at that moment goes back to
        a pool that nobody empties."""
        for connection in list(self._opened):
            with suppress(sqlite3.Error, ValueError):  # ValueError: its own close is under way
                await connection.close()

    async def _open(self) -> OneTripConnection:
        connection = OneTripConnection(partial(sqlite3.connect, self._uri, uri=True, check_same_thread=False))
        await connection
        self._opened.add(connection)
        return connection


def _between(
    ahead: Sequence[str], work: Callable[[sqlite3.Connection], Any], last: bool, db: sqlite3.Connection
) -> Any:
    for statement in ahead:
        db.execute(statement).close()
    made = work(db)
    if last:
        db.commit()
    return made


def _run(
    statement: Callable[[sqlite3.Cursor], object], db: sqlite3.Connection
) -> tuple[Any, Sequence[Any], int, int | None]:
    cursor = db.cursor()
    try:
        statement(cursor)
        rows = cursor.fetchall() if cursor.description else ()
        return cursor.description, rows, cursor.rowcount, cursor.lastrowid  # a row count is known after the last row
    finally:
        cursor.close()
