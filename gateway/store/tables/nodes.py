"""What nodes share: whose turn a task is, what has changed, and when the database failed over."""

from sqlalchemy import Column, Table, Text

from gateway.store.tables.columns import UtcTime, metadata, row_id

# Work that one node does for all: whoever holds the row by that name.
task_leases = Table(
    "task_leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("until", UtcTime, nullable=False),
)

changes = Table(
    "changes",
    metadata,
    row_id(),
    Column("at", UtcTime, nullable=False),
    Column("environment", Text, nullable=False),
    Column("integration_id", Text, nullable=False),
    Column("connection_id", Text, nullable=False),
    sqlite_autoincrement=True,  # readers remember the last id they saw
)

# PostgreSQL only: each history (timeline) that nodes have seen this database go by. All but the first began with a failover.
timelines = Table(
    "timelines",
    metadata,
    Column("timeline", Text, primary_key=True),
    Column("since", UtcTime, nullable=False),
)
