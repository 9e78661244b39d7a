"""Secret keys and capabilities."""

from sqlalchemy import BigInteger, Column, Index, Integer, Table, Text, UniqueConstraint

from gateway.store.tables.columns import Json, RowId, UtcTime, environment_name, metadata, row_id

# Those of gateway.yaml are not among them.
keys = Table(
    "keys",
    metadata,
    row_id(),
    Column("digest", Text, nullable=False),
    environment_name(),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("last_four", Text, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("limits", Json, nullable=False),
    Column("rate", Integer),
    Column("budget", BigInteger),
    Column("calls", BigInteger, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("parent_id", RowId),
    Column("expires_at", UtcTime),
    Column("revoked_at", UtcTime),
    Column("last_used_at", UtcTime),
    UniqueConstraint("digest", name="keys_by_digest"),
    Index("keys_by_environment", "environment", "id"),
    Index("keys_by_parent", "parent_id"),
    sqlite_autoincrement=True,  # an id is never given twice: a key that is gone must not be another's parent
)
