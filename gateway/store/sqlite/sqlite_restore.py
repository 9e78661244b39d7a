"""Replaces the SQLite database with a backup, and keeps the replaced database in the same folder.

With rotating refresh tokens, restoring a plain copy is dangerous. If a token was refreshed after the backup, the token
in the backup is already used up. A provider that receives a used token again can revoke the whole grant (RFC 9700
§4.14.2). So if the replaced database can still be read, its newer credentials of the same connections are kept.
"""

import asyncio
import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from gateway import clock
from gateway.records.audit import AuditAction, AuditEntry
from gateway.records.connection import ConnectionRef
from gateway.records.states import RESTORED
from gateway.store.preflight_checks import StoreRefused
from gateway.store.sqlite.file_preflight import check_file
from gateway.store.sqlite.sqlite_backup import (
    Step,
    backed_up_at,
    check,
    copy,
    faults_of_file,
    give_to_owner_of,
    move_into_place,
    sync_folder,
    write_entry,
)
from gateway.vault import Keyring

# How SQLite locks its file (os.h of sqlite.org): in WAL mode, every open connection locks a byte of this range.
LOCK_FROM: Final = 0x40000000
LOCK_BYTES: Final = 512
MAX_NAMED: Final = 1000  # maximum number of connections that a restore names
# The columns of a credential and of its refreshes, without the data that the application stores with a connection.
CREDENTIAL_COLUMNS: Final = (
    *("version", "credential", "expires_at", "config", "secret_config", "secret_config_version"),
    *("previous_refresh", "previous_refresh_version", "previous_refresh_until", "intent_digest", "intent_at"),
    *("lease_owner", "lease_until", "failure_code", "failure_message", "failure_final", "failure_at"),
    *("failure_attempts", "failure_retry_at", "state", "state_reason", "state_since", "granted_at"),
    *("last_refreshed_at", "dies_at", "keep_alive_at", "updated_at", "rotates"),
)
BACKUP_ADVICE: Final = "name a backup that `gateway backup` made"
DATA_KEY_COLUMNS: Final = ("id", "environment", "master_key_id", "wrapped", "seals_reserved", "created_at")


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restore.

    - `at`: the time of the backup; None if unknown
    - `connections`: the number of connections after the restore
    - `kept`: the new path of the replaced database; None if there was no database
    - `restored`: the connections that had been deleted after the backup and now exist again, at most `MAX_NAMED`
    - `restored_count`: the number of all of them
    - `removed_count`: the number of connections that had been created after the backup and no longer exist

    `taken_over`: the number of connections whose newer credential was taken from the replaced database. None if there
    was no database, if the database could not be read, or with `exactly`.
    """

    at: datetime | None
    connections: int
    kept: Path | None
    taken_over: int | None
    restored_count: int
    removed_count: int
    restored: tuple[ConnectionRef, ...] = ()


def restore(backup: Path, path: Path, keyring: Keyring, *, exactly: bool, step: Step) -> RestoreResult:
    """Replace the database at `path` with `backup`. Blocks.

    `exactly`: whether to take nothing from the replaced database. `step`: called with the progress. Raises
    StoreRefused; in this case, nothing has changed.
    """
    if not backup.is_file():
        raise StoreRefused(f"{backup} is not a file: {BACKUP_ADVICE}.")
    if path.exists() and backup.samefile(path):
        raise StoreRefused(f"{backup} is the database itself: name a backup.")
    restored_file = path.with_name(f".{path.name}.restoring")
    with faults_of_file(path):
        try:
            backed_up_at = _prepare_copy(backup, restored_file, keyring, step)
            _write_wal_into_file(path)
            with _exclusive_file_lock(path) as lock:
                taken_count, restored_count, removed_count, restored = _merge(
                    restored_file, path, lock, keyring, exactly=exactly
                )
                with closing(sqlite3.connect(restored_file, isolation_level=None)) as db:
                    connections = db.execute("SELECT count(*) FROM connections").fetchone()[0]
                    _add_to_histories(db, backed_up_at)
                    write_entry(db, _entry(backup, backed_up_at, taken_count, restored_count, removed_count))
                replaced_file = _keep_replaced_file(path)
                give_to_owner_of(path if replaced_file else path.parent, restored_file)
                move_into_place(restored_file, path, replaces=True)
        finally:
            restored_file.unlink(missing_ok=True)
    return RestoreResult(backed_up_at, connections, replaced_file, taken_count, restored_count, removed_count, restored)


def _prepare_copy(backup: Path, restored_file: Path, keyring: Keyring, step: Step) -> datetime | None:
    """Check the backup, copy it to `restored_file`, and upgrade the schema of the copy. Return the time of the backup."""
    with faults_of_file(backup, "read"):
        if check_file(backup, keyring, advice=BACKUP_ADVICE) is None:
            raise StoreRefused(f"{backup} is not a gateway's database: {BACKUP_ADVICE}.")
        copy(backup, restored_file, step)
        check(restored_file, keyring, shown_path=backup)
    asyncio.run(_upgrade(restored_file, keyring))
    with closing(sqlite3.connect(restored_file, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        return backed_up_at(db)


async def _upgrade(restored_file: Path, keyring: Keyring) -> None:
    from gateway.store.opening import open_store

    await (await open_store(f"sqlite:///{restored_file}", keyring, environments=())).close()


def _write_wal_into_file(path: Path) -> None:
    """Write the WAL into the database file, so that one rename replaces the whole database.

    Does nothing if the database cannot be read.
    """
    if path.exists():
        with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = DELETE")


@contextmanager
def _exclusive_file_lock(path: Path) -> Iterator[int | None]:
    """Keep all other processes from opening the database. Raises StoreRefused if another process uses it.

    Takes SQLite's file lock directly, because SQLite cannot lock a damaged file. Yields the file's descriptor; None if
    the file does not exist. Read the file only through this descriptor: closing any other descriptor of the file would
    release the lock (fcntl(2)).
    """
    if not path.exists():
        yield None
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, LOCK_BYTES, LOCK_FROM)
        except OSError as fault:
            raise StoreRefused(f"{path} is in use: stop every gateway and command that works on it first.") from fault
        yield descriptor
    finally:
        os.close(descriptor)


_MergeResult = tuple[int | None, int, int, tuple[ConnectionRef, ...]]
"""`taken_over`, `restored_count`, `removed_count` and `restored` of `RestoreResult`."""
_NOTHING_MERGED: Final[_MergeResult] = (None, 0, 0, ())


def _merge(restored_file: Path, path: Path, lock: int | None, keyring: Keyring, *, exactly: bool) -> _MergeResult:
    """Merge newer credentials from the replaced database into `restored_file`.

    `lock`: the descriptor of the locked database file; None if there is no file.
    """
    if lock is None:
        return _NOTHING_MERGED
    replaced_file = path.with_name(f".{path.name}.replaced")
    wal = path.with_name(path.name + "-wal")
    try:
        _copy_through(lock, replaced_file)
        if wal.exists():
            shutil.copyfile(wal, replaced_file.with_name(replaced_file.name + "-wal"))
        with closing(sqlite3.connect(replaced_file, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = DELETE")
        check(replaced_file, keyring)
        with closing(sqlite3.connect(restored_file, isolation_level=None)) as db:
            db.execute("ATTACH ? AS replaced", (str(replaced_file),))
            if _revision(db, "main") != _revision(db, "replaced"):
                return _NOTHING_MERGED
            return _take_over_newer(db, exactly=exactly)
    except (sqlite3.Error, StoreRefused):
        return _NOTHING_MERGED
    finally:
        for suffix in ("", "-wal", "-shm"):
            replaced_file.with_name(replaced_file.name + suffix).unlink(missing_ok=True)


def _copy_through(descriptor: int, target: Path) -> None:
    position = 0
    target.unlink(missing_ok=True)
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as target_file:
        while piece := os.pread(descriptor, 1 << 20, position):
            target_file.write(piece)
            position += len(piece)


def _take_over_newer(db: sqlite3.Connection, *, exactly: bool) -> _MergeResult:
    """Take over, in one transaction, the credentials with the same or a newer version, and their data keys."""
    removed_count = _count(
        db, "SELECT count(*) FROM replaced.connections WHERE uid NOT IN (SELECT uid FROM connections)"
    )
    from_restored = "FROM connections WHERE uid NOT IN (SELECT uid FROM replaced.connections)"
    restored_count = _count(db, f"SELECT count(*) {from_restored}")
    rows = db.execute(
        f"SELECT environment, integration_id, connection_id {from_restored} ORDER BY id LIMIT ?",
        (MAX_NAMED,),
    )
    restored = tuple(ConnectionRef(*row) for row in rows)
    if exactly:
        return None, restored_count, removed_count, restored
    same_connection = "FROM replaced.connections AS newer WHERE newer.uid = connections.uid"
    newer = f"SELECT 1 {same_connection} AND newer.version >= connections.version"
    refreshed = "JOIN replaced.connections AS newer ON newer.uid = mine.uid AND newer.version > mine.version"
    taken_count = _count(db, f"SELECT count(*) FROM connections AS mine {refreshed}")  # noqa: S608
    columns, key_columns = ", ".join(CREDENTIAL_COLUMNS), ", ".join(DATA_KEY_COLUMNS)
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT OR IGNORE INTO environments SELECT * FROM replaced.environments")
    db.execute(
        f"INSERT INTO data_keys ({key_columns}) SELECT {key_columns} FROM replaced.data_keys "  # noqa: S608
        "WHERE id NOT IN (SELECT id FROM data_keys) ORDER BY number"
    )
    db.execute(f"UPDATE connections SET ({columns}) = (SELECT {columns} {same_connection}) WHERE EXISTS ({newer})")  # noqa: S608
    _end_keys(db)
    # Continue from the higher of the two counts, so that no data key seals more values than allowed.
    db.execute(
        "UPDATE data_keys SET seals_reserved = max(seals_reserved, coalesce((SELECT other.seals_reserved "
        "FROM replaced.data_keys AS other WHERE other.id = data_keys.id), 0))"
    )
    db.execute("COMMIT")
    return taken_count, restored_count, removed_count, restored


def _end_keys(db: sqlite3.Connection) -> None:
    """Keep the revocations and the used budgets of keys.

    A key that is missing in the replaced database was pruned there, long after its end. Such a key is revoked.
    """
    end_columns = "revoked_at, expires_at, calls, last_used_at"
    now = clock.now().replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    db.execute(
        "UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE digest NOT IN (SELECT digest FROM replaced.keys)",
        (now,),
    )
    db.execute(
        f"UPDATE keys SET ({end_columns}) = (SELECT {end_columns} FROM replaced.keys AS newer WHERE newer.digest = keys.digest) "  # noqa: S608
        "WHERE digest IN (SELECT digest FROM replaced.keys)"
    )


def _entry(
    backup: Path, backed_up_at: datetime | None, taken_over: int | None, restored_count: int, removed_count: int
) -> AuditEntry:
    """Return the entry for the audit trail. The entry follows the last record in the backup."""
    counts = {
        "credentials_taken_over": taken_over,
        "deleted_since_and_back": restored_count,
        "made_since_and_gone": removed_count,
    }
    detail = {"file": str(backup), "at": backed_up_at.isoformat() if backed_up_at else None, **counts}
    return AuditEntry.of(AuditAction.STORE_RESTORED, detail=detail)


def _add_to_histories(db: sqlite3.Connection, backed_up_at: datetime | None) -> None:
    """Add the restore to every connection's history, for `gateway connections why`."""
    detail = f"from a backup of {backed_up_at:%Y-%m-%d %H:%M:%S} UTC" if backed_up_at else "from a backup"
    now = clock.now().replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    db.execute(
        "INSERT INTO connection_history (connection, at, state, state_before, reason, detail) "
        "SELECT id, ?, state, state, ?, ? FROM connections",
        (now, RESTORED, detail),
    )


def _keep_replaced_file(path: Path) -> Path | None:
    """Keep the present database, and its WAL if it has one, under another name.

    Returns the new path; None if there is no database. `path` itself stays until it is replaced.
    """
    if not path.exists():
        return None
    kept_file = path.with_name(f"{path.name}.replaced-{clock.now():%Y%m%dT%H%M%S%f}")
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            os.link(path.with_name(path.name + suffix), kept_file.with_name(kept_file.name + suffix))
    sync_folder(path.parent)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return kept_file


def _revision(db: sqlite3.Connection, schema: str) -> str:
    return str(db.execute(f"SELECT version_num FROM {schema}.alembic_version").fetchone()[0])  # noqa: S608


def _count(db: sqlite3.Connection, statement: str) -> int:
    return int(db.execute(statement).fetchone()[0])
