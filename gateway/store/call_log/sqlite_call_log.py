"""The call log in a SQLite file of its own, in segments.

A segment is a table that is written without an index and indexed when it is full. Indexes would be the largest cost of
a write, because each row would change a random page. A full segment gets its indexes in one sorted pass, at a tenth of
that cost. The segment that is being written is small enough to be searched without an index.

If the log reaches its limit, the oldest segment is dropped, and the next segment reuses its pages. So the file does not
grow, and no row is deleted by itself.
"""

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar
from zlib import crc32

import structlog

from gateway import clock
from gateway.errors import Unavailable
from gateway.records.operation import KINDS, Operation, OperationFilter, OperationPage, call_detail
from gateway.records.proxied_call import ExchangeRecord
from gateway.records.trace import trace_id_in
from gateway.records.traffic import Traffic
from gateway.store.call_log.call_log_store import CallLogBounds
from gateway.store.call_log.call_totals import (
    TABLE,
    query_by_result,
    query_by_slot,
    schema,
    time_slot,
    totals_of,
    traffic,
    upsert,
)
from gateway.store.call_log.sqlite_search import find_operations
from gateway.store.call_log.sqlite_segments import (
    CREATE_SEGMENT,
    ID_BITS,
    INDEX_SEGMENT,
    INSERT_SUBJECT,
    SCHEMA,
    SEGMENT_ROWS,
    insert_of,
    microseconds,
    run_all,
)

SEGMENTS: Final = 24  # minimum number of segments; each segment is at most 1/24 of the log
ROW_BYTES: Final = 160  # estimated size of a row, including indexes
# Rows per statement. Each statement releases Python's interpreter lock, and must then wait for the event loop's thread
# to get the lock back. Under load, this wait costs more than writing a hundred rows.
ROWS_PER_STATEMENT: Final = (500, 100, 10, 1)
BUSY_S: Final = 5.0
DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
WAL_BYTES: Final = 4 << 20
RESERVE_BYTES: Final = 128 << 20  # disk space that the call log leaves free for tokens, which must not be lost

ADD_TOTAL: Final = upsert(lambda _: "?", "max")

log = structlog.get_logger(__name__)

T = TypeVar("T")


def call_log_beside(database: Path) -> Path:
    """Return the call log's path: ``gateway.calls.db`` for the database ``gateway.db``."""
    return database.with_name(f"{database.stem}.calls.db")


