"""Checks the database file without changing a byte, before any engine uses the file.

This module imports neither SQLAlchemy nor an event loop. `gateway serve` runs this check before loading other modules.
So a wrong key is reported within two seconds, even if Python cannot cache bytecode.
"""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from gateway.store.preflight_checks import (
    KEY_ID_BYTES,
    KEY_ID_FROM,
    RESTORE,
    SEALED,
    STORED_KEYS,
    VERSION_TABLE,
    StoreDamaged,
    StoreRefused,
    check_keys,
    check_schema,
    keys_without_master,
    reports_damage,
    sqlite_cause,
)
from gateway.vault import Keyring, WrappedKey

EXAMPLE: Final = "sqlite:///gateway.db"
OTHER_FILE_ADVICE: Final = "set store.url to another file"
MAX_RETRIES: Final = 10
BUSY_S: Final = 1.5  # so that a wrong key is reported within two seconds, even if another process keeps the file busy
COUNT_S: Final = 0.5


def sqlite_path(url: str) -> Path:
    """Return the file that `url` names. Raises StoreRefused.

    `url`: ``sqlite:///gateway.db`` or ``sqlite:////var/lib/gateway.db``. The path is the text after the third slash,
    without percent-decoding.
    """
    scheme, colon, path = url.partition(":")
    if not colon or not path.startswith("//"):
        raise StoreRefused(f"store.url is not a URL. Write {EXAMPLE}.")
    if scheme != "sqlite":
        raise StoreRefused(f"store.url names {scheme}: write {EXAMPLE}, or postgresql://user:password@host/database.")
    name = path.removeprefix("///")
    if name in (path, "", ":memory:") or "?" in name:
        raise StoreRefused(f"store.url must name a file and nothing else: write {EXAMPLE}.")
    return Path(name).absolute()


def check_file(path: Path, keyring: Keyring, *, advice: str = OTHER_FILE_ADVICE) -> str | None:
    """Check that the gateway may open `path`. Raises StoreRefused. Blocks.

    The file must be absent, empty, or a gateway's database with a known schema version and a known key. This function
    only reads, so a refused start changes no byte. Returns the schema's revision; None for an absent or empty file.
    `advice`: the advice for the operator if the file belongs to another program.
    """
    for last_try in (False,) * MAX_RETRIES + (True,):
        stamp_before = _stamp(path)
        try:
            return _check_once(path, keyring, advice)
        except StoreRefused:
            if last_try or stamp_before == _stamp(path):
                raise
        # another process wrote the file during this check, so the check has possibly read an incomplete state
        time.sleep(0.05)
    raise AssertionError("the last try returns or raises")


def query_read_only(path: Path, statement: str) -> Sequence[Any]:
    """Return the rows of a read-only statement. Raises StoreRefused. Blocks."""
    try:
        with _open_for_reading(path) as db:
            return db.execute(statement).fetchall()
    except (sqlite3.Error, OSError) as error:
        raise StoreRefused(f"{path} cannot be read: {error}.") from error


def _check_once(path: Path, keyring: Keyring, advice: str) -> str | None:
    try:
        _check_file_access(path)
        if path.exists() and path.stat().st_size:
            with _open_for_reading(path) as db:
                revision = _revision(db)
                check_schema(path, revision=revision, tables=_tables(db), advice=advice)
                if revision is not None:
                    stored_keys = [WrappedKey(*row) for row in db.execute(STORED_KEYS)]
                    check_keys(
                        path,
                        stored_keys,
                        keyring,
                        values=_count_sealed_under(db, keys_without_master(stored_keys, keyring)),
                    )
                    return revision
        check_keys(path, (), keyring)
        return None
    except (sqlite3.Error, OSError) as error:
        is_other_file = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB
        if reports_damage(error) and advice == OTHER_FILE_ADVICE:
            problem = (
                "is not a SQLite database, or its first page is damaged" if is_other_file else f"is damaged ({error})"
            )
            raise StoreDamaged(f"{path} {problem}: {RESTORE}{f', or {advice}' if is_other_file else ''}.") from error
        if is_other_file:
            raise StoreRefused(f"{path} is not a SQLite database: {advice}.") from error
        reason = sqlite_cause(error) if isinstance(error, sqlite3.Error) else error.strerror
        raise StoreRefused(f"{path} cannot be read: {reason or error}.") from error


