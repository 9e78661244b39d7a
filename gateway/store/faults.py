"""The store's edge: what drivers raise becomes one sentence for whoever runs or calls the gateway."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from gateway import clock
from gateway.errors import StartRefused, Unavailable

RETRY_AFTER_S: Final = 5

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


def unavailable(cause: str) -> Unavailable:
    return Unavailable(
        "store_unavailable",
        f"The gateway's database cannot be used now: {cause}. Try again in {RETRY_AFTER_S} seconds.",
        payload={"retry_at": (clock.now() + timedelta(seconds=RETRY_AFTER_S)).isoformat(timespec="milliseconds")},
        retry_after_s=RETRY_AFTER_S,
    )


def cause_of(error: BaseException) -> str | None:
    """In words, why the database could not be used; None if the fault lies with our statement instead."""
    if isinstance(error, IntegrityError | ProgrammingError | sqlite3.IntegrityError | sqlite3.ProgrammingError):
        return None
    if isinstance(error, PoolTimeoutError):
        return "too many are waiting for it"
    inner: BaseException | None = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(inner, "sqlite_errorcode", None)
    if isinstance(code, int):
        return CAUSES.get(code & 0xFF, "an operation on it failed")
    if isinstance(error, OSError) and error.args and isinstance(error.args[0], str):
        return error.args[0]
    return "it does not answer" if isinstance(error, DBAPIError | sqlite3.Error | OSError) else None


@contextmanager
def told_as_unavailable() -> Iterator[None]:
    """Raises Unavailable for the errors that a database in trouble makes; a fault of our own passes as it is."""
    try:
        yield
    except (DBAPIError, PoolTimeoutError, sqlite3.Error, OSError) as error:
        cause = cause_of(error)
        if cause is None:
            raise
        raise unavailable(cause) from error