class SqliteCallLog:
    """The call log in a SQLite file, which is opened at first use. Several processes can share the file.

    One thread writes, and another reads.
    """

    def __init__(self, path: Path, bounds: CallLogBounds | None = None) -> None:
        self.path = path
        self.bounds = bounds or CallLogBounds()
        self._writer = _Thread(path, write=True)
        self._reader = _Thread(path, write=False)
        self._subjects: dict[tuple[Any, ...], int] = {}
        self._segment = 0  # the segment that these subjects belong to

    async def add_many(self, records: Sequence[ExchangeRecord | Operation]) -> None:
        """Store all records or none. Raises Unavailable."""
        if records:
            await self._writer.run(lambda db: self._add(db, records))

    async def find(self, filters: OperationFilter) -> OperationPage:
        """Return the newest operations that match `filters`. Raises Unavailable."""
        if not self.path.exists():
            return OperationPage()
        oldest = self.bounds.oldest(clock.now())
        return await self._reader.run(lambda db: find_operations(db, filters, oldest))

    async def totals(self, environment: str, since: datetime) -> Traffic:
        """Return the sums from the quarter of an hour that contains `since` until now. Raises Unavailable."""
        if not self.path.exists():
            return Traffic()
        return await self._reader.run(lambda db: _totals(db, environment, time_slot(since)))

    async def prune(self, now: datetime) -> int:
        """Remove the oldest rows until the bounds are met. Return how many rows were removed. Raises Unavailable."""
        return await self._writer.run(lambda db: self._prune(db, now)) if self.path.exists() else 0

    async def close(self) -> None:
        await self._writer.close()
        await self._reader.close()

    # ── Functions that run in the writer's thread.

    def _add(self, db: sqlite3.Connection, records: Sequence[ExchangeRecord | Operation]) -> None:
        _check_disk(self.path)
        try:
            with _transaction(db):
                segment = self._open_segment(db)
                last_id: int = db.execute(
                    f"SELECT coalesce(max(id), {segment << ID_BITS}) FROM calls_{segment}"
                ).fetchone()[0]
                number = self._subject_number(db, segment)
                times: list[int] = []
                for start in range(0, len(records), ROWS_PER_STATEMENT[0]):
                    # Writing so many rows takes a millisecond. Then other threads can run.
                    batch = records[start : start + ROWS_PER_STATEMENT[0]]
                    values = [
                        _row(last_id + start + n, operation, number(operation)) for n, operation in enumerate(batch, 1)
                    ]
                    _insert(db, segment, values)
                    times += [value[1] for value in values]
                db.execute(
                    "UPDATE segments SET rows = rows + :rows, since_at = min(coalesce(since_at, :since), :since),"
                    " until_at = max(coalesce(until_at, :until), :until) WHERE id = :id",
                    {"rows": len(records), "since": min(times), "until": max(times), "id": segment},
                )
                db.executemany(ADD_TOTAL, totals_of(records))
        except BaseException:
            self._subjects.clear()  # the subjects that this transaction had added were rolled back
            raise
        self._index_full_segments(db)
        self._prune_to_limits(db)

    def _open_segment(self, db: sqlite3.Connection) -> int:
        """Return the number of the segment to write into. Begin a new segment if the newest is full or too old."""
        row = db.execute("SELECT id, rows, since_at FROM segments ORDER BY id DESC LIMIT 1").fetchone()
        if row is not None and row[1] < self._segment_rows and not self._is_too_old(row[2]):
            return int(row[0])
        segment = 1 if row is None else row[0] + 1
        run_all(db, CREATE_SEGMENT, segment)
        return segment

    @property
    def _segment_rows(self) -> int:
        bounds = self.bounds
        max_rows = bounds.max_bytes // ROW_BYTES if bounds.max_rows is None else bounds.max_rows
        return max(1, min(SEGMENT_ROWS, max_rows // SEGMENTS, bounds.max_bytes // ROW_BYTES // SEGMENTS))

    def _is_too_old(self, since_us: int | None) -> bool:
        """Return whether a segment that began at `since_us` is too old for further rows."""
        if since_us is None:
            return False
        return (
            clock.now() - (clock.EPOCH + timedelta(microseconds=since_us))
            > timedelta(days=self.bounds.keep_days) / SEGMENTS
        )

    def _subject_number(self, db: sqlite3.Connection, segment: int) -> Callable[[ExchangeRecord | Operation], int]:
        """Return a function that returns the number of an operation's subject.

        A subject that is new to this process gets a row, even if another process has already written it.
        """
        if segment != self._segment:
            self._subjects.clear()
            self._segment = segment
        known_subjects, insert = self._subjects, INSERT_SUBJECT.format(segment)

        def number(operation: ExchangeRecord | Operation) -> int:
            subject = (
                operation.environment,
                operation.integration_id,
                operation.connection_id,
                operation.key_id,
                operation.method,
                operation.host,
                operation.rule,
            )
            row_number = known_subjects.get(subject)
            if row_number is None:
                row_number = known_subjects[subject] = db.execute(insert, subject).lastrowid or 0
            return row_number

        return number

    def _index_full_segments(self, db: sqlite3.Connection) -> None:
        """Index the segments that are full or too old, and therefore receive no more rows."""
        newest = db.execute("SELECT max(id) FROM segments").fetchone()[0]
        full_segments = [row[0] for row in db.execute("SELECT id FROM segments WHERE NOT sealed AND id < ?", (newest,))]
        for segment in full_segments:
            with _transaction(db):
                if db.execute("SELECT 1 FROM segments WHERE id = ? AND NOT sealed", (segment,)).fetchone() is None:
                    continue  # another process has indexed the segment
                run_all(db, INDEX_SEGMENT, segment)

    def _prune_to_limits(self, db: sqlite3.Connection) -> int:
        bounds, removed_rows = self.bounds, 0
        while True:
            segments = db.execute("SELECT id, rows FROM segments ORDER BY id").fetchall()
            rows = sum(segment[1] for segment in segments)
            too_many = bounds.max_rows is not None and rows > bounds.max_rows
            if len(segments) < 2 or not (too_many or _used_bytes(db) + WAL_BYTES > bounds.max_bytes):
                return removed_rows
            removed_rows += _drop_segment(db, segments[0][0])

    def _prune(self, db: sqlite3.Connection, now: datetime) -> int:
        removed_rows, oldest = 0, microseconds(self.bounds.oldest(now))
        db.execute(f"DELETE FROM {TABLE} WHERE slot < ?", (time_slot(self.bounds.oldest(now)),))
        for segment, until_at in db.execute("SELECT id, until_at FROM segments ORDER BY id").fetchall():
            if until_at is None or until_at >= oldest:
                break
            removed_rows += _drop_segment(db, segment)
        removed_rows += self._prune_to_limits(db)
        free_bytes = db.execute("PRAGMA freelist_count").fetchone()[0] * _page_bytes(db)
        if (
            free_bytes > self.bounds.max_bytes // SEGMENTS * 2
        ):  # a limit was lowered, or many old rows were removed by age
            db.executescript("PRAGMA incremental_vacuum")  # `execute` would free only one page
        return removed_rows


class _Thread:
    """A thread with a connection, both created at first use. Raises Unavailable in place of SQLite's errors."""

    def __init__(self, path: Path, *, write: bool) -> None:
        self._path, self._write = path, write
        self._pool: ThreadPoolExecutor | None = None
        self._db: sqlite3.Connection | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, f"call-log-{'write' if self._write else 'read'}")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, work)

    async def close(self) -> None:
        if self._pool is not None:
            await asyncio.get_running_loop().run_in_executor(self._pool, self._close)
            self._pool.shutdown(wait=False)
            self._pool = None

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._db is None:
                self._db = _connect(self._path, write=self._write)
            return work(self._db)
        except sqlite3.Error as fault:
            if fault.sqlite_errorcode in DAMAGED:
                self._close()
                if self._write:
                    _set_damaged_log_aside(self._path, str(fault))
            raise _unavailable(str(fault)) from fault
        except OSError as fault:
            raise _unavailable(fault.strerror or str(fault)) from fault

    def _close(self) -> None:
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None


