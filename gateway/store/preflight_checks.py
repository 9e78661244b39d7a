"""Checks that refuse a database before it is opened, for SQLite and PostgreSQL. Needs no SQLAlchemy."""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from gateway.errors import StartRefused
from gateway.text import counted
from gateway.vault import Keyring, VaultError, WrappedKey

# ── Why a store cannot be opened, as a text of one line.

DISK_FULL: Final = "the disk is full"
READ_ONLY: Final = "it is read-only"

# The keys are primary result codes: the low byte of SQLite's extended result codes (sqlite.org/rescode.html).
CAUSES: Final = {
    sqlite3.SQLITE_BUSY: "it is locked by another process",
    sqlite3.SQLITE_LOCKED: "it is locked",
    sqlite3.SQLITE_FULL: DISK_FULL,
    sqlite3.SQLITE_READONLY: READ_ONLY,
    sqlite3.SQLITE_PERM: "access to it is denied",
    sqlite3.SQLITE_IOERR: "reading or writing it failed",
    sqlite3.SQLITE_CORRUPT: "it is damaged",
    sqlite3.SQLITE_NOTADB: "it is not a SQLite database",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
}


DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
RESTORE: Final = "restore a backup with `gateway restore`"


class StoreRefused(StartRefused):
    """The store cannot be opened. The message is one line: what is wrong, with which database, and how to fix it.

    `fix`: how to fix the problem, for a report that shows the fix separately; None if the configuration must be
    corrected.
    """

    def __init__(self, message: str, *, fix: str | None = None) -> None:
        super().__init__(message)
        self.fix = fix


class StoreDamaged(StoreRefused):
    """The file is damaged. The operator must restore a backup."""


def reports_damage(error: BaseException | None) -> bool:
    """Return whether SQLite's `error` says that the file is damaged, so that a retry cannot help."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in DAMAGE


def sqlite_cause(error: sqlite3.Error) -> str | None:
    """Describe why SQLite could not use its file; None if the error has no code."""
    code = getattr(error, "sqlite_errorcode", None)
    return CAUSES.get(code & 0xFF, "an operation on it failed") if isinstance(code, int) else None


# ── The schema's revisions, for code that does not import SQLAlchemy or Alembic.

REVISIONS: Final = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0012",
    "0013",
    "0014",
    "0015",
    "0016",
    "0017",
    "0018",
    "0019",
)  # the oldest revision first; this version of the gateway needs the last revision

VERSION_TABLE: Final = "alembic_version"

TABLE_NAMES: Final = frozenset(
    {
        "audit_checkpoints",
        "audit_pending",
        "audit_persons",
        "audit_records",
        "audit_state",
        "changes",
        "connect_sessions",
        "connection_history",
        "connection_tags",
        "connections",
        "console_sessions",
        "credential_uses",
        "data_keys",
        "deliveries",
        "environments",
        "flow_results",
        "flows",
        "integrations",
        "keys",
        "outbox",
        "pending_connections",
        "processes",
        "request_log",
        "signing_keys",
        "task_leases",
        "timelines",
        "webhooks_seen",
    }
)
"""The tables of the last revision. A test compares them with `store.tables`."""


# ── The columns that contain ciphertexts, and the place that each ciphertext is bound to.
#
# Every sealed column must be in this list, because the key rotation reads it. Values of a missing column would become
# unreadable as soon as their key is removed. A test compares the list with the tables.


class SealedColumn(NamedTuple):
    """A sealed column.

    `key`: the primary key, for reading in pages. `row`, `version`: the columns that contain the row and the version of
    the associated data; a number as `version` is the version of all rows. The environment is in the column
    `environment`.
    """

    table: str
    column: str
    key: str
    row: str
    version: str | int

    @property
    def name(self) -> str:
        return f"{self.table}.{self.column}"


SEALED: Final = (
    SealedColumn("connections", "credential", "id", "uid", "version"),
    SealedColumn("connections", "secret_config", "id", "uid", "secret_config_version"),
    SealedColumn("connections", "previous_refresh", "id", "uid", "previous_refresh_version"),
    SealedColumn("integrations", "secrets", "uid", "uid", "version"),
    SealedColumn("outbox", "sealed", "id", "uid", 1),
    SealedColumn("signing_keys", "key", "uid", "uid", 1),
    SealedColumn("connect_sessions", "defaults", "digest", "digest", 1),
    SealedColumn("flows", "details", "state_digest", "state_digest", 1),
    SealedColumn("pending_connections", "sealed", "uid", "uid", 1),
)
NOT_SEALED: Final = frozenset({"data_keys.wrapped", "audit_state.wrapped"})
"""Binary columns without sealed values.

