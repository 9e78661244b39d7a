"""Converts the errors of database drivers to messages for operators and callers."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import structlog
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from gateway import clock
from gateway.errors import GatewayError, InvalidRequest, Unavailable
from gateway.store.postgres.sqlstates import MISSING_PARTS, UNREADABLE_TEXT, postgres_cause
from gateway.store.preflight_checks import DISK_FULL, READ_ONLY, StoreRefused, reports_damage, sqlite_cause
from gateway.vault import VaultError

RETRY_AFTER_S: Final = 5


DAMAGED: Final = (
    "The gateway's database is damaged. The operator must restore a backup, "
    "with `gateway restore` or PostgreSQL's tools."
)
CORRUPT: Final = frozenset({"XX001", "XX002"})  # the codes data_corrupted and index_corrupted
LOG_AGAIN_S: Final = 60.0
NO_RESPONSE: Final = "it does not respond"

log = structlog.get_logger(__name__)


class FileGone(OSError):
    """The database's file was removed or replaced during use. All further writes to the open file would be lost."""


class DatabaseDamage:
    """Remembers damage that the database has reported to this process, for ``/ready``, and why writes fail.

    Logs each at most once a minute. `damaged`: whether the database has reported damage. `full`: whether the last write
    failed because the disk is full. `read_only`: whether it failed because the database is read-only.
    """

    def __init__(self) -> None:
        self.damaged = False
        self.full = False
        self.read_only = False
        self._logged_at: dict[str, float] = {}

    def record(self, error: BaseException) -> None:
        self.damaged = True
        self._log("database_damaged", error, "stop every gateway, then restore a backup")

    def record_full(self, error: BaseException) -> None:
        self.full = True
        self._log(
            "database_full",
            error,
            "free space on the disk of the database; writes then succeed again without a restart",
        )

    def record_read_only(self, error: BaseException) -> None:
        self.read_only = True
        self._log("database_read_only", error, "make it writable; writes then succeed again without a restart")

    def record_commit(self) -> None:
        """Record that a transaction was committed: the disk is no longer full, and the database not read-only."""
        if self.full:
            self.full = False
            log.info("database_full_over")
        if self.read_only:
            self.read_only = False
            log.info("database_read_only_over")

    def _log(self, event: str, error: BaseException, fix: str) -> None:
        now = clock.monotonic()
        logged_at = self._logged_at.get(event)
        if logged_at is None or now - logged_at >= LOG_AGAIN_S:
            self._logged_at[event] = now
            log.error(event, detail=str(error.orig if isinstance(error, DBAPIError) else error), fix=fix)


class DatabaseUnavailable(Unavailable):
    """The database cannot be used now. `cause`: why, in words."""

    def __init__(self, cause: str) -> None:
        operator_step = "The operator must free space. " if cause == DISK_FULL else ""
        super().__init__(
            "store_unavailable",
            f"The gateway's database cannot be used now: {cause}. {operator_step}Retry in {RETRY_AFTER_S} s.",
            payload={"retry_at": (clock.now() + timedelta(seconds=RETRY_AFTER_S)).isoformat(timespec="milliseconds")},
            retry_after_s=RETRY_AFTER_S,
        )
        self.cause = cause


def refused_start(database_name: str, fault: GatewayError | VaultError) -> StoreRefused:
    """Return the error, one line, for a start that `fault` prevents. `database_name`: as in `Backend`."""
    if not isinstance(fault, DatabaseUnavailable):
        return StoreRefused(f"{database_name} cannot be opened. {fault}")
    fix = " Free space on its disk." if fault.cause == DISK_FULL else ""
    return StoreRefused(f"{database_name} cannot be opened: {fault.cause}.{fix}")


def cause_of(error: BaseException) -> str | None:
    """Describe why the database could not be used; None if the cause is an error in the gateway's own statement."""
    if isinstance(error, DBAPIError) and (postgres_message := postgres_cause(_sqlstate(error))):
        return postgres_message
    if isinstance(error, DBAPIError) and (part := MISSING_PARTS.get(_sqlstate(error) or "")):
        return f"it lacks {part}, as after an incomplete restore; restore a complete backup"
    if isinstance(error, IntegrityError | ProgrammingError | sqlite3.IntegrityError | sqlite3.ProgrammingError):
        return None
    if isinstance(error, PoolTimeoutError):
        return "no database connection became free in time"
    inner: BaseException | None = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(inner, sqlite3.Error) and (cause := sqlite_cause(inner)):
        return cause
    if isinstance(error, FileGone):
        return str(error)
    if isinstance(error, TimeoutError):
        return NO_RESPONSE
    if isinstance(error, OSError):
        text = error.strerror or str(error)
        return f"it cannot be reached ({text})" if text else "the connection to it was lost"
    if isinstance(error, DBAPIError) and _sqlstate(error):
        return None
    return NO_RESPONSE if isinstance(error, DBAPIError | sqlite3.Error) else None


def _sqlstate(error: DBAPIError) -> str | None:
    """Return PostgreSQL's error code; None for SQLite. Does not import a driver."""
    code = getattr(error.orig, "sqlstate", None)
    return code if isinstance(code, str) else None


@contextmanager
def raised_as_unavailable(damage: DatabaseDamage | None = None) -> Iterator[None]:
    """Raise Unavailable in place of a database error. Errors of the gateway's own statements pass unchanged.

    Damage is permanent, so its Unavailable has no `retry_after_s`. `damage`: records damage and why writes fail;
    None to record nothing. Raises InvalidRequest for a text that SQLite can store but PostgreSQL cannot.
    """
    try:
        yield
    except (DBAPIError, PoolTimeoutError, sqlite3.Error, OSError) as error:
        if isinstance(error, DBAPIError) and _sqlstate(error) in UNREADABLE_TEXT:
            raise InvalidRequest(
                "invalid_body", "A text contains the character U+0000, which cannot be stored. Remove it."
            ) from error
        if _is_damage(error):
            if damage is not None:
                damage.record(error)
            raise Unavailable("store_unavailable", DAMAGED) from error
        cause = cause_of(error)
        if cause is None:
            raise
        if damage is not None:
            if cause == DISK_FULL:
                damage.record_full(error)
            elif cause.startswith(READ_ONLY):
                damage.record_read_only(error)
        raise DatabaseUnavailable(cause) from error


def _is_damage(error: BaseException) -> bool:
    if isinstance(error, DBAPIError):
        return reports_damage(error.orig) or _sqlstate(error) in CORRUPT
    return reports_damage(error)
