"""What tables are made of, and the one list of all of them."""

from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Text,
    TypeDecorator,
    text,
)


class UtcTime(TypeDecorator[datetime]):
    """An aware UTC time on every backend; SQLite keeps it as text that sorts in the order of time."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone is not stored")
        in_utc = value.astimezone(UTC)
        return in_utc.replace(tzinfo=None) if dialect.name == "sqlite" else in_utc

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


RowId: Final = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows itself only in an INTEGER key
Json: Final = JSON(none_as_null=True)

metadata = MetaData()


def row_id() -> Column[Any]:
    return Column("id", RowId, primary_key=True, autoincrement=True)


def environment_name() -> Column[Any]:
    return Column("environment", Text, ForeignKey("environments.name"), nullable=False)


def where_set(name: str, column: str, *columns: str) -> Index:
    """An index over the few rows in which `column` is not null."""
    condition = text(f"{column} IS NOT NULL")
    # PostgreSQL's option stands in the migration alone, which makes the index: naming it here would load that dialect,
    # 2 MB, into every worker on SQLite.
    return Index(name, *columns, sqlite_where=condition)
