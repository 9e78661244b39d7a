"""The store in a SQLite file: the engines, creating and checking the file, and noticing changes."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, event
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from gateway import clock
from gateway.http.json_depth import parse_stored_json
from gateway.journal.journal_folder import journal_beside, other_journals_beside
from gateway.store.backend import ONLY_NODE, Backend
from gateway.store.call_log.sqlite_call_log import SqliteCallLog, call_log_beside
from gateway.store.database_faults import FileGone, cause_of, raised_as_unavailable
from gateway.store.preflight_checks import DISK_FULL, StoreRefused
from gateway.store.sqlite.file_preflight import check_file, sqlite_path
from gateway.store.sqlite.group_commit import GroupCommit
from gateway.store.sqlite.sqlite_backup import last_backup
from gateway.store.sqlite.sqlite_driver import Connector, run_statements
from gateway.store.transactions import BoundStatement, CloseRemaining, Engines, as_json, driver_of
from gateway.vault import Keyring

# ── The engines for SQLite: one connection writes, and several read. Nothing else opens the file.
#
# The writer's transactions begin with BEGIN IMMEDIATE. So a transaction cannot fail half-way when another process has
# the write lock. The readers have an engine of their own: with BEGIN IMMEDIATE, each read would take the write lock
# too.

READERS: Final = 4
SHM_BYTES: Final = 32 << 10  # the size of the file `-shm` of a database with a small WAL
# a read waits up to 3 × `busy_s` for a connection; reads need no lock, so the queue of reads keeps moving
READ_WAIT_FACTOR: Final = 3
WRITER_PRAGMAS: Final = ("foreign_keys = ON", "synchronous = FULL", "journal_size_limit = 67108864")


def sqlite_engines(path: Path, *, busy_s: float) -> Engines:
    """Return engines for `path`, an existing file in WAL mode.

    `busy_s`: how long a write waits for other processes, in seconds.
    """
    busy_timeout = f"busy_timeout = {int(busy_s * 1000)}"
    writer, close_writers = _engine(path, connections=1, wait_s=busy_s, pragmas=(*WRITER_PRAGMAS, busy_timeout))
    reader, close_readers = _engine(
        path,
        connections=READERS,
        wait_s=READ_WAIT_FACTOR * busy_s,
        pragmas=(busy_timeout, "query_only = ON"),
        autocommit=True,
    )
    event.listen(writer.sync_engine, "begin", _begin_immediate)
    return Engines(writer, reader, 1, fetch_row, run_in_one_trip, close_remaining=(close_readers, close_writers))


async def fetch_row(db: AsyncConnection, statement: BoundStatement) -> Sequence[Any] | None:
    row: Sequence[Any] | None = await driver_of(db).run_on_connection(partial(run_statements, [statement]))
    return row


async def run_in_one_trip(db: AsyncConnection, statements: Sequence[BoundStatement]) -> Sequence[Any] | None:
    row: Sequence[Any] | None = await driver_of(db).run_all(statements)
    return row


def sqlite_watcher(path: Path, *, busy_s: float) -> tuple[AsyncEngine, CloseRemaining]:
    """Return an engine with a single connection, and the function for `Engines.close_remaining`.

    Values of `PRAGMA data_version` can only be compared on the same connection.
    """
    pragmas = (f"busy_timeout = {int(busy_s * 1000)}", "query_only = ON")
    return _engine(path, connections=1, wait_s=busy_s, pragmas=pragmas, autocommit=True)


def _engine(
    path: Path, *, connections: int, wait_s: float, pragmas: tuple[str, ...], autocommit: bool = False
) -> tuple[AsyncEngine, CloseRemaining]:
    # In AUTOCOMMIT there is no transaction to roll back. Skipping the rollback saves a trip to the thread.
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", "skip_autocommit_rollback": True} if autocommit else {}
    connector = Connector(path)
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        async_creator=connector,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=wait_s,
        json_serializer=as_json,
        json_deserializer=parse_stored_json,
        hide_parameters=True,  # an error message must not contain the values to be stored
        **options,
    )
    event.listen(engine.sync_engine, "connect", _on_connect(pragmas))
    return engine, connector.close_remaining


def _on_connect(pragmas: tuple[str, ...]) -> Callable[[Any, Any], None]:
    def prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins no transaction by itself: `_begin_immediate` begins it
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return prepare


def _begin_immediate(connection: Connection) -> None:
    driver: Any = connection.connection.driver_connection
    driver.run_with_next("BEGIN IMMEDIATE")


# ── Creating the file, and checking that it still exists.


def prepare(path: Path, *, busy_s: float) -> None:
    """Create the file if it does not exist, readable only by its owner (0600), and set WAL mode. Blocks.

    SQLite gives the files `-wal` and `-shm` the same mode. Two processes can do this at the same time. Unlike other
    statements, a change of the journal mode does not wait for a lock, so this function retries until `busy_s` has
    passed. Raises StoreRefused.
    """
    try:
        _create(path)
        with closing(sqlite3.connect(path, timeout=busy_s, isolation_level=None)) as db:
            deadline = time.monotonic() + busy_s
            while not _in_wal_mode(db, last_try=time.monotonic() > deadline):
                time.sleep(0.01)
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else cause_of(error)
        if _is_disk_full(path):
            reason = f"{DISK_FULL}. Free space in {path.parent}"
        raise StoreRefused(f"{path} cannot be opened for writing: {reason or error}.") from error


def _is_disk_full(path: Path) -> bool:
    """Return whether the disk has no space for the file `-shm`: SQLite reports this as a general I/O error."""
    with contextlib.suppress(OSError):
        return shutil.disk_usage(path.parent).free < SHM_BYTES
    return False


def _create(path: Path) -> None:
    """Create the file if it does not exist.

    An existing file is not opened: closing it would drop this process's locks on the file (fcntl(2)).
    """
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


def same_file_check(path: Path) -> Callable[[], None]:
    """Return a function that checks whether `path` still names the same file as now.

    The check takes microseconds, and raises FileGone if the file was removed or replaced.
    """
    first_stat = path.stat()

    def check() -> None:
        try:
            file_stat = path.stat()
        except OSError as fault:
            raise FileGone(f"{path} was removed or moved; put it back") from fault
        if (file_stat.st_dev, file_stat.st_ino) != (first_stat.st_dev, first_stat.st_ino):
            raise FileGone(f"{path} was replaced by another file; restart the gateway")

    return check


# ── Noticing changes on SQLite. `PRAGMA data_version` changes with every commit. The WAL file usually changes too,
# which is cheap to check.

CHECK_EVERY_S: Final = 0.05


class SqliteWatch:
    """Notices commits.

    `engine` has a single connection, because values of `PRAGMA data_version` can only be compared on the same
    connection.
    """

    timeline: str | None = None
    timeline_sql: str | None = None

    def __init__(self, engine: AsyncEngine, close_remaining: CloseRemaining, path: Path) -> None:
        self._engine = engine
        self._close_remaining = close_remaining
        self._wal = path.with_name(path.name + "-wal")
        self._last_stamp = self._stamp()

    async def wait_for_change(self, at_most_s: float) -> None:
        """Wait until the size or the time of the WAL file changes, at most `at_most_s` seconds.

        A commit does not always change the size or the time. The caller then notices the commit after `at_most_s`.
        """
        deadline = clock.monotonic() + at_most_s
        while (remaining_s := deadline - clock.monotonic()) > 0:
            await asyncio.sleep(min(remaining_s, CHECK_EVERY_S))
            stamp = self._stamp()
            if stamp != self._last_stamp:
                self._last_stamp = stamp
                return

    async def version(self) -> Hashable:
        """Return the value of `PRAGMA data_version` with the connection's identity. Reads no table."""
        with raised_as_unavailable():
            async with self._engine.connect() as db:
                raw = await db.get_raw_connection()
                return id(raw.driver_connection), (await db.exec_driver_sql("PRAGMA data_version")).scalar_one()

    async def close(self) -> None:
        await self._engine.dispose()
        await self._close_remaining()

    def _stamp(self) -> tuple[int, int] | None:
        try:
            wal_stat = self._wal.stat()
        except OSError:
            return None
        return wal_stat.st_mtime_ns, wal_stat.st_size


# ── The store in a SQLite file.

WRITE_WAIT_FACTOR: Final = 3  # a write waits up to 3 × `busy_s` in this process's queue, because the queue keeps moving


async def open_sqlite(url: str, keyring: Keyring, *, busy_s: float) -> Backend:
    """Check, create and open the database. Raises StoreRefused.

    A write waits at most `busy_s` seconds for other processes, and three times as long in this process's queue.
    """
    path = sqlite_path(url)
    await asyncio.to_thread(check_file, path, keyring)
    await asyncio.to_thread(prepare, path, busy_s=busy_s)
    transactions = GroupCommit(
        sqlite_engines(path, busy_s=busy_s), queue_s=WRITE_WAIT_FACTOR * busy_s, check=same_file_check(path)
    )
    watch = SqliteWatch(*sqlite_watcher(path, busy_s=busy_s), path)
    call_log = SqliteCallLog(call_log_beside(path))
    return Backend(
        str(path),
        transactions,
        watch,
        transactions.write,  # the write lock makes other processes wait while one process upgrades
        call_log,
        await asyncio.to_thread(journal_beside, path),
        partial(other_journals_beside, path),
        ONLY_NODE,
        partial(last_backup, path),
    )
