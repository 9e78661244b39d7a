"""Refuses databases before they are opened, whichever they are; known without SQLAlchemy."""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from gateway.errors import StartRefused
from gateway.text import counted
from gateway.vault import Keyring, VaultError, WrappedKey

# ── What keeps a store from being opened, in one line; known without SQLAlchemy.

DISK_FULL: Final = "the disk is full"

# By primary result code, the low byte of SQLite's extended ones (sqlite.org/rescode.html).
CAUSES: Final = {
    sqlite3.SQLITE_BUSY: "it is locked by another process",
    sqlite3.SQLITE_LOCKED: "it is locked",
    sqlite3.SQLITE_FULL: DISK_FULL,
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_PERM: "access to it is denied",
    sqlite3.SQLITE_IOERR: "reading or writing it failed",
    sqlite3.SQLITE_CORRUPT: "it is damaged",
    sqlite3.SQLITE_NOTADB: "it is not a SQLite database",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
}


DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
RESTORE: Final = "restore a backup with `gateway restore`"


class StoreRefused(StartRefused):
    """The store will not be opened as things are. One line: what is wrong, with which file, and what to do about it.

    `fix`: what to do, for a report that shows it apart; None where the configuration must be corrected.
    """

    def __init__(self, message: str, *, fix: str | None = None) -> None:
        super().__init__(message)
        self.fix = fix


class StoreDamaged(StoreRefused):
    """The file is damaged; only a backup helps."""


def damages(error: BaseException | None) -> bool:
    """Return whether `error` of SQLite says that the file is damaged: no later try will go better."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in DAMAGE


def sqlite_cause(error: sqlite3.Error) -> str | None:
    """Return in words why SQLite could not use its file; None if the error has no code."""
    code = getattr(error, "sqlite_errorcode", None)
    return CAUSES.get(code & 0xFF, "an operation on it failed") if isinstance(code, int) else None


# ── The schema's revisions by name, for code that does not load SQLAlchemy or Alembic.

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
)  # oldest first; the last is the one this version needs

VERSION_TABLE: Final = "alembic_version"


# ── Which columns hold ciphertexts, and what each is bound to; known without SQLAlchemy.
#
# A column that is sealed is listed here: rotation and its proof go by this list, and what is missing in it
# would be left under a key that is removed. A test compares it with the tables.


class SealedColumn(NamedTuple):
    """`key`: the primary key, by which rows are walked through. `row` and `version`, columns too, are what the associated
    data name; a number in place of the latter is the same for all rows. The environment is in the column of that name.
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
"""Binary columns that hold something else: a data key, or the audit's signing key, wrapped under a master key and bound to its
own row."""

KEY_ID_FROM: Final = 2  # where the data key's id begins in a ciphertext, as SQL counts (gateway.vault.seal)
KEY_ID_BYTES: Final = 8


def judge_schema(place: object, *, revision: str | None, tables: Collection[str], instead: str) -> None:
    """`revision`: of the schema, None where no gateway has made one. `instead`: what to do then. Raises StoreRefused."""
    if revision is None and tables:
        raise StoreRefused(f"{place} is another program's database: {instead}.")
    if revision is not None and revision not in REVISIONS:
        raise StoreRefused(
            f"{place} was written by a newer version of the gateway (schema {revision}; this one knows up to "
            f"{REVISIONS[-1]}): start that version, or restore an older backup."
        )


def locked_out(stored: Iterable[WrappedKey], keyring: Keyring) -> list[WrappedKey]:
    """The data keys whose master key is not in `keyring`."""
    return [key for key in stored if key.master_key_id not in keyring.ids]


def judge_keys(place: object, stored: Sequence[WrappedKey], keyring: Keyring, *, values: int | None = None) -> None:
    """Every data key must open: one that does not would mean connections that do not. Raises StoreRefused.

    `values`: how many are sealed under those that are `locked_out`, where that is known. A weak first key may go on where
    something is under it already, since nothing could be read otherwise.
    """
    missing = locked_out(stored, keyring)
    if missing:
        ids = list(dict.fromkeys(key.master_key_id for key in missing))
        held = counted(len(missing), "data key") + ("" if values is None else f", with {counted(values, 'value')},")
        raise StoreRefused(
            f"{place} has {held} under an encryption key that is not in store.encryption_keys (key id {', '.join(ids)}): "
            "add the key it was made with, after the first if that is to replace it. Then `gateway keys rotate` seals "
            "everything again under the first, and `gateway keys status` shows which may be removed."
        )
    weakness = keyring.weaknesses.get(0)
    if weakness is not None and all(key.master_key_id != keyring.first_id for key in stored):
        raise StoreRefused(
            f"store.encryption_keys: the first key {weakness}, so it can be guessed, and nothing is sealed under it yet. "
            "Put another in its place: `openssl rand -base64 32` makes one."
        )
    for key in stored:
        try:
            keyring.unwrap(key)
        except VaultError as error:
            raise StoreRefused(f"{place} is damaged: {error} Restore a backup.") from None
