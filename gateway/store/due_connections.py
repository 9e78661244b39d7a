"""Connections that are due: those that end soon, and those that need a refresh to keep their refresh token alive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connection import Connection, Lifespan, RefreshFailure
from gateway.records.event import Event
from gateway.records.states import ENDED
from gateway.store.changes import record_change
from gateway.store.connection_rows import connection_of, life_columns, sealed_values
from gateway.store.data_keys import DataKeys
from gateway.store.history import STATE_COLUMNS, record_final_failure
from gateway.store.outbox import Outbox
from gateway.store.tables import connections
from gateway.store.transactions import Transactions

# ── Connections that end soon or have ended, and that no refresh can keep. Each is reported in advance, once for each
# number of days ahead.

# A connection that ends with its access token is not reported on the first day after its authorization, whose event has
# already named the end.
FIRST_DAY: Final = timedelta(days=1)
# connections per transaction; few, because other writes wait for the transaction
CONNECTIONS_PER_TRANSACTION: Final = 25


@dataclass(frozen=True, slots=True)
class ConnectionCount:
    """The number of connections of one environment and state.

    `ending`: days (1, 7 and 30) ▸ how many connections end within this time, unless the end user authorizes again.
    `overdue_since`: when the longest overdue keep-alive refresh was due; None if none is overdue.
    """

    environment: str
    state: str
    connections: int
    ending: Mapping[int, int]
    overdue_since: datetime | None


ENDING_DAYS: Final = (1, 7, 30)


class ExpiringStore:
    """Finds connections that end. Every query except `counts` reads one range of an index."""

    def __init__(self, transactions: Transactions, outbox: Outbox, keys: DataKeys) -> None:
        self._transactions = transactions
        self._outbox = outbox
        self._keys = keys

    async def report(self, environment: str, days: int, *, now: datetime, limit: int) -> int:
        """Write the event `connection.expiring` for connections that end within `days`. Return how many.

        Connections that already have this event for the same number of days, or for fewer, are skipped. A connection
        that ends with its access token is not reported on its first day: otherwise every connection with a token of one
        hour would be reported immediately.
        """
        table = connections.c
        query = select(table.id).where(
            table.environment == environment,
            table.dies_at > now,
            table.dies_at <= now + timedelta(days=days),
            table.keep_alive_at.is_(None),
            table.state.not_in(sorted(ENDED)),
            or_(table.expiry_told_days.is_(None), table.expiry_told_days > days),
            or_(table.end_settled.is_not(None), func.coalesce(table.granted_at, table.created_at) <= now - FIRST_DAY),
        )

        async def write(db: AsyncConnection) -> int:
            ids = list((await db.execute(query.order_by(table.dies_at).limit(limit).with_for_update())).scalars())
            for id_ in ids:
                await db.execute(update(connections).where(table.id == id_).values(expiry_told_days=days))
                await self._outbox.add_event(db, id_, Event.EXPIRING, now=now)
            return len(ids)

        async with self._transactions.read() as db:  # usually, no connection is due; this read then saves a write
            if (await db.execute(query.limit(1))).first() is None:
                return 0
        return await self._transactions.write(write)

    async def counts(self, now: datetime) -> list[ConnectionCount]:
        """Count all connections by environment and state. Reads every row."""
        table = connections.c
        is_alive = table.state.not_in(sorted(ENDED))
        ending = [
            func.count(
                case((and_(is_alive, table.keep_alive_at.is_(None), table.dies_at <= now + timedelta(days=days)), 1))
            )
            for days in ENDING_DAYS
        ]
        overdue = func.min(case((and_(is_alive, table.keep_alive_at <= now), table.keep_alive_at)))
        query = select(table.environment, table.state, func.count(), *ending, overdue)
        async with self._transactions.read() as db:
            rows = (await db.execute(query.group_by(table.environment, table.state))).all()
        return [
            ConnectionCount(row[0], row[1], row[2], dict(zip(ENDING_DAYS, row[3:6], strict=True)), row[6])
            for row in rows
        ]

    async def token_ended(self, now: datetime, *, after: Connection | None, limit: int) -> list[Connection]:
        """Return connections whose access token has expired and that are not marked as checked, the oldest first.

        `after`: the last connection of the previous page; None for the first page.
        """
        table = connections.c
        query = select(connections).where(*_unsettled_conditions(now))
        if after is not None and after.expires_at is not None:
            same_expiry = and_(table.expires_at == after.expires_at, table.id > after.id)
            query = query.where(
                table.expires_at >= after.expires_at, or_(table.expires_at > after.expires_at, same_expiry)
            )
        async with self._transactions.read() as db:
            rows = (await db.execute(query.order_by(table.expires_at, table.id).limit(limit))).mappings().all()
        ended = [connection_of(row) for row in rows]
        await self._keys.load_keys_of(*(sealed for connection in ended for sealed in sealed_values(connection)))
        return ended

    async def mark_checked(self, rows: Sequence[Connection], *, now: datetime) -> None:
        """Mark these connections as checked. A new credential removes the mark."""
        if rows:
            ids = [row.id for row in rows]
            rows_update = update(connections).where(connections.c.id.in_(ids), *_unsettled_conditions(now))
            await self._transactions.write(lambda db: db.execute(rows_update.values(end_settled=True)))

    async def end(self, rows: Sequence[Connection], failure: RefreshFailure) -> list[Connection]:
        """Record `failure` for each connection that is unchanged, has no running refresh and has not ended.

        Returns the connections for which the failure was recorded.
        """
        ended: list[Connection] = []
        for start in range(0, len(rows), CONNECTIONS_PER_TRANSACTION):
            batch = rows[start : start + CONNECTIONS_PER_TRANSACTION]
            ended += await self._transactions.write(partial(self._end_some, rows=batch, failure=failure))
        return ended

    async def _end_some(
        self, db: AsyncConnection, rows: Sequence[Connection], failure: RefreshFailure
    ) -> list[Connection]:
        table, now = connections.c, failure.at
        is_free = or_(table.lease_until.is_(None), table.lease_until <= now)
        ended: list[Connection] = []
        # every writer locks rows in the same order, so that no deadlock is possible
        for row in sorted(rows, key=lambda connection: connection.id):
            unchanged_row = (table.id == row.id, table.version == row.version, *_unsettled_conditions(now), is_free)
            row_before: Any = (
                await db.execute(select(*STATE_COLUMNS).where(*unchanged_row).with_for_update())
            ).one_or_none()
            if row_before is None:
                continue
            if row_before.state in ENDED:
                await db.execute(update(connections).where(table.id == row.id).values(end_settled=True))
                continue
            await record_final_failure(db, self._outbox, row_before, failure)
            ended.append(row)
        for row in ended:
            await record_change(db, row.ref, now)
        return ended


def _unsettled_conditions(now: datetime) -> tuple[Any, ...]:
    """Return conditions that include those of the index `connections_by_token_end`, so that the index is used."""
    table = connections.c
    return (table.end_settled.is_(None), table.expires_at.is_not(None), table.expires_at <= now)


# ── Keep-alive: finds the connections to refresh before their unused refresh token expires. Reads an index, in batches.


class KeepAliveStore:
    """Finds connections for keep-alive. Every query reads one range of the index on `provider` and `keep_alive_at`."""

    def __init__(self, transactions: Transactions, keys: DataKeys) -> None:
        self._transactions = transactions
        self._keys = keys

    async def due(self, provider: str, now: datetime, *, limit: int) -> list[Connection]:
        """Return the connections whose keep-alive refresh is due, the longest overdue first."""
        table = connections.c
        query = _select_by_provider(provider, table.keep_alive_at <= now).order_by(table.keep_alive_at, table.id)
        return await self._read_connections(query.limit(limit))

    async def find_unplanned(self, provider: str, *, after_id: int, limit: int) -> list[Connection]:
        """Return connections without a time for keep-alive.

        These connections have nothing to keep alive, or were stored when the catalog entry had no limit.
        """
        table = connections.c
        query = _select_by_provider(provider, table.keep_alive_at.is_(None), table.id > after_id)
        return await self._read_connections(
            query.where(table.state.not_in(sorted(ENDED))).order_by(table.id).limit(limit)
        )

    async def find_planned_after(self, provider: str, latest: datetime, *, limit: int) -> list[Connection]:
        """Return connections whose keep-alive is planned after `latest`.

        The time of these connections was computed when the catalog entry had a longer limit.
        """
        table = connections.c
        return await self._read_connections(
            _select_by_provider(provider, table.keep_alive_at > latest).order_by(table.keep_alive_at).limit(limit)
        )

    async def plan(self, planned: Sequence[tuple[Connection, Lifespan]]) -> None:
        """Store these keep-alive times. Skip connections whose credential has changed since the read."""
        table = connections.c

        async def write(db: AsyncConnection) -> None:
            for row, life in planned:
                is_unchanged = (table.id == row.id, table.version == row.version)
                await db.execute(update(connections).where(*is_unchanged).values(life_columns(life)))

        if planned:
            await self._transactions.write(write)

    async def _read_connections(self, query: Select[Any]) -> list[Connection]:
        async with self._transactions.read() as db:
            rows = (await db.execute(query)).mappings().all()
        stored = [connection_of(row) for row in rows]
        await self._keys.load_keys_of(*(sealed for connection in stored for sealed in sealed_values(connection)))
        return stored


def _select_by_provider(provider: str, *conditions: ColumnElement[bool]) -> Select[Any]:
    return select(connections).where(connections.c.provider == provider, *conditions)