The columns contain a data key and the audit's signing key, each wrapped under a master key and bound to its own row.
"""

KEY_ID_FROM: Final = 2  # the position of the data key's id in a ciphertext (gateway.vault.seal); SQL counts from 1
KEY_ID_BYTES: Final = 8


def check_schema(database: object, *, revision: str | None, tables: Collection[str], advice: str) -> None:
    """Check that this version of the gateway can use the schema, and that no table is missing. Raises StoreRefused.

    `revision`: the revision of the schema; None if no gateway has created one. `tables`: the names of the tables in the
    database. `advice`: the advice for the operator if the database belongs to another program.
    """
    if revision is None and tables:
        raise StoreRefused(f"{database} is another program's database: {advice}.")
    if revision is not None and revision not in REVISIONS:
        raise StoreRefused(
            f"{database} was written by a newer version of the gateway (schema {revision}; this one knows up to "
            f"{REVISIONS[-1]}): start that version, or restore an older backup."
        )
    if revision == REVISIONS[-1] and (missing_tables := sorted(TABLE_NAMES.difference(tables))):
        raise StoreRefused(
            f"{database} lacks {'the table' if len(missing_tables) == 1 else 'the tables'} {', '.join(missing_tables)}: "
            "restore a complete backup.",
            fix="restore a complete backup",
        )


STORED_KEYS: Final = "SELECT id, environment, master_key_id, wrapped FROM data_keys ORDER BY number"
"""The query for all data keys. Each row has the members of a `WrappedKey`, in their order."""


def keys_without_master(stored_keys: Iterable[WrappedKey], keyring: Keyring) -> list[WrappedKey]:
    """Return the data keys whose master key is not in `keyring`."""
    return [key for key in stored_keys if key.master_key_id not in keyring.ids]


def check_keys(
    database: object, stored_keys: Sequence[WrappedKey], keyring: Keyring, *, values: int | None = None
) -> None:
    """Check that every data key can be unwrapped. Without its data key, a connection cannot be opened.

    `values`: the number of values under data keys whose master key is missing; None if unknown. A weak first key is
    accepted if it already wraps a data key, because a refusal would make the stored values unreadable. Raises
    StoreRefused.
    """
    missing_keys = keys_without_master(stored_keys, keyring)
    if missing_keys:
        ids = list(dict.fromkeys(key.master_key_id for key in missing_keys))
        text = counted(len(missing_keys), "data key") + (
            "" if values is None else f", with {counted(values, 'value')},"
        )
        raise StoreRefused(
            f"{database} has {text} encrypted with a key that is not in store.encryption_keys (key id {', '.join(ids)}). "
            "Add this key to the list. To replace the key, put the new key before it and run `gateway keys rotate`; "
            "`gateway keys status` shows when the old key is no longer needed."
        )
    weakness = keyring.weaknesses.get(0)
    if weakness is not None and all(key.master_key_id != keyring.first_id for key in stored_keys):
        raise StoreRefused(
            f"store.encryption_keys: the first key {weakness}, so it can be guessed. Replace it with the output of "
            "`openssl rand -base64 32`; nothing is sealed under it yet."
        )
    for key in stored_keys:
        try:
            keyring.unwrap(key)
        except VaultError as error:
            raise StoreRefused(f"{database} is damaged: {error} Restore a backup.") from None
