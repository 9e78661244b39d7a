"""The store's edge: what drivers raise becomes one sentence for whoever runs or calls the gateway."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from gateway import clock
from gateway.errors import Unavailable
from gateway.store.refusal import sqlite_cause

RETRY_AFTER_S: Final = 5


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
    if isinstance(inner, sqlite3.Error) and (cause := sqlite_cause(inner)):
        return cause
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
