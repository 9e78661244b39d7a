"""The database file before any engine touches it: looked at without changing a byte, then made ready."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, NullPool, create_engine, inspect
from sqlalchemy.exc import DBAPIError

from gateway.store.data_keys import stored_keys
from gateway.store.faults import StoreRefused, cause_of
from gateway.store.migrations import REVISIONS, schema_revision
from gateway.vault import Keyring, UnknownKey, VaultError

HEADER: Final = b"SQLite format 3\0"
EXAMPLE: Final = "sqlite:///gateway.db"
LOOKS: Final = 10
LOOK_S: Final = 1.5  # a wrong key is told within two seconds, even beside a busy neighbour


def sqlite_path(url: str) -> Path:
    """The file that ``sqlite:///gateway.db`` or ``sqlite:////var/lib/gateway.db`` names. Raises StoreRefused.

    What follows the third slash is the path as it is, without percent-decoding.
    """
    scheme, colon, rest = url.partition(":")
    if not colon or not rest.startswith("//"):
        raise StoreRefused(f"store.url is not an address: write {EXAMPLE}.")
    if scheme != "sqlite":
        raise StoreRefused(f"store.url names {scheme}; this version keeps its data in SQLite only: write {EXAMPLE}.")
    name = rest.removeprefix("///")
    if name in (rest, "", ":memory:") or "?" in name:
        raise StoreRefused(f"store.url must name a file and nothing else: write {EXAMPLE}.")
    return Path(name).absolute()


def look(path: Path, keyring: Keyring) -> None:
    """See that `path` is ours to open: absent or empty, or a gateway's database of a known version under a known key.

    Reads only, so that a refused start leaves every byte as it was. Raises StoreRefused. Blocks.
    """
    for last_look in (False,) * LOOKS + (True,):
        before = _stamp(path)
        try:
            _look_once(path, keyring)
            return
        except StoreRefused:
            if last_look or before == _stamp(path):
                raise
        time.sleep(0.05)  # another process was at work on the file, so what was seen may have been half of it


def _look_once(path: Path, keyring: Keyring) -> None:
    try:
        _look_at_file(path)
        if path.exists() and path.stat().st_size:
            with _reading(path) as db:
                _look_at_schema(path, db)
                _look_at_keys(path, db, keyring)
    except (DBAPIError, sqlite3.Error, OSError) as error:
        raise StoreRefused(f"{path} cannot be read: {cause_of(error) or error}.") from error


def _stamp(path: Path) -> tuple[tuple[int, int] | None, bool]:
    """What shows that another process wrote the file, or began to, between two moments."""
    try:
        state = path.stat()
    except OSError:
        return None, False
    return (state.st_size, state.st_mtime_ns), _wal(path)


def _wal(path: Path) -> bool:
    """Whether there is a WAL with anything in it: one left by a crash, or that of a process at work."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size > 0
    except OSError:
        return False


def prepare(path: Path, *, busy_s: float) -> None:
    """Create the file for its owner alone (0600; -wal and -shm take after it) and put it into WAL mode. Blocks.

    Raises StoreRefused. Two processes may do this at once: changing the journal mode does not wait for a lock as
    statements do, hence the loop.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(path, timeout=busy_s, isolation_level=None)) as db:
            deadline = time.monotonic() + busy_s
            while not _in_wal_mode(db, last_try=time.monotonic() > deadline):
                time.sleep(0.01)
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else cause_of(error)
        raise StoreRefused(f"{path} cannot be opened for writing: {reason or error}.") from error


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


def _look_at_file(path: Path) -> None:
    if path.is_dir():
        raise StoreRefused(f"{path} is a folder: let store.url name a file in it.")
    if not path.parent.is_dir():
        raise StoreRefused(f"{path.parent} is not a folder: create it, or let store.url name a file elsewhere.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreRefused(f"{path.parent} is not writable for this user, and SQLite writes beside its file too.")
    if not path.exists():
        return
    if not path.is_file():
        raise StoreRefused(f"{path} is not a regular file.")
    if not os.access(path, os.R_OK | os.W_OK):
        raise StoreRefused(f"{path} is not readable and writable for this user.")
    with path.open("rb") as file:
        if file.read(len(HEADER)) not in (HEADER, b""):
            raise StoreRefused(f"{path} is not a SQLite database: let store.url name another file.")


@contextmanager
def _reading(path: Path) -> Iterator[Connection]:
    """A connection that leaves nothing behind.

    Without a WAL there is nothing to recover and nobody at work, and `immutable` keeps SQLite from creating one; with
    a WAL, its committed part counts, so it is read in place.
    """
    mode = "mode=ro" if _wal(path) else "mode=ro&immutable=1"
    engine = create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, timeout=LOOK_S),
        poolclass=NullPool,
    )
    try:
        with engine.connect() as db:
            yield db
    finally:
        engine.dispose()


def _look_at_schema(path: Path, db: Connection) -> None:
    revision, tables = schema_revision(db), inspect(db).get_table_names()
    if revision is None and tables:
        raise StoreRefused(f"{path} is another program's database: let store.url name another file.")
    if revision is not None and revision not in REVISIONS:
        raise StoreRefused(
            f"{path} was written by a newer version of the gateway (schema {revision}; this one knows up to "
            f"{REVISIONS[-1]}): start that version, or restore an older backup."
        )


def _look_at_keys(path: Path, db: Connection, keyring: Keyring) -> None:
    """Every data key must open: one that does not would mean connections that do not."""
    if schema_revision(db) is None:
        return
    for stored in stored_keys(db):
        try:
            keyring.unwrap(stored)
        except UnknownKey:
            raise StoreRefused(
                f"{path} is sealed under an encryption key that is not in store.encryption_keys (key id "
                f"{stored.master_key_id}): add the key it was made with, second if it is to be replaced."
            ) from None
        except VaultError as error:
            raise StoreRefused(f"{path} is damaged: {error} Restore a backup.") from None


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
