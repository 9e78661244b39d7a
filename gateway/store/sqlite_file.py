"""The database file, once `look` found it in order: made ready, and seen to be there still."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from gateway.store.faults import cause_of
from gateway.store.refusal import StoreRefused


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


class FileGone(OSError):
    """The database's file was removed or replaced while it was open: what is written now would vanish with it."""


def still_there(path: Path) -> Callable[[], None]:
    """A check, some microseconds long, that `path` still names the file it names now. The check raises FileGone."""
    opened = path.stat()

    def check() -> None:
        try:
            found = path.stat()
        except OSError as fault:
            raise FileGone(f"{path} was removed; put it back and restart the gateway") from fault
        if (found.st_dev, found.st_ino) != (opened.st_dev, opened.st_ino):
            raise FileGone(f"{path} was replaced by another file; restart the gateway")

    return check
