"""The tables of the SQLite call log. A segment has two tables: its rows, and the subjects of the rows.

A subject consists of environment, integration, connection, key, method, host and rule. Many rows have the same subject,
so a row contains only the subject's number. Each process adds its own subjects, so several rows can describe the same
subject.
"""

import sqlite3
from datetime import datetime
from functools import lru_cache
from typing import Final

from gateway import clock

SEGMENT_ROWS: Final = 100_000
# The low bits of an id are the row's number in its segment. The bits above are the segment's number.
ID_BITS: Final = 32

SUBJECT_COLUMNS: Final = ("environment", "integration_id", "connection_id", "key_id", "method", "host", "rule")
COLUMNS: Final = (
    *("id", "at", "kind", "subject", "request_id", "request_hash", "trace_id", "path", "status", "error_code"),
    *("duration_us", "gateway_us", "token_us", "upstream_us", "attempts", "bytes_in", "bytes_out", "detail"),
)
INSERT_SUBJECT: Final = "INSERT INTO subjects_{0} VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)"
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS segments (
    id INTEGER PRIMARY KEY, rows INTEGER NOT NULL, sealed INTEGER NOT NULL, since_at INTEGER, until_at INTEGER);
CREATE TABLE IF NOT EXISTS counts (
    segment INTEGER, what TEXT, value, rows INTEGER NOT NULL, PRIMARY KEY (segment, what, value)) WITHOUT ROWID
"""
CREATE_SEGMENT: Final = """
CREATE TABLE calls_{0} (
    id INTEGER PRIMARY KEY, at INTEGER, kind INTEGER, subject INTEGER, request_id TEXT, request_hash INTEGER, trace_id TEXT,
    path TEXT, status INTEGER, error_code TEXT, duration_us INTEGER, gateway_us INTEGER, token_us INTEGER,
    upstream_us INTEGER, attempts INTEGER, bytes_in INTEGER, bytes_out INTEGER, detail TEXT);
CREATE TABLE subjects_{0} (
    id INTEGER PRIMARY KEY, environment TEXT, integration_id TEXT, connection_id TEXT, key_id INTEGER, method TEXT,
    host TEXT, rule TEXT);
INSERT INTO segments VALUES ({0}, 0, 0, NULL, NULL)
"""
INDEX_SEGMENT: Final = """
CREATE INDEX calls_{0}_subject ON calls_{0} (subject);
CREATE INDEX calls_{0}_request ON calls_{0} (request_hash);
CREATE INDEX calls_{0}_trace ON calls_{0} (trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX calls_{0}_status ON calls_{0} (status) WHERE status >= 400;
CREATE INDEX calls_{0}_error ON calls_{0} (error_code) WHERE error_code IS NOT NULL;
CREATE INDEX calls_{0}_kind ON calls_{0} (kind) WHERE kind > 0;
CREATE INDEX subjects_{0}_connection ON subjects_{0} (connection_id);
CREATE INDEX subjects_{0}_integration ON subjects_{0} (integration_id);
CREATE INDEX subjects_{0}_key ON subjects_{0} (key_id);
INSERT INTO counts SELECT {0}, 'status', status / 100, count(*) FROM calls_{0} GROUP BY 3;
INSERT INTO counts SELECT {0}, 'error', error_code, count(*) FROM calls_{0} WHERE error_code IS NOT NULL GROUP BY 3;
INSERT INTO counts SELECT {0}, 'kind', kind, count(*) FROM calls_{0} GROUP BY 3;
UPDATE segments SET sealed = 1 WHERE id = {0}
"""


@lru_cache(maxsize=8)
def insert_of(segment: int, rows: int) -> str:
    """Return the statement that inserts `rows` rows."""
    row = f"({', '.join('?' * len(COLUMNS))})"
    return f"INSERT INTO calls_{segment} VALUES {', '.join([row] * rows)}"


def run_all(db: sqlite3.Connection, statements: str, segment: int = 0) -> None:
    """Run all statements in the caller's transaction. `executescript` would commit that transaction."""
    for statement in statements.format(segment).split(";"):
        db.execute(statement)


def microseconds(moment: datetime) -> int:
    """Return microseconds since 1970."""
    since_epoch = moment - clock.EPOCH
    return (since_epoch.days * 86_400 + since_epoch.seconds) * 1_000_000 + since_epoch.microseconds
