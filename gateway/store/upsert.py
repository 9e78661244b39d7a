"""The one statement that differs by dialect: insert unless the row is there already."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncConnection


async def insert_if_absent(db: AsyncConnection, table: Table, row: Mapping[str, Any], *, key: Sequence[str]) -> bool:
    """Insert `row` unless one with the same `key` columns exists; True if it was inserted."""
    values = dict(row)
    insert = _insert_of(db.dialect.name)
    statement = insert(table).values(values).on_conflict_do_nothing(index_elements=key)
    return (await db.execute(statement)).rowcount == 1


def _insert_of(dialect: str) -> Any:
    """The dialect's own insert; that of the other is not even loaded, since it costs every worker 2 MB."""
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert
    from sqlalchemy.dialects import postgresql

    return postgresql.insert
