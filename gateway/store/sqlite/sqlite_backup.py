"""Copies the SQLite database, even if gateways are using it. The copy is a consistent snapshot, and is verified.

Needs neither SQLAlchemy nor an event loop. In the copy, `PRAGMA user_version` contains the time of the snapshot.
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

PAGES_PER_STEP: Final = 256  # one megabyte
BUSY_S: Final = 5.0
# user_version is a signed 32-bit number. Read as an unsigned number, it can express times until 2106.
UNSIGNED: Final = 1 << 32

Step = Callable[[int, int], None]  # called with the pages copied so far and in total


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup.

    `at`: the time of the snapshot. `connections`: the number of connections in the backup. `recorded`: whether the
    audit trail has an entry for the backup.
    """

    path: Path
    at: datetime
    size_bytes: int
    connections: int
    recorded: bool


def back_up(source: Path, target: Path, keyring: Keyring, *, replaces: bool, step: Step) -> Backup:
    """Copy the database at `source` to `target`, readable only by its owner. Blocks. Raises StoreRefused.

    `target` appears only when the copy is complete, is undamaged and opens with `keyring`. `replaces`: whether to
    replace an existing `target`; the replacement is atomic. `step`: called with the progress.
    """
    if target.exists() and not replaces:
        raise StoreRefused(f"{target} exists already: name another file, or replace it with --force.")
    if not target.parent.is_dir():
        raise StoreRefused(f"{target.parent} is not a folder: create it first, or name a file in another one.")
    with faults_of_file(target):
        if target.exists() and source.exists() and target.samefile(source):
            raise StoreRefused(f"{target} is the database itself: name another file.")
        partial = target.with_name(f".{target.name}.partial")
        try:
            copied_at = copy(source, partial, step)
            _write_snapshot_time(partial, copied_at)
            check(partial, keyring)
            with closing(sqlite3.connect(f"{partial.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
                connections = db.execute("SELECT count(*) FROM connections").fetchone()[0]
            size_bytes = partial.stat().st_size
            move_into_place(partial, target, replaces=replaces)
        finally:
            partial.unlink(missing_ok=True)
    with suppress(OSError):  # this user cannot write to the folder, but the backup is complete
        marker_path = marker_of(source)
        os.close(os.open(marker_path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666))
        os.utime(marker_path, follow_symlinks=False)
        give_to_owner_of(source, marker_path)
    detail = {"file": str(target), "at": copied_at.isoformat(), "connections": connections}
    recorded = _record(source, AuditEntry.of(AuditAction.STORE_BACKED_UP, detail=detail))
    return Backup(target, copied_at, size_bytes, connections, recorded)


def _record(source: Path, entry: AuditEntry) -> bool:
    """Record the backup in the audit trail of the source. Return False if this fails; the backup is still complete."""
    try:
        with closing(
            sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True, timeout=BUSY_S, isolation_level=None)
        ) as db:
            write_entry(db, entry)
    except sqlite3.Error:
        return False
    return True


def write_entry(db: sqlite3.Connection, entry: AuditEntry) -> None:
    """Write an audit entry without SQLAlchemy, in the same form as `AuditTrail.record`."""
    db.execute("INSERT INTO audit_pending (body) VALUES (?)", (entry.body(),))


def marker_of(source: Path) -> Path:
    """Return the path of the marker file next to a database. The file's time is the time of the last backup."""
    return source.with_name(f"{source.name}.backed-up")


def last_backup(source: Path) -> datetime | None:
    """Return when the database at `source` was last backed up; None if it was never backed up."""
    try:
        return datetime.fromtimestamp(marker_of(source).stat().st_mtime, UTC)
    except OSError:
        return None


def copy(source: Path, target: Path, step: Step) -> datetime:
    """Copy one snapshot with SQLite's online backup. Return the time of the snapshot.

    During the copy, an open transaction on the source keeps the snapshot. Without this transaction, every write of the
    gateway would restart the copy.
    """
    target.unlink(missing_ok=True)
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with (
        closing(
            sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True, timeout=BUSY_S, isolation_level=None)
        ) as source_db,
        closing(sqlite3.connect(target, isolation_level=None)) as target_db,
    ):
        source_db.execute("PRAGMA query_only = ON")
        source_db.execute("BEGIN")
        source_db.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the first read takes the snapshot
        copied_at = clock.now().replace(microsecond=0)
        source_db.backup(
            target_db, pages=PAGES_PER_STEP, progress=lambda _, left, total: step(total - left, total), sleep=0
        )
        source_db.execute("COMMIT")
        target_db.execute("PRAGMA journal_mode = DELETE")  # so that the copy is a single file, without a WAL file
    return copied_at


def _write_snapshot_time(path: Path, copied_at: datetime) -> None:
    seconds = int(copied_at.timestamp())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA user_version = {seconds - UNSIGNED if seconds >= UNSIGNED // 2 else seconds}")


def backed_up_at(db: sqlite3.Connection) -> datetime | None:
    """Return the time of the snapshot; None if `db` is not a copy that `back_up` has made."""
    seconds = db.execute("PRAGMA user_version").fetchone()[0] % UNSIGNED
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def check(path: Path, keyring: Keyring, *, shown_path: Path | None = None) -> None:
    """Check that a copy is undamaged, has a known schema and opens with `keyring`. Raises StoreRefused.

    `shown_path`: the path to show in messages; None for `path`.
    """
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        result = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if result != "ok":
            raise StoreRefused(f"{shown_path or path} is damaged: {' '.join(result.split())}.")
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'connections'").fetchone():
            raise StoreRefused(f"{shown_path or path} is not a gateway's database.")
    check_file(path, keyring)


def give_to_owner_of(owner_file: Path, path: Path) -> None:
    """Give `path` the owner of `owner_file`, if this user may do that.

    Without this, the gateway's user could not open the files that a command has created as root. If `path` is a link,
    only the owner of the link changes: the gateway's user could have made the link to get another file.
    """
    owner = owner_file.stat()
    with suppress(OSError):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def move_into_place(new_file: Path, target: Path, *, replaces: bool) -> None:
    """Write `new_file` to the disk, then rename it to `target` atomically.

    `replaces`: whether to replace an existing `target`. Raises StoreRefused if `target` exists and `replaces` is false.
    """
    with new_file.open("rb") as file:
        os.fsync(file.fileno())
    if replaces:
        new_file.replace(target)
    else:
        try:
            os.link(new_file, target)  # unlike a rename, a link fails if the target exists
        except FileExistsError:
            raise StoreRefused(f"{target} exists already: name another file, or replace it with --force.") from None
        new_file.unlink()
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def faults_of_file(path: Path, verb: str = "written") -> Iterator[None]:
    """Raise StoreRefused, with a message of one line, in place of an error of SQLite or of the operating system.

    `verb`: the verb of the message, for example "read": the message then says that the file cannot be read.
    """
    try:
        yield
    except (sqlite3.Error, OSError) as fault:
        reason = sqlite_cause(fault) if isinstance(fault, sqlite3.Error) else fault.strerror
        file_name = getattr(fault, "filename", None) or path
        raise StoreRefused(f"{file_name} cannot be {verb}: {reason or fault}.") from fault