def quick_check(path: Path, *, at_most_s: float) -> bool:
    """Look for damaged pages. Return True if there are none, False if `at_most_s` seconds were too short. Blocks.

    Does not compare indexes with their tables: SQLite's full check does, but takes several times as long. Raises
    StoreDamaged.
    """
    deadline = time.monotonic() + at_most_s
    while True:
        stamp_before = _stamp(path)
        try:
            with _open_for_reading(path) as db:
                db.set_progress_handler(lambda: time.monotonic() > deadline, 100)
                result = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
            if result == "ok":
                return True
        except sqlite3.Error as error:
            if not reports_damage(error):
                return False
            result = str(error)
        if stamp_before == _stamp(path):
            raise StoreDamaged(f"{path} is damaged ({' '.join(result.split())}): {RESTORE}.")
        if time.monotonic() > deadline:  # every check failed because another process wrote the file during the check
            return False


def _count_sealed_under(db: sqlite3.Connection, keys: Sequence[WrappedKey]) -> int | None:
    """Return how many values `keys` seal; None if there are no keys, or if counting takes longer than `COUNT_S`."""
    if not keys:
        return None
    deadline = time.monotonic() + COUNT_S
    db.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
    ids = [bytes.fromhex(key.id) for key in keys]
    placeholders, total = ", ".join("?" * len(ids)), 0
    try:
        for column in SEALED:
            key_id = f"substr({column.column}, {KEY_ID_FROM}, {KEY_ID_BYTES})"
            query = f"SELECT count(*) FROM {column.table} WHERE {key_id} IN ({placeholders})"  # noqa: S608 (constant names)
            total += db.execute(query, ids).fetchone()[0]
    except sqlite3.OperationalError:  # counting was interrupted, or an older schema lacks a table
        return None
    finally:
        db.set_progress_handler(None, 0)
    return total


def _stamp(path: Path) -> tuple[tuple[int, int] | None, bool]:
    """Return a value that changes when another process writes the file or begins to write it."""
    try:
        state = path.stat()
    except OSError:
        return None, False
    return (state.st_size, state.st_mtime_ns), _has_wal(path)


def _has_wal(path: Path) -> bool:
    """Return whether the file has a WAL that is not empty: either a crash left the WAL, or a process uses it."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size > 0
    except OSError:
        return False


def check_folder(path: Path) -> None:
    """Check that the folder of the file exists, without opening the file. Raises StoreRefused."""
    if path.is_dir():
        raise StoreRefused(f"{path} is a folder: set store.url to a file in it.")
    if not path.parent.is_dir():
        raise StoreRefused(f"{path.parent} is not a folder: create it, or set store.url to a file elsewhere.")


def _check_file_access(path: Path) -> None:
    """Make the checks that do not open the file.

    When a process closes any descriptor of a file, all its locks on the file end (POSIX, fcntl(2)). So opening and
    closing the file here would drop the locks of this process's connections.
    """
    check_folder(path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        if os.statvfs(path.parent).f_flag & os.ST_RDONLY:
            fix = "mount it writable, in a container as a volume, or set store.url to a file in another folder"
            raise StoreRefused(f"{path.parent} is on a read-only file system, and SQLite writes there: {fix}.", fix=fix)
        message = (
            f"{path.parent} is not writable for this user, and SQLite writes beside its file too: run the command as the "
            "gateway's user, or change the owner of the folder."
        )
        raise StoreRefused(
            message,
            fix="give the gateway's user write permission for that folder, or set store.url to a file in another folder",
        )
    if not path.exists():
        return
    if not path.is_file():
        raise StoreRefused(f"{path} is not a regular file.")
    if not os.access(path, os.R_OK | os.W_OK):
        message = (
            f"{path} is not readable and writable for this user: run the command as the gateway's user, or change the "
            "owner of the file."
        )
        raise StoreRefused(message, fix="give the gateway's user read and write permission for that file")


@contextmanager
def _open_for_reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a read-only connection that creates no file.

    Without a WAL, no process uses the file and nothing needs recovery; `immutable` then keeps SQLite from creating a
    WAL. With a WAL, the connection also reads the WAL, because its committed part belongs to the database.
    """
    mode = "mode=ro" if _has_wal(path) else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, timeout=BUSY_S)) as db:
        yield db


def _revision(db: sqlite3.Connection) -> str | None:
    """Return the schema's revision; None if the database has never been migrated."""
    if VERSION_TABLE not in _tables(db):
        return None
    row = db.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()  # noqa: S608 (a constant)
    return str(row[0]) if row else None


def _tables(db: sqlite3.Connection) -> set[str]:
    rows = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'")
    return {name for (name,) in rows}
