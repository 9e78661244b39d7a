"""Which connections are to be refreshed soon lest their refresh token dies of disuse: found by index, in batches."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connection import Connection, Lifespan
from gateway.records.states import ENDED
from gateway.store.connection_rows import connection_of, life_columns, sealed_in
from gateway.store.data_keys import DataKeys
from gateway.store.tables import connections
from gateway.store.transactions import Transactions


class KeepAliveStore:
    """Every question is one range of the index on provider and due time, whatever the number of connections."""

    def __init__(self, transactions: Transactions, keys: DataKeys) -> None:
        self._transactions = transactions
        self._keys = keys

    async def due(self, provider: str, now: datetime, *, limit: int) -> list[Connection]:
        """Those whose time has come, the longest due first."""
        table = connections.c
        wanted = _of(provider, table.keep_alive_at <= now).order_by(table.keep_alive_at, table.id)
        return await self._found(wanted.limit(limit))

    async def unplanned(self, provider: str, *, after_id: int, limit: int) -> list[Connection]:
        """Those that have no time yet, from before the entry had a limit or because they have nothing to keep alive."""
        table = connections.c
        wanted = _of(provider, table.keep_alive_at.is_(None), table.id > after_id)
        return await self._found(wanted.where(table.state.not_in(sorted(ENDED))).order_by(table.id).limit(limit))

    async def too_late(self, provider: str, latest: datetime, *, limit: int) -> list[Connection]:
        """Those whose time lies behind `latest`, by an older entry that knew a longer limit."""
        table = connections.c
        return await self._found(_of(provider, table.keep_alive_at > latest).order_by(table.keep_alive_at).limit(limit))

    async def plan(self, planned: Sequence[tuple[Connection, Lifespan]]) -> None:
        """Give them these times, unless their credential is another by now."""
        table = connections.c

        async def write(db: AsyncConnection) -> None:
            for row, life in planned:
                as_seen = (table.id == row.id, table.version == row.version)
                await db.execute(update(connections).where(*as_seen).values(life_columns(life)))

        if planned:
            await self._transactions.write(write)

    async def _found(self, wanted: Select[Any]) -> list[Connection]:
        async with self._transactions.read() as db:
            rows = (await db.execute(wanted)).mappings().all()
        found = [connection_of(row) for row in rows]
        await self._keys.learn(*(sealed for one in found for sealed in sealed_in(one)))
        return found


def _of(provider: str, *conditions: ColumnElement[bool]) -> Select[Any]:
    return select(connections).where(connections.c.provider == provider, *conditions)
