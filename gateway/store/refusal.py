"""What keeps a store from being opened, in one line; known without SQLAlchemy."""

import sqlite3
from typing import Final

from gateway.errors import StartRefused

# By primary result code, the low byte of SQLite's extended ones (sqlite.org/rescode.html).
CAUSES: Final = {
    sqlite3.SQLITE_BUSY: "it is locked by another process",
    sqlite3.SQLITE_LOCKED: "it is locked",
    sqlite3.SQLITE_FULL: "the disk is full",
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
    """The store will not be opened as things are. One line: what is wrong, with which file, and what to do about it."""


class StoreDamaged(StoreRefused):
    """The file is damaged; only a backup helps."""


def damages(error: BaseException | None) -> bool:
    """Whether `error` of SQLite says that the file is damaged: no later try will go better."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in DAMAGE


def sqlite_cause(error: sqlite3.Error) -> str | None:
    """In words, why SQLite could not use its file; None if the error has no code."""
    code = getattr(error, "sqlite_errorcode", None)
    return CAUSES.get(code & 0xFF, "an operation on it failed") if isinstance(code, int) else None
