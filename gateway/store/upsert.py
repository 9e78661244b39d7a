"""The one statement that differs by dialect: insert unless the row is there already."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection


async def insert_if_absent(db: AsyncConnection, table: Table, row: Mapping[str, Any], *, key: Sequence[str]) -> bool:
    """Insert `row` unless one with the same `key` columns exists; True if it was inserted."""
    values = dict(row)
    if db.dialect.name == "sqlite":
        statement: Any = sqlite.insert(table).values(values).on_conflict_do_nothing(index_elements=key)
    else:
        statement = postgresql.insert(table).values(values).on_conflict_do_nothing(index_elements=key)
    return (await db.execute(statement)).rowcount == 1
