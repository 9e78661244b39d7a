"""What was proxied."""

from sqlalchemy import BigInteger, Column, Float, Index, Integer, Table, Text

from gateway.store.tables.columns import UtcTime, metadata, row_id

request_log = Table(
    "request_log",
    metadata,
    row_id(),
    Column("at", UtcTime, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("integration_id", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("duration_ms", Float, nullable=False),
    Column("bytes_in", BigInteger, nullable=False),
    Column("bytes_out", BigInteger, nullable=False),
    Column("error_code", Text),
    Index("request_log_by_age", "at"),
    sqlite_autoincrement=True,
)
