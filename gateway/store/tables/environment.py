"""Environments, and the keys that their data are sealed under."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, Table, Text, UniqueConstraint

from gateway.store.tables.columns import RowId, UtcTime, environment_name, metadata

environments = Table(
    "environments",
    metadata,
    Column("name", Text, primary_key=True),
    Column("created_at", UtcTime, nullable=False),
)

data_keys = Table(
    "data_keys",
    metadata,
    # The highest number of an environment is the one that seals.
    Column("number", RowId, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False),
    environment_name(),
    Column("master_key_id", Text, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("seals_reserved", BigInteger, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    UniqueConstraint("id", name="data_keys_by_id"),
    Index("data_keys_by_environment", "environment", "number"),
    sqlite_autoincrement=True,
)
