"""The last statement of a transaction, told to the database as such where that spares a way there and back."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import CursorResult, Executable
from sqlalchemy.ext.asyncio import AsyncConnection


async def execute_last(db: AsyncConnection, statement: Executable, parameters: Mapping[str, Any]) -> CursorResult[Any]:
    """Run `statement`, after which the caller's transaction runs no other and raises nothing.

    On SQLite it is committed when this returns, unless other writes share the transaction; elsewhere it commits at its end.
    """
    if db.dialect.name == "sqlite":
        connection = db.sync_connection
        assert connection is not None, "a transaction has a connection"
        driver: Any = connection.connection.driver_connection
        driver.commit_with_next()
    return await db.execute(statement, parameters)