def _unavailable(reason: str) -> Unavailable:
    return Unavailable("store_unavailable", f"The call log cannot be used: {reason}.", retry_after_s=5)


def _connect(path: Path, *, write: bool) -> sqlite3.Connection:
    if write and not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    mode = "rw" if write else "ro"
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=BUSY_S, isolation_level=None)
    try:
        if write:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            with _transaction(db):
                run_all(db, SCHEMA)
                db.execute(schema(suffix=" WITHOUT ROWID"))
    except BaseException:
        db.close()
        raise
    return db


def _set_damaged_log_aside(path: Path, reason: str) -> None:
    """Rename a damaged log, so that the next write begins a new log.

    The damaged log can no longer be searched. Calls are not affected.
    """
    damaged_path = path.with_name(f"{path.name}.damaged")
    with suppress(OSError):
        path.replace(damaged_path)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        log.error("call_log_damaged", kept_as=damaged_path.name, detail=reason)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _check_disk(path: Path) -> None:
    """Raise OSError if the disk is nearly full. The remaining space is for tokens."""
    space = os.statvfs(path.parent)
    if space.f_bavail * space.f_frsize < RESERVE_BYTES:
        raise OSError(0, f"less than {RESERVE_BYTES >> 20} MiB are free on its disk")


def _page_bytes(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA page_size").fetchone()[0])


def _used_bytes(db: sqlite3.Connection) -> int:
    pages: int = db.execute("PRAGMA page_count").fetchone()[0] - db.execute("PRAGMA freelist_count").fetchone()[0]
    return pages * _page_bytes(db)


def _drop_segment(db: sqlite3.Connection, segment: int) -> int:
    """Drop a segment unless another process has already dropped it. Return how many rows the segment had."""
    with _transaction(db):
        row = db.execute("SELECT rows FROM segments WHERE id = ?", (segment,)).fetchone()
        if row is None:
            return 0
        for name in ("calls", "subjects"):
            db.execute(f"DROP TABLE {name}_{segment}")
        db.execute("DELETE FROM counts WHERE segment = ?", (segment,))
        db.execute("DELETE FROM segments WHERE id = ?", (segment,))
    return int(row[0])


def _totals(db: sqlite3.Connection, environment: str, slot: int) -> Traffic:
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone() is None:
        return Traffic()  # a log of an earlier release, in which this release has not written yet
    parameters = (environment, slot)
    return traffic(
        db.execute(query_by_slot(lambda _: "?"), parameters), db.execute(query_by_result(lambda _: "?"), parameters)
    )


def _insert(db: sqlite3.Connection, segment: int, rows: Sequence[tuple[Any, ...]]) -> None:
    start = 0
    for size in ROWS_PER_STATEMENT:
        while len(rows) - start >= size:
            db.execute(insert_of(segment, size), list(chain.from_iterable(rows[start : start + size])))
            start += size


def _row(number: int, operation: ExchangeRecord | Operation, subject: int) -> tuple[Any, ...]:
    """Return the values in the order of `COLUMNS`."""
    if isinstance(operation, Operation):
        kind, trace_id, detail = KINDS.index(operation.kind), operation.trace_id, operation.detail
    else:
        kind, trace_id, detail = 0, trace_id_in(operation.traceparent), call_detail(operation)
    gateway_ms, token_ms, upstream_ms = operation.gateway_ms, operation.token_ms, operation.upstream_ms
    return (
        number,
        microseconds(operation.at),
        kind,
        subject,
        operation.request_id,
        crc32(operation.request_id.encode()),
        trace_id,
        operation.path,
        operation.status,
        operation.error_code,
        int(operation.duration_ms * 1000),
        None if gateway_ms is None else int(gateway_ms * 1000),
        None if token_ms is None else int(token_ms * 1000),
        None if upstream_ms is None else int(upstream_ms * 1000),
        operation.attempts,
        operation.bytes_in,
        operation.bytes_out,
        None if detail is None else json.dumps(detail, ensure_ascii=False, default=str),
    )
