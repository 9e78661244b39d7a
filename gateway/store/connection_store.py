"""Connections, each with a sealed credential and a version. A write based on an older version has no effect."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from sqlalchemy import Row, and_, bindparam, delete, exists, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.audit import AuditAction, AuditEntry
from gateway.records.connecting import SessionTerms
from gateway.records.connection import MOVED_IN, Connection, ConnectionRef, ImportedHistory, Mark, NewConnection, Sealed
from gateway.records.event import Event
from gateway.records.states import FAILOVER, State, StateTrigger
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.changes import record_change
from gateway.store.connection_rows import (
    NO_FAILURE,
    NO_INTENT,
    NO_LEASE,
    NO_PREVIOUS,
    PREVIOUS_COLUMN,
    SELECT_ROW,
    ListFilter,
    SealedRows,
    connection_of,
    failure_columns,
    index_tags,
    life_columns,
    list_query,
    matches_ref,
    read_written,
    ref_parameters,
    search_text,
    unsealed_columns,
)
from gateway.store.history import STATE_COLUMNS, record_final_failure, record_trigger
from gateway.store.outbox import Outbox
from gateway.store.pending_authorizations import count_connection, delete_sessions
from gateway.store.stored_integrations import lock_integration
from gateway.store.tables import connect_sessions, connection_history, connections
from gateway.store.transactions import CompiledQuery, insert_if_absent
from gateway.vault import DamagedValue, UnknownKey

# ── The past of a moved connection: its dates, state and failure, as the former gateway recorded them.

DATES = ("created_at", "granted_at", "last_refreshed_at", "last_fetched_at")


async def write_past(db: AsyncConnection, row_id: int, past: ImportedHistory, *, now: datetime) -> None:
    """Write the past of a moved connection after its row, in the caller's transaction.

    The connection's history begins with the move.
    """
    state = past.state or State.ACTIVE
    columns: dict[str, Any] = {
        "state": state.value,
        "state_reason": past.state_reason or MOVED_IN,
        "state_since": past.state_since or now,
    }
    columns |= {name: value for name in DATES if (value := getattr(past, name)) is not None}
    if past.failure is not None:
        columns |= failure_columns(past.failure)
    if past.life is not None:
        columns |= life_columns(past.life)
    await db.execute(update(connections).where(connections.c.id == row_id).values(columns))
    await db.execute(delete(connection_history).where(connection_history.c.connection == row_id))
    entry = {"connection": row_id, "at": now, "state": state.value, "state_before": None, "reason": MOVED_IN}
    await db.execute(insert(connection_history).values({**entry, "detail": past.state_reason}))


IDS_PER_QUERY: Final = 200
# Each query is for one integration. With rows of three values in the condition, SQLite would read the whole table.
MARKS: Final = select(connections.c.connection_id, connections.c.version, connections.c.updated_at).where(
    connections.c.environment == bindparam("environment_"),
    connections.c.integration_id == bindparam("integration_id_"),
    connections.c.connection_id.in_(bindparam("ids", expanding=True)),
)
WRITTEN_BACK_COLUMNS: Final = ("version", "expires_at", "config", "rotates", "granted_at", "last_refreshed_at")
ROWS_BEFORE_PAUSE: Final = 20  # rows converted to records before the event loop runs again


class ConnectionStore:
    """The connections.

    A change that other processes must see adds an entry to the change log in the same transaction.
    """

    def __init__(self, rows: SealedRows, outbox: Outbox, trail: AuditTrail) -> None:
        self._rows = rows
        self._trail = trail
        self._transactions = rows.transactions
        self._outbox = outbox

    async def get(self, ref: ConnectionRef) -> Connection | None:
        """Return the stored connection; None if it does not exist."""
        query = self._whole_row
        row = await self._transactions.fetch_row(query.bind(ref_parameters(ref)))
        if row is None:
            return None
        (connection,) = await self._rows.records([query.values(row)])
        return connection

    @cached_property
    def _whole_row(self) -> CompiledQuery:
        return CompiledQuery(SELECT_ROW, self._transactions.dialect)

    async def list(self, environment: str, filters: ListFilter) -> list[Connection]:
        """Return the connections of `environment` that match `filters`, the newest first. Raises InvalidRequest."""
        stored: list[Connection] = []
        async with self._transactions.read() as db:
            rows = (await db.execute(list_query(environment, filters))).mappings()
            for batch in rows.partitions(ROWS_BEFORE_PAUSE):
                stored += map(connection_of, batch)
                await asyncio.sleep(0)
        await self._rows.load_keys_of(stored)
        return stored

    async def marks(self, refs: Sequence[ConnectionRef]) -> dict[ConnectionRef, Mark]:
        """Return the marks of the connections that exist.

        A mark changes with its row, so a reader can compare marks to find the rows that have changed.
        """
        marks: dict[ConnectionRef, Mark] = {}
        by_integration: dict[tuple[str, str], list[str]] = {}
        for ref in refs:
            by_integration.setdefault(ref[:2], []).append(ref.connection_id)
        for (environment, integration_id), ids in by_integration.items():
            parameters = {"environment_": environment, "integration_id_": integration_id}
            for start in range(0, len(ids), IDS_PER_QUERY):
                async with self._transactions.read() as db:
                    rows = (await db.execute(MARKS, {**parameters, "ids": ids[start : start + IDS_PER_QUERY]})).all()
                marks |= {ConnectionRef(environment, integration_id, row[0]): (row[1], row[2]) for row in rows}
        return marks

    async def put(
        self, new_connection: NewConnection, *, now: datetime, terms: SessionTerms | None = None
    ) -> tuple[Connection, bool]:
        """Store `new_connection` in place of the connection with the same reference, if one exists.

        Returns the stored connection, and whether it was created. The version is incremented, and a failure and a lease
        are removed. So a running refresh of the replaced credential has no effect. `terms`: the terms of the connect
        session, for which the connection is counted; None for an import. Raises Forbidden, and stores nothing, if the
        session has already created its maximum of connections.
        """
        entry = connection_audit_entry(AuditAction.CONNECTION_IMPORTED, new_connection.ref, now)
        digest = None if terms is None else terms.session_digest

        async def write(db: AsyncConnection) -> tuple[Connection, bool]:
            result = await self.put_within(db, new_connection, now=now, entry=entry, session_digest=digest)
            if terms is not None:
                await count_connection(db, terms)
            return result

        return await self._transactions.write(
            write, before=lambda: self._rows.keys.allow(new_connection.ref.environment)
        )

    async def put_within(
        self,
        db: AsyncConnection,
        new_connection: NewConnection,
        *,
        now: datetime,
        entry: AuditEntry,
        session_digest: str | None = None,
    ) -> tuple[Connection, bool]:
        """Do the work of `put` in the caller's transaction.

        The caller must run `DataKeys.allow` before the transaction. `entry`: the entry for the audit trail. Build it
        with `connection_audit_entry` outside the transaction, because the actor is known only there.
        """
        created = await self._claim_row(db, new_connection, now)
        while not await self._fill_row(db, new_connection, now):  # another node has just deleted the row
            created = await self._claim_row(db, new_connection, now)
        written_row = await read_written(db, new_connection.ref)
        if session_digest is not None:
            key_query = select(connect_sessions.c.key_id).where(connect_sessions.c.digest == session_digest)
            key_id = (await db.execute(key_query)).scalar()
            entry = entry.with_session(session_digest, int(key_id) if key_id else None)
            action = AuditAction.CONNECTION_CREATED if created else AuditAction.CONNECTION_RECONNECTED
            entry = replace(entry, action=action)
        await self._add_audit_entry(
            db, replace(entry, detail=_audit_detail(new_connection, created=created)), written_row
        )
        await record_change(db, new_connection.ref, now)
        return written_row, created

    async def _add_audit_entry(self, db: AsyncConnection, entry: AuditEntry, row: Connection) -> None:
        await self._trail.record(db, entry, end_user_id=row.end_user.id if row.end_user else None)

    async def has_other_for_account(self, ref: ConnectionRef, account_id: str) -> bool:
        """Return whether another connection of the same integration belongs to the account `account_id`."""
        same_integration = (
            connections.c.environment == ref.environment,
            connections.c.integration_id == ref.integration_id,
        )
        other_connection = connections.c.connection_id != ref.connection_id, connections.c.account_id == account_id
        async with self._transactions.read() as db:
            return bool((await db.execute(select(exists().where(*same_integration, *other_connection)))).scalar())

    async def put_moved(
        self, new_connection: NewConnection, past: ImportedHistory, *, replaces: bool, now: datetime
    ) -> tuple[Connection, bool] | None:
        """Store `new_connection`, which was exported from another gateway, with its `past`.

        Returns the connection, and whether it was created. `replaces`: whether to replace an existing connection with
        the same reference; if false, the existing connection stays and the result is None. The application gets no
        event, because it already knows the connection.
        """
        entry = connection_audit_entry(AuditAction.CONNECTION_IMPORTED, new_connection.ref, now)

        async def write(db: AsyncConnection) -> tuple[Connection, bool] | None:
            created = await self._claim_row(db, new_connection, now)
            if not (created or replaces):
                return None
            while not await self._fill_row(db, new_connection, now, reported=False):
                created = await self._claim_row(db, new_connection, now)
            await write_past(db, (await read_written(db, new_connection.ref)).id, past, now=now)
            written_row = await read_written(db, new_connection.ref)
            await self._add_audit_entry(
                db, replace(entry, detail=_audit_detail(new_connection, created=created)), written_row
            )
            await record_change(db, new_connection.ref, now)
            return written_row, created

        return await self._transactions.write(
            write, before=lambda: self._rows.keys.allow(new_connection.ref.environment)
        )

    async def write_back(self, newer: Connection, *, now: datetime) -> Connection | None:
        """Store the credential of `newer`, which the database lost in a failover.

        Replaces an older version of the same row, in any state. The credential is sealed again, because the database
        has possibly lost its data key too. Returns None, and writes nothing, if the row no longer exists or has the
        same version or a newer one. Raises VaultError if `newer` cannot be opened.
        """
        row_query = select(*STATE_COLUMNS, connections.c.version).where(
            matches_ref(newer.ref), connections.c.uid == newer.uid, connections.c.version < newer.version
        )

        def seal_again(sealed: Sealed | None) -> bytes | None:
            return None if sealed is None else self._rows.vault.seal_again(sealed).ciphertext

        async def write(db: AsyncConnection) -> Connection | None:
            row = (await db.execute(row_query.with_for_update())).one_or_none()
            if row is None:
                return None
            secret, previous = newer.secret_config, newer.previous
            columns: dict[str, Any] = {name: getattr(newer, name) for name in WRITTEN_BACK_COLUMNS} | life_columns(
                newer.life
            )
            columns |= {"credential": seal_again(newer.credential), "updated_at": now}
            columns |= {"secret_config": seal_again(secret), "secret_config_version": secret and secret.version}
            columns |= {
                PREVIOUS_COLUMN: seal_again(previous),
                f"{PREVIOUS_COLUMN}_version": previous and previous.version,
            }
            columns |= {f"{PREVIOUS_COLUMN}_until": newer.previous_until}
            columns |= NO_FAILURE | NO_LEASE | NO_INTENT
            detail = f"version {newer.version} from a node's memory over version {row.version}"
            await record_trigger(
                db, self._outbox, row, StateTrigger.WRITTEN_BACK, columns, now=now, reason=FAILOVER, detail=detail
            )
            written_row = await read_written(db, newer.ref)
            await record_change(db, newer.ref, now)
            return written_row

        return await self._transactions.write(write, before=lambda: self._rows.keys.allow(newer.ref.environment))

    async def delete(self, ref: ConnectionRef, *, now: datetime) -> bool:
        """Delete the connection and its connect sessions. Return False if the connection does not exist.

        With a remaining session, an end user could create the connection again.
        """
        own_sessions = and_(
            connect_sessions.c.environment == ref.environment,
            connect_sessions.c.integration_id == ref.integration_id,
            connect_sessions.c.connection_id == ref.connection_id,
        )

        entry = connection_audit_entry(AuditAction.CONNECTION_DELETED, ref, now)
        row_query = select(connections.c.id, connections.c.end_user_id).where(matches_ref(ref))

        async def write(db: AsyncConnection) -> bool:
            row = (await db.execute(row_query.with_for_update())).one_or_none()
            if row is None:
                return False
            row_id = row.id
            await self._outbox.add_event(db, row_id, Event.DELETED, now=now)
            await db.execute(delete(connections).where(connections.c.id == row_id))
            await delete_sessions(db, own_sessions)
            await self._trail.record(db, entry, end_user_id=row.end_user_id)
            await self._trail.forget_after_last_connection(db, ref, row.end_user_id)
            await record_change(db, ref, now)
            return True

        return await self._transactions.write(write)

    async def touch_fetched(self, ref: ConnectionRef, *, now: datetime) -> None:
        """Record that the connection was read through the API (`last_fetched_at`), without a change log entry."""
        await self._rows.update(update(connections).where(matches_ref(ref)).values(last_fetched_at=now))

    async def record_read(
        self, rows: Sequence[Connection], action: AuditAction, *, now: datetime, **detail: Any
    ) -> None:
        """Record in the audit trail that the caller will return the credentials of `rows`.

        `detail`: further members of each entry. If this method raises Unavailable, the caller must not return the
        credentials.
        """
        entries = [replace(connection_audit_entry(action, row.ref, now), detail=detail) for row in rows]
        ids = tuple(row.end_user.id if row.end_user else None for row in rows)
        await self._trail.write(*entries, end_user_ids=ids)

    async def _claim_row(self, db: AsyncConnection, new_connection: NewConnection, now: datetime) -> bool:
        """Insert the connection's row as version 0 if no row exists. `_fill_row` then writes the credential.

        Returns whether the row was inserted. Raises NotFound if the integration was deleted or renamed.
        """
        await lock_integration(db, new_connection)
        empty_row = {
            "uid": uuid.uuid4().hex,
            **new_connection.ref._asdict(),
            "provider": new_connection.provider,
            "version": 0,
            "credential": b"",
            "config": {},
            "tags": {},
            "search_text": search_text(new_connection.ref.connection_id, None),
            "created_at": now,
            "updated_at": now,
        }
        return await insert_if_absent(db, connections, empty_row, key=list(ConnectionRef._fields))

    async def _fill_row(
        self, db: AsyncConnection, new_connection: NewConnection, now: datetime, *, reported: bool = True
    ) -> bool:
        """Write `new_connection` into its row. Return False if the row does not exist.

        `reported`: whether to send an event to the application.
        """
        table = connections.c
        secret = table.secret_config, table.secret_config_version
        row_query = select(*STATE_COLUMNS, table.uid, table.version, table.end_user_id, *secret).where(
            matches_ref(new_connection.ref)
        )
        row = (await db.execute(row_query.with_for_update())).one_or_none()
        if row is None:
            return False
        version = row.version + 1
        columns = {
            **unsealed_columns(new_connection),
            "version": version,
            "credential": self._rows.seal(
                new_connection.credential, new_connection.ref, row.uid, "credential", version
            ),
            "updated_at": now,
            "last_refreshed_at": now,
            "granted_at": now,
            "expiry_told_days": None,
            "refused_scopes": None,
        }
        if new_connection.secret_config is not None:
            sealed = self._rows.seal(
                new_connection.secret_config, new_connection.ref, row.uid, "secret_config", version
            )
            columns |= {"secret_config": sealed, "secret_config_version": version}
        elif self._is_damaged(new_connection.ref, row):
            columns |= {"secret_config": None, "secret_config_version": None}
        columns |= NO_FAILURE | NO_LEASE | NO_INTENT | NO_PREVIOUS
        reason = "authorized" if version == 1 else "reconnected"
        outbox = self._outbox if reported else None
        trigger = StateTrigger.AUTHORIZED
        await record_trigger(db, outbox, row, trigger, columns, now=now, reason=reason, detail=new_connection.warning)
        if new_connection.ended is not None and reported:
            stored_row = (await db.execute(select(*STATE_COLUMNS).where(connections.c.id == row.id))).one()
            await record_final_failure(db, outbox, stored_row, new_connection.ended)
        if new_connection.tags is not None:
            await index_tags(db, row.id, new_connection.tags)
        if new_connection.end_user is not None and new_connection.end_user.id != row.end_user_id:
            await self._trail.forget_after_last_connection(db, new_connection.ref, row.end_user_id)
        return True

    def _is_damaged(self, ref: ConnectionRef, row: "Row[*tuple[Any, ...]]") -> bool:
        """Return whether the row's secret settings are damaged. A new authorization removes damaged settings."""
        if row.secret_config is None:
            return False
        version = row.secret_config_version
        try:
            self._rows.vault.open_json(
                Sealed(row.secret_config, ref.environment, "connections", row.uid, "secret_config", version, ref)
            )
        except DamagedValue:
            return True
        except UnknownKey:
            return False
        return False


def connection_audit_entry(action: AuditAction, ref: ConnectionRef, now: datetime) -> AuditEntry:
    """Return an audit trail entry about a connection, with the present actor."""
    return AuditEntry.of(
        action, ref.environment, now, integration_id=ref.integration_id, connection_id=ref.connection_id
    )


def _audit_detail(new_connection: NewConnection, *, created: bool) -> dict[str, Any]:
    return {"provider": new_connection.provider, "replaced": not created}
