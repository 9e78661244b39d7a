"""Copies the SQLite database while gateways use it. The copy is a consistent snapshot, and is verified.

Needs neither SQLAlchemy nor an event loop. The copy stores the time of its snapshot as `PRAGMA user_version`.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gateway import clock
from gateway.records.audit import AuditAction, AuditEntry
from gateway.store.preflight_checks import StoreRefused, sqlite_cause
from gateway.store.sqlite.file_preflight import check_file
from gateway.vault import Keyring

PAGES_AT_ONCE: Final = 256  # a megabyte
BUSY_S: Final = 5.0
UNSIGNED: Final = 1 << 32  # user_version is a signed 32-bit number; read as unsigned, it holds times until 2106

Step = Callable[[int, int], None]  # called with the pages copied so far and in total


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup. `at`: the time of its snapshot. `connections`: how many it contains. `recorded`: in the audit trail."""

    path: Path
    at: datetime
    size_bytes: int
    connections: int
    recorded: bool


def back_up(source: Path, target: Path, keyring: Keyring, *, over: bool, step: Step) -> Backup:
    """Copy the database at `source` to `target`, readable by its owner alone. Blocks.

    `target` appears only when the copy is complete and undamaged, and opens with `keyring`. `over`: an existing
    `target` is replaced atomically. Raises StoreRefused.
    """
    if target.exists() and not over:
        raise StoreRefused(f"{target} exists already: name another file, or replace it with --force.")
    if not target.parent.is_dir():
        raise StoreRefused(f"{target.parent} is not a folder: make it first, or name a file in another one.")
    with faults_of_file(target):
        if target.exists() and source.exists() and target.samefile(source):
            raise StoreRefused(f"{target} is the database itself: name another file.")
        partial = target.with_name(f".{target.name}.partial")
        try:
            at = copy(source, partial, step)
            _mark(partial, at)
            check(partial, keyring)
            with closing(sqlite3.connect(f"{partial.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
                connections = db.execute("SELECT count(*) FROM connections").fetchone()[0]
            size_bytes = partial.stat().st_size
            put(partial, target, over=over)
        finally:
            partial.unlink(missing_ok=True)
    with suppress(OSError):  # this user may not write to the folder; the backup is complete nevertheless
        marker_of(source).touch()
    detail = {"file": str(target), "at": at.isoformat(), "connections": connections}
    recorded = _record(source, AuditEntry.of(AuditAction.STORE_BACKED_UP, detail=detail))
    return Backup(target, at, size_bytes, connections, recorded)


def _record(source: Path, entry: AuditEntry) -> bool:
    """Record the backup in the audit trail of the source. Returns False if that fails; the copy is complete
    nevertheless."""
    try:
        with closing(
            sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True, timeout=BUSY_S, isolation_level=None)
        ) as db:
            note(db, entry)
    except sqlite3.Error:
        return False
    return True


def note(db: sqlite3.Connection, entry: AuditEntry) -> None:
    """Write an audit entry as `AuditTrail.record` does, without SQLAlchemy."""
    db.execute("INSERT INTO audit_pending (body) VALUES (?)", (entry.body(),))


def marker_of(source: Path) -> Path:
    """Return the path of the marker file beside a database. Its time is that of the last backup, for metrics."""
    return source.with_name(f"{source.name}.backed-up")


def last_backup(source: Path) -> datetime | None:
    """Return when the database at `source` was last backed up; None if it never was."""
    try:
        return datetime.fromtimestamp(marker_of(source).stat().st_mtime, UTC)
    except OSError:
        return None


def copy(source: Path, target: Path, step: Step) -> datetime:
    """Copy with SQLite's online backup, in one snapshot. Returns the time of the snapshot.

    An open transaction on the source keeps the snapshot. Without it, every write of the gateway would restart the copy.
    """
    target.unlink(missing_ok=True)
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with (
        closing(sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True, timeout=BUSY_S, isolation_level=None)) as live,
        closing(sqlite3.connect(target, isolation_level=None)) as into,
    ):
        live.execute("PRAGMA query_only = ON")
        live.execute("BEGIN")
        live.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the first read takes the snapshot
        at = clock.now().replace(microsecond=0)
        live.backup(into, pages=PAGES_AT_ONCE, progress=lambda _, left, total: step(total - left, total), sleep=0)
        live.execute("COMMIT")
        into.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    return at


def _mark(path: Path, at: datetime) -> None:
    seconds = int(at.timestamp())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA user_version = {seconds - UNSIGNED if seconds >= UNSIGNED // 2 else seconds}")


def backed_up_at(db: sqlite3.Connection) -> datetime | None:
    """Return the time of a copy's snapshot; None if `db` is not a copy made by `back_up`."""
    seconds = db.execute("PRAGMA user_version").fetchone()[0] % UNSIGNED
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def check(path: Path, keyring: Keyring, *, called: Path | None = None) -> None:
    """Check that a copy is undamaged, has a known schema and opens with `keyring`. Raises StoreRefused.

    `called`: the path for messages, if not `path`.
    """
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        found = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise StoreRefused(f"{called or path} is damaged: {' '.join(found.split())}.")
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'connections'").fetchone():
            raise StoreRefused(f"{called or path} is not a gateway's database.")
    check_file(path, keyring)


def put(fresh: Path, target: Path, *, over: bool) -> None:
    """Rename `fresh` to `target` atomically, once it is on the disk."""
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    if over:
        fresh.replace(target)
    else:
        try:
            os.link(fresh, target)  # unlike a rename, a link fails if the target exists by now
        except FileExistsError:
            raise StoreRefused(f"{target} exists already: name another file, or replace it with --force.") from None
        fresh.unlink()
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def faults_of_file(path: Path, done: str = "written") -> Iterator[None]:
    """Raise errors of SQLite or the system as StoreRefused, with a message of one line."""
    try:
        yield
    except (sqlite3.Error, OSError) as fault:
        reason = sqlite_cause(fault) if isinstance(fault, sqlite3.Error) else fault.strerror
        place = getattr(fault, "filename", None) or path
        raise StoreRefused(f"{place} cannot be {done}: {reason or fault}.") from fault
