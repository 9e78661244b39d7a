"""Searches the SQLite call log, one segment after the other, the newest first.

The search stops when the page is full or the time limit is reached.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence, Sized
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, NamedTuple
from zlib import crc32

from gateway import clock
from gateway.records.operation import KINDS, Operation, OperationFilter, OperationPage, StoredOperation
from gateway.store.call_log.call_log_store import SEARCH_S
from gateway.store.call_log.sqlite_segments import COLUMNS, ID_BITS, SEGMENT_ROWS, SUBJECT_COLUMNS, microseconds

FAILED: Final = "(c.error_code IS NOT NULL OR c.status >= 400)"
SEARCHED: Final = "c.path || ' ' || coalesce(c.error_code, '') || ' ' || coalesce(c.detail, '')"
# Up to this many matching subjects, rows are searched by subject. With more, the subject of each row is checked.
FEW_SUBJECTS: Final = 300


class _Segment(NamedTuple):
    """A segment of the call log: its rows lie in one span of time.

    `matching_rows`: how many rows of an indexed segment have the wanted status class, error code or kind. If several of these
    are wanted, the smallest number. None if unknown.
    """

    id: int
    sealed: bool
    since_at: int
    until_at: int
    matching_rows: int | None = None


def find_operations(db: sqlite3.Connection, filters: OperationFilter, oldest: datetime) -> OperationPage:
    since = microseconds(max(oldest, filters.since) if filters.since is not None else oldest)
    until = None if filters.until is None else microseconds(filters.until)
    started = clock.monotonic()
    page: list[StoredOperation] = []
    db.execute("BEGIN")  # all reads see the same snapshot of segments and rows
    try:
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'segments'").fetchone() is None:
            return OperationPage()  # the first writer has not created the tables yet
        for segment in _matching_segments(db, filters, since, until):
            rows_left = filters.limit + 1 - len(page)
            page += _search_segment(db, segment, filters, since, until, rows_left)
            if len(page) > filters.limit:
                return OperationPage(page[: filters.limit], more=True)
            if clock.monotonic() - started > SEARCH_S:
                until_at = clock.EPOCH + timedelta(microseconds=segment.since_at)
                return OperationPage(page, True, segment.id << ID_BITS, until_at)
        return OperationPage(page)
    finally:
        db.execute("ROLLBACK")


def _matching_segments(
    db: sqlite3.Connection, filters: OperationFilter, since: int, until: int | None
) -> list[_Segment]:
    """Return the segments that can contain a match.

    A segment is excluded if the times of its rows do not match, or if its stored counts show that no row matches.
    """
    rows = [
        _Segment(*row)
        for row in db.execute(
            "SELECT id, sealed, since_at, until_at FROM segments WHERE since_at IS NOT NULL ORDER BY id DESC"
        )
    ]
    if filters.before is not None:
        rows = [row for row in rows if row.id << ID_BITS < filters.before]
    if filters.after is not None:
        rows = [row for row in rows if row.id >= filters.after >> ID_BITS]
    rows = [row for row in rows if row.until_at >= since and (until is None or row.since_at < until)]
    for counted_column, values in _counted_values(filters):
        wanted_values = f"what = ? AND value IN ({_placeholders(values)})"
        statement = f"SELECT segment, sum(rows) FROM counts WHERE {wanted_values} GROUP BY segment"
        rows_by_segment: dict[int, int] = dict(db.execute(statement, (counted_column, *values)).fetchall())
        rows = [
            row._replace(
                matching_rows=min(
                    rows_by_segment.get(row.id, 0), SEGMENT_ROWS if row.matching_rows is None else row.matching_rows
                )
            )
            if row.sealed
            else row
            for row in rows
        ]
    return [row for row in rows if row.matching_rows != 0]


def _counted_values(filters: OperationFilter) -> Iterator[tuple[str, Sequence[int | str]]]:
    if filters.status is not None:
        yield "status", range(filters.status[0] // 100, filters.status[1] // 100 + 1)
    if filters.error_codes:
        yield "error", sorted(filters.error_codes)
    if filters.kind is not None:
        yield "kind", (KINDS.index(filters.kind),)


def _search_segment(
    db: sqlite3.Connection, segment: _Segment, filters: OperationFilter, since: int, until: int | None, limit: int
) -> list[StoredOperation]:
    condition, values, index = _row_conditions(filters, segment, since, until)
    subject, subject_values = _subject_conditions(filters)
    by_index = f"INDEXED BY calls_{segment.id}_{index}" if segment.sealed and index is not None else "NOT INDEXED"
    index_finds_few_rows = segment.sealed and index in ("request", "trace")
    # Search by subject if the search has more conditions than the environment.
    if not index_finds_few_rows and (len(subject_values) > 1 or filters.connections is not None):
        numbers = _matching_subjects(db, segment.id, filters)
        if not numbers:
            return []
        if len(numbers) <= FEW_SUBJECTS and (segment.matching_rows is None or _has_fewer_rows(db, segment, numbers)):
            condition.append(f"c.subject IN ({_placeholders(numbers)})")
            values += numbers
            by_index = f"INDEXED BY calls_{segment.id}_subject" if segment.sealed else by_index
    columns = ", ".join([*(f"c.{name}" for name in COLUMNS), *(f"s.{name}" for name in SUBJECT_COLUMNS)])
    statement = (
        f"SELECT {columns} FROM calls_{segment.id} AS c {by_index} CROSS JOIN subjects_{segment.id} AS s ON s.id = c.subject"
        f" WHERE {' AND '.join([*condition, *subject])} ORDER BY c.id DESC LIMIT ?"
    )
    # The connection of each row is checked below, not in SQL. So SQL must not limit the number of rows.
    rows = db.execute(statement, (*values, *subject_values, limit if filters.connections is None else -1))
    try:
        return [_operation(row) for row in islice((row for row in rows if _is_listed_connection(row, filters)), limit)]
    finally:
        rows.close()


def _has_fewer_rows(db: sqlite3.Connection, segment: _Segment, subjects: Sequence[int]) -> bool:
    """Return whether fewer rows have one of these subjects than the `matching_rows` of `segment`."""
    rows = f"SELECT 1 FROM calls_{segment.id} WHERE subject IN ({_placeholders(subjects)}) LIMIT ?"
    return bool(
        db.execute(
            f"SELECT count(*) < ? FROM ({rows})", (segment.matching_rows, *subjects, segment.matching_rows)
        ).fetchone()[0]
    )


def _row_conditions(
    filters: OperationFilter, segment: _Segment, since: int, until: int | None
) -> tuple[list[str], list[Any], str | None]:
    """Return the conditions on a row, their values, and the name of the best index (None: no index helps).

    If several indexes apply, the last of them is the best.
    """
    kind = None if filters.kind is None else KINDS.index(filters.kind)
    lowest, highest = filters.status or (None, None)
    only_errors = lowest is not None and lowest >= 400
    words = None if filters.text is None else filters.text.lower()
    request_hash = None if filters.request_id is None else crc32(filters.request_id.encode())
    conditions: list[tuple[str, tuple[Any, ...], str | None]] = [
        ("c.id < ?", (filters.before,), None),
        ("c.id > ?", (filters.after,), None),
        ("c.at >= ?", (since if since > segment.since_at else None,), None),
        ("c.at < ?", (until if until is not None and until <= segment.until_at else None,), None),
        ("c.kind = ? AND c.kind > 0" if kind else "c.kind = ?", (kind,), "kind" if kind else None),
        ("c.status BETWEEN ? AND ?", (lowest, highest), None),
        ("c.status >= 400", () if only_errors else (None,), "status"),
        (f"{FAILED} = ?", (filters.failed,), None),
        (
            f"c.error_code IN ({_placeholders(filters.error_codes)})",
            tuple(sorted(filters.error_codes)) or (None,),
            "error",
        ),
        (
            f"(c.error_code IS NULL OR c.error_code NOT IN ({_placeholders(filters.excluded_codes)}))",
            tuple(sorted(filters.excluded_codes)) or (None,),
            None,
        ),
        ("c.trace_id = ?", (filters.trace_id,), "trace"),
        ("c.request_hash = ? AND c.request_id = ?", (request_hash, filters.request_id), "request"),
        ("substr(c.path, 1, ?) = ?", (filters.path and len(filters.path), filters.path), None),
        (f"instr(lower({SEARCHED}), ?)", (words,), None),
        ("c.detail IS NOT NULL AND json_extract(c.detail, '$.tool') = ?", (filters.tool,), None),
    ]
    conditions = [condition for condition in conditions if None not in condition[1]]
    indexes = [index for _, _, index in conditions if index is not None]
    values = [value for _, condition_values, _ in conditions for value in condition_values]
    return ["1", *(condition for condition, _, _ in conditions)], values, indexes[-1] if indexes else None


def _subject_conditions(filters: OperationFilter) -> tuple[list[str], list[Any]]:
    conditions = ["s.environment = ?"]
    values: list[Any] = [filters.environment]
    # The index on the connection finds few rows. SQLite has no statistics of the segment and could choose another
    # index. The sign `+` prevents the use of the other indexes.
    plus = "" if filters.connection_id is None else "+"
    for name, value in (
        (f"{plus}s.integration_id", filters.integration_id),
        ("s.connection_id", filters.connection_id),
        ("s.method", filters.method),
    ):
        if value is not None:
            conditions.append(f"{name} = ?")
            values.append(value)
    if filters.key_ids:
        conditions.append(f"{plus}s.key_id IN ({_placeholders(filters.key_ids)})")
        values += sorted(filters.key_ids)
    return conditions, values


def _matching_subjects(db: sqlite3.Connection, segment: int, filters: OperationFilter) -> list[int]:
    """Return the numbers of the matching subjects.

    If the result has more than `FEW_SUBJECTS` numbers, it can be incomplete. The caller must then not search rows by
    these numbers.
    """
    condition, values = _subject_conditions(filters)
    if filters.connections is None:
        statement = f"SELECT s.id FROM subjects_{segment} AS s WHERE {' AND '.join(condition)} LIMIT {FEW_SUBJECTS + 1}"
        return [row[0] for row in db.execute(statement, values)]
    names = sorted({connection for _, connection in filters.connections})
    numbers: list[int] = []
    for start in range(0, len(names), 500):
        batch = names[start : start + 500]
        statement = (
            f"SELECT s.id, s.integration_id, s.connection_id FROM subjects_{segment} AS s"
            f" WHERE {' AND '.join(condition)} AND s.connection_id IN ({_placeholders(batch)})"
        )
        numbers += [
            row[0] for row in db.execute(statement, (*values, *batch)) if (row[1], row[2]) in filters.connections
        ]
    return numbers


def _placeholders(values: Sized) -> str:
    return ", ".join("?" * len(values))


def _is_listed_connection(row: tuple[Any, ...], filters: OperationFilter) -> bool:
    width = len(COLUMNS)
    return filters.connections is None or (row[width + 1], row[width + 2]) in filters.connections


def _operation(row: tuple[Any, ...]) -> StoredOperation:
    members = dict(zip((*COLUMNS, *SUBJECT_COLUMNS), row, strict=True))

    def ms(name: str) -> float | None:
        return None if members[name] is None else members[name] / 1000

    return StoredOperation(
        members["id"],
        Operation(
            kind=KINDS[members["kind"]],
            at=clock.EPOCH + timedelta(microseconds=members["at"]),
            request_id=members["request_id"],
            environment=members["environment"],
            integration_id=members["integration_id"],
            connection_id=members["connection_id"],
            method=members["method"],
            host=members["host"],
            path=members["path"],
            status=members["status"],
            error_code=members["error_code"],
            duration_ms=members["duration_us"] / 1000,
            gateway_ms=ms("gateway_us"),
            token_ms=ms("token_us"),
            upstream_ms=ms("upstream_us"),
            bytes_in=members["bytes_in"],
            bytes_out=members["bytes_out"],
            key_id=members["key_id"],
            trace_id=members["trace_id"],
            rule=members["rule"],
            attempts=members["attempts"],
            detail=None if members["detail"] is None else json.loads(members["detail"]),
        ),
    )
