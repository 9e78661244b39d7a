"""The store in a SQLite file: its engines, the file made ready, seen to be there still, its changes noticed."""

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Hashable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, event
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from gateway import clock
from gateway.journal.place import journal_beside
from gateway.store.backend import ONLY, Backend
from gateway.store.call_log.sqlite_call_log import SqliteCallLog, call_log_beside
from gateway.store.database_faults import FileGone, cause_of, raised_as_unavailable
from gateway.store.preflight_checks import StoreRefused
from gateway.store.sqlite.file_preflight import look, sqlite_path
from gateway.store.sqlite.group_commit import GroupCommit
from gateway.store.sqlite.sqlite_backup import last_backup
from gateway.store.sqlite.sqlite_driver import Connector
from gateway.store.transactions import CloseLeft, Engines, as_json
from gateway.vault import Keyring

# ── The engines for SQLite: one connection writes and some read; nothing else opens the file.
#
# A transaction of the writer begins with BEGIN IMMEDIATE, so that it never fails half-way because another has the write lock. The
# readers have their own engine, since that same begin would lock each of their reads too.

READERS: Final = 4
READING: Final = 3  # times `busy_s`: reads wait for nobody, so that a queue of them moves
EACH: Final = ("foreign_keys = ON", "synchronous = FULL", "journal_size_limit = 67108864")


def sqlite_engines(path: Path, *, busy_s: float) -> Engines:
    """Engines over `path`, which exists and is in WAL mode; a writer waits `busy_s` for those of other processes."""
    busy = f"busy_timeout = {int(busy_s * 1000)}"
    writer, close_writers = _engine(path, connections=1, wait_s=busy_s, pragmas=(*EACH, busy))
    reader, close_readers = _engine(
        path, connections=READERS, wait_s=READING * busy_s, pragmas=(busy, "query_only = ON"), autocommit=True
    )
    event.listen(writer.sync_engine, "begin", _begin_immediate)
    return Engines(writer, reader, writes_at_once=1, close_left=(close_readers, close_writers))


def sqlite_watcher(path: Path, *, busy_s: float) -> tuple[AsyncEngine, CloseLeft]:
    """Return a pool of one connection, since data_version compares with itself only; and `Engines.close_left`."""
    pragmas = (f"busy_timeout = {int(busy_s * 1000)}", "query_only = ON")
    return _engine(path, connections=1, wait_s=busy_s, pragmas=pragmas, autocommit=True)


def _engine(
    path: Path, *, connections: int, wait_s: float, pragmas: tuple[str, ...], autocommit: bool = False
) -> tuple[AsyncEngine, CloseLeft]:
    # What begins no transaction has none to roll back, and is spared the trip.
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "skip_autocommit_rollback": True} if autocommit else {}
    connector = Connector(path)
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        async_creator=connector,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=wait_s,
        json_serializer=as_json,
        hide_parameters=True,  # an error must not print what was to be stored
        **options,
    )
    event.listen(engine.sync_engine, "connect", _on_connect(pragmas))
    return engine, connector.close_left


def _on_connect(pragmas: tuple[str, ...]) -> Callable[[Any, Any], None]:
    def prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins nothing of its own; `_begin_immediate` does
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return prepare


def _begin_immediate(connection: Connection) -> None:
    driver: Any = connection.connection.driver_connection
    driver.ahead("BEGIN IMMEDIATE")


# ── The file made ready, and seen to be there still.


def prepare(path: Path, *, busy_s: float) -> None:
    """Create the file for its owner alone (0600; -wal and -shm take after it) and put it into WAL mode. Blocks.

    Raises StoreRefused. Two processes may do this at once: changing the journal mode does not wait for a lock as
    statements do, hence the loop.
    """
    try:
        _create(path)
        with closing(sqlite3.connect(path, timeout=busy_s, isolation_level=None)) as db:
            deadline = time.monotonic() + busy_s
            while not _in_wal_mode(db, last_try=time.monotonic() > deadline):
                time.sleep(0.01)
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else cause_of(error)
        raise StoreRefused(f"{path} cannot be opened for writing: {reason or error}.") from error


def _create(path: Path) -> None:
    """Where it is there already it is not opened: see `look` on what closing it would do."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _in_wal_mode(db: sqlite3.Connection, *, last_try: bool) -> bool:
    try:
        mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or last_try:
            raise
        return False
    if mode != "wal":
        raise sqlite3.OperationalError(f"its file system does not support SQLite's WAL mode (stayed in '{mode}')")
    return True


def still_there(path: Path) -> Callable[[], None]:
    """A check, some microseconds long, that `path` still names the file it names now. The check raises FileGone."""
    opened = path.stat()

    def check() -> None:
        try:
            found = path.stat()
        except OSError as fault:
            raise FileGone(f"{path} was removed or moved; put it back") from fault
        if (found.st_dev, found.st_ino) != (opened.st_dev, opened.st_ino):
            raise FileGone(f"{path} was replaced by another file; restart the gateway")

    return check


# ── Changes on SQLite: `PRAGMA data_version` changes with every commit, and the write-ahead log's file hints that there
# is one.

GLANCE_S: Final = 0.05


class SqliteWatch:
    """`engine` has one connection, because data_version compares with itself on the same connection only."""

    timeline: str | None = None
    timeline_sql: str | None = None

    def __init__(self, engine: AsyncEngine, close_left: CloseLeft, path: Path) -> None:
        self._engine = engine
        self._close_left = close_left
        self._log = path.with_name(path.name + "-wal")
        self._seen = self._stamp()

    async def moved(self, at_most_s: float) -> None:
        """Looks at size and time of the log, microseconds each. Both may miss a commit, which then waits for the end."""
        end = clock.monotonic() + at_most_s
        while (left := end - clock.monotonic()) > 0:
            await asyncio.sleep(min(left, GLANCE_S))
            stamp = self._stamp()
            if stamp != self._seen:
                self._seen = stamp
                return

    async def version(self) -> Hashable:
        """The data_version, and the connection's identity, at the price of no table read."""
        with raised_as_unavailable():
            async with self._engine.connect() as db:
                raw = await db.get_raw_connection()
                return id(raw.driver_connection), (await db.exec_driver_sql("PRAGMA data_version")).scalar_one()

    async def close(self) -> None:
        await self._engine.dispose()
        await self._close_left()

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._log.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size


# ── The store in a SQLite file.

QUEUED: Final = 3  # times as long as for others: a writer that waits for its turn here sees the queue move


async def open_sqlite(url: str, keyring: Keyring, *, busy_s: float) -> Backend:
    """A write waits at most `busy_s` for other processes, and three times as long for its turn here. Raises StoreRefused."""
    path = sqlite_path(url)
    await asyncio.to_thread(look, path, keyring)
    await asyncio.to_thread(prepare, path, busy_s=busy_s)
    transactions = GroupCommit(sqlite_engines(path, busy_s=busy_s), queue_s=QUEUED * busy_s, check=still_there(path))
    watch = SqliteWatch(*sqlite_watcher(path, busy_s=busy_s), path)
    # The one writer's lock keeps others waiting.
    call_log = SqliteCallLog(call_log_beside(path))
    return Backend(
        str(path),
        transactions,
        watch,
        transactions.write,
        call_log,
        journal_beside(path),
        ONLY,
        partial(last_backup, path),
    )
