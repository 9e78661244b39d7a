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


class StoreRefused(StartRefused):
    """The store will not be opened as things are. One line: what is wrong, with which file, and what to do about it."""


def sqlite_cause(error: sqlite3.Error) -> str | None:
    """In words, why SQLite could not use its file; None if the error has no code."""
    code = getattr(error, "sqlite_errorcode", None)
    return CAUSES.get(code & 0xFF, "an operation on it failed") if isinstance(code, int) else None
