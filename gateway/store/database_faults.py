"""The store's edge: what drivers raise becomes one sentence for operators and callers."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from gateway import clock
from gateway.errors import InvalidRequest, Unavailable
from gateway.store.postgres.sqlstates import UNREADABLE_TEXT, postgres_cause
from gateway.store.preflight_checks import damages, sqlite_cause

RETRY_AFTER_S: Final = 5


DAMAGED: Final = (
    "The gateway's database is damaged. Its operator restores a backup: `gateway restore`, or PostgreSQL's tools."
)
CORRUPT: Final = frozenset({"XX001", "XX002"})  # data_corrupted, index_corrupted
LOG_AGAIN_S: Final = 60.0

log = structlog.get_logger(__name__)


class DatabaseDamage:
    """The damage to its database that one process has seen: in the log once a minute, and for ``/ready``."""

    def __init__(self) -> None:
        self.seen = False
        self._logged_at: float | None = None

    def record(self, error: BaseException) -> None:
        self.seen = True
        now = clock.monotonic()
        if self._logged_at is None or now - self._logged_at >= LOG_AGAIN_S:
            self._logged_at = now
            inner = error.orig if isinstance(error, DBAPIError) else error
            log.error("database_damaged", detail=str(inner), fix="stop every gateway, then restore a backup")


def unavailable(cause: str) -> Unavailable:
    return Unavailable(
        "store_unavailable",
        f"The gateway's database cannot be used now: {cause}. Try again in {RETRY_AFTER_S} seconds.",
        payload={"retry_at": (clock.now() + timedelta(seconds=RETRY_AFTER_S)).isoformat(timespec="milliseconds")},
        retry_after_s=RETRY_AFTER_S,
    )


def cause_of(error: BaseException) -> str | None:
    """In words, why the database could not be used; None if the fault lies with our statement instead."""
    if isinstance(error, DBAPIError) and (known := postgres_cause(_sqlstate(error))):
        return known
    if isinstance(error, IntegrityError | ProgrammingError | sqlite3.IntegrityError | sqlite3.ProgrammingError):
        return None
    if isinstance(error, PoolTimeoutError):
        return "too many are waiting for it"
    inner: BaseException | None = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(inner, sqlite3.Error) and (cause := sqlite_cause(inner)):
        return cause
    if isinstance(error, OSError) and error.args and isinstance(error.args[0], str):
        return error.args[0]
    if isinstance(error, DBAPIError) and _sqlstate(error):
        return None
    return "it does not answer" if isinstance(error, DBAPIError | sqlite3.Error | OSError) else None


def _sqlstate(error: DBAPIError) -> str | None:
    """PostgreSQL's own code; a driver that has none, as SQLite's, is not loaded to be asked."""
    found = getattr(error.orig, "sqlstate", None)
    return found if isinstance(found, str) else None


@contextmanager
def raised_as_unavailable(damage: DatabaseDamage | None = None) -> Iterator[None]:
    """Raises Unavailable for the errors that a database in trouble makes; a fault of our own passes as it is.

    Damage does not pass, so its Unavailable has no `retry_after_s`; `damage` notes it.

    Raises InvalidRequest for a text that PostgreSQL, unlike SQLite, keeps nowhere.
    """
    try:
        yield
    except (DBAPIError, PoolTimeoutError, sqlite3.Error, OSError) as error:
        if isinstance(error, DBAPIError) and _sqlstate(error) in UNREADABLE_TEXT:
            raise InvalidRequest("invalid_body", "A text holds the character U+0000: leave it out.") from error
        if _is_damage(error):
            if damage is not None:
                damage.record(error)
            raise Unavailable("store_unavailable", DAMAGED) from error
        cause = cause_of(error)
        if cause is None:
            raise
        raise unavailable(cause) from error


def _is_damage(error: BaseException) -> bool:
    if isinstance(error, DBAPIError):
        return damages(error.orig) or _sqlstate(error) in CORRUPT
    return damages(error)
