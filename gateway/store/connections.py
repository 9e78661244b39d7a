"""Connections: stored with their credential sealed, leased for a refresh, and versioned so that a late writer loses."""

import asyncio
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, RowMapping, Update, and_, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connection import Connection, ConnectionRef, NewConnection, RefreshFailure
from gateway.store.changes import note_change
from gateway.store.connection_rows import NO_FAILURE, NO_LEASE, asked_columns, connection_of, failure_columns
from gateway.store.data_keys import DataKeys
from gateway.store.listing import ListFilter, listed, search_text
from gateway.store.tables import connect_sessions, connection_tags, connections
from gateway.store.transactions import Transactions
from gateway.store.upsert import insert_if_absent
from gateway.vault import Vault

ROWS_AT_ONCE: Final = 200  # turned into records before the event loop gets its turn again


class ConnectionStore:
    """Every change that other processes must see is noted in `changes` within its own transaction."""

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys) -> None:
        self._transactions = transactions
        self._vault = vault
        self._keys = keys

    async def get(self, ref: ConnectionRef) -> Connection | None:
        async with self._transactions.read() as db:
            found = await _read(db, ref)
        return await self._openable(found)

    async def list(self, environment: str, wanted: ListFilter) -> list[Connection]:
        """The connections of `environment` that `wanted` describes, newest first. Raises InvalidRequest (cursor)."""
        found: list[Connection] = []
        async with self._transactions.read() as db:
            rows = (await db.execute(listed(environment, wanted))).mappings()
            for some in rows.partitions(ROWS_AT_ONCE):
                found += map(connection_of, some)
                await asyncio.sleep(0)
        await self._keys.learn(*(connection.credential for connection in found))
        return found

    async def put(self, new: NewConnection, *, now: datetime) -> tuple[Connection, bool]:
        """Store `new`, over what its address held before; True: it held nothing.

        The version goes up, a failure and a lease are forgotten: whoever is refreshing the old credential comes late.
        """

        async def write(db: AsyncConnection) -> tuple[Connection, bool]:
            created = await self._claim_row(db, new, now)
            while not await self._fill_row(db, new, now):  # deleted by another node since it was seen to be there
                created = await self._claim_row(db, new, now)
            stored = await _stored(db, new.ref)
            await note_change(db, new.ref, now)
            return stored, created

        return await self._transactions.write(write, before=lambda: self._keys.allow(new.ref.environment))

    async def delete(self, ref: ConnectionRef, *, now: datetime) -> bool:
        """Remove it, and the connect sessions that were made for it, which could bring it back. False: no such one."""
        bound = and_(
            connect_sessions.c.environment == ref.environment,
            connect_sessions.c.integration_id == ref.integration_id,
            connect_sessions.c.connection_id == ref.connection_id,
        )

        async def write(db: AsyncConnection) -> bool:
            if (await db.execute(delete(connections).where(_at(ref)))).rowcount == 0:
                return False
            await db.execute(delete(connect_sessions).where(bound))
            await note_change(db, ref, now)
            return True

        return await self._transactions.write(write)

    async def lease_refresh(self, ref: ConnectionRef, *, owner: str, now: datetime, ttl: timedelta) -> bool:
        """Ask to be the one that refreshes this credential for the next `ttl` (ADR 5).

        One conditional UPDATE, so it means the same on SQLite and on PostgreSQL. `owner` names this attempt, not the
        node. Who wins reads the connection again first: another may have refreshed it meanwhile. False: another holds
        the lease, or there is no such connection; wait for what is written.
        """
        until = connections.c.lease_until
        claim = update(connections).where(_at(ref), or_(until.is_(None), until <= now))
        return await self._changed(claim.values(lease_owner=owner, lease_until=now + ttl))

    async def release_lease(self, ref: ConnectionRef, *, owner: str) -> None:
        """Give the lease back unused; nothing happens if it is another's by now."""
        await self._changed(update(connections).where(_at(ref), connections.c.lease_owner == owner).values(NO_LEASE))

    async def save_refreshed(
        self,
        ref: ConnectionRef,
        *,
        owner: str,
        version: int,
        credential: Mapping[str, Any],
        expires_at: datetime | None,
        now: datetime,
    ) -> Connection | None:
        """Replace the credential of `version` and end the lease. When this returns, it is on the disk.

        None: fenced off, since the row is gone, has another credential by now, or another holds the lease.
        """

        async def write(db: AsyncConnection) -> Connection | None:
            held = _held(ref, owner, version)
            uid = (await db.execute(select(connections.c.uid).where(held).with_for_update())).scalar()
            if uid is None:
                return None
            changed: dict[str, Any] = {
                "version": version + 1,
                "credential": self._seal(credential, ref, uid, "credential", version + 1),
                "expires_at": expires_at,
                "updated_at": now,
                "last_refreshed_at": now,
            }
            await db.execute(update(connections).where(held).values(changed | NO_FAILURE | NO_LEASE))
            stored = await _stored(db, ref)
            await note_change(db, ref, now)
            return stored

        return await self._transactions.write(write, before=lambda: self._keys.allow(ref.environment))

    async def record_failure(
        self, ref: ConnectionRef, *, owner: str, version: int, failure: RefreshFailure
    ) -> Connection | None:
        """Keep why the refresh went wrong and end the lease; the credential stays. None: fenced off, as above."""
        told = update(connections).where(_held(ref, owner, version)).values(failure_columns(failure) | NO_LEASE)

        async def write(db: AsyncConnection) -> Connection | None:
            if (await db.execute(told.values(updated_at=failure.at))).rowcount == 0:
                return None
            stored = await _stored(db, ref)
            await note_change(db, ref, failure.at)
            return stored

        return await self._transactions.write(write)

    async def touch_fetched(self, ref: ConnectionRef, *, now: datetime) -> None:
        """Note that the connection was read through the API (`last_fetched_at`); no other process need know at once."""
        await self._changed(update(connections).where(_at(ref)).values(last_fetched_at=now))

    async def _changed(self, statement: Update) -> bool:
        async def write(db: AsyncConnection) -> bool:
            return (await db.execute(statement)).rowcount == 1

        return await self._transactions.write(write)

    async def _claim_row(self, db: AsyncConnection, new: NewConnection, now: datetime) -> bool:
        """Make the row if it is absent, as version 0; its credential follows, sealed for the version it gets."""
        blank = {
            "uid": uuid.uuid4().hex,
            **new.ref._asdict(),
            "provider": new.provider,
            "version": 0,
            "credential": b"",
            "config": {},
            "tags": {},
            "search_text": search_text(new.ref.connection_id, None),
            "created_at": now,
            "updated_at": now,
        }
        return await insert_if_absent(db, connections, blank, key=list(ConnectionRef._fields))

    async def _fill_row(self, db: AsyncConnection, new: NewConnection, now: datetime) -> bool:
        """False: there is no such row."""
        identity = select(connections.c.id, connections.c.uid, connections.c.version).where(_at(new.ref))
        row = (await db.execute(identity.with_for_update())).one_or_none()
        if row is None:
            return False
        version = row.version + 1
        changed = {
            **asked_columns(new),
            "version": version,
            "credential": self._seal(new.credential, new.ref, row.uid, "credential", version),
            "updated_at": now,
            "last_refreshed_at": now,
        }
        if new.secret_config is not None:
            sealed = self._seal(new.secret_config, new.ref, row.uid, "secret_config", version)
            changed |= {"secret_config": sealed, "secret_config_version": version}
        await db.execute(update(connections).where(connections.c.id == row.id).values(changed | NO_FAILURE | NO_LEASE))
        if new.tags is not None:
            await _index_tags(db, row.id, new.tags)
        return True

    def _seal(self, value: Mapping[str, Any], ref: ConnectionRef, uid: str, column: str, version: int) -> bytes:
        sealed = self._vault.seal_json(
            value, environment=ref.environment, table="connections", row=uid, column=column, version=version
        )
        return sealed.ciphertext

    async def _openable(self, found: Connection | None) -> Connection | None:
        if found is not None:
            await self._keys.learn(*filter(None, (found.credential, found.secret_config)))
        return found


def _at(ref: ConnectionRef) -> ColumnElement[bool]:
    return and_(
        connections.c.environment == ref.environment,
        connections.c.integration_id == ref.integration_id,
        connections.c.connection_id == ref.connection_id,
    )


def _held(ref: ConnectionRef, owner: str, version: int) -> ColumnElement[bool]:
    return and_(_at(ref), connections.c.version == version, connections.c.lease_owner == owner)


async def _read(db: AsyncConnection, ref: ConnectionRef) -> Connection | None:
    row: RowMapping | None = (await db.execute(select(connections).where(_at(ref)))).mappings().first()
    return None if row is None else connection_of(row)


async def _stored(db: AsyncConnection, ref: ConnectionRef) -> Connection:
    """The row just written, which is there since we hold its lock."""
    return connection_of((await db.execute(select(connections).where(_at(ref)))).mappings().one())


async def _index_tags(db: AsyncConnection, row_id: int, tags: Mapping[str, str]) -> None:
    await db.execute(delete(connection_tags).where(connection_tags.c.connection == row_id))
    rows = [{"connection": row_id, "key": key.lower(), "value": value} for key, value in tags.items()]
    if rows:
        await db.execute(insert(connection_tags), rows)
