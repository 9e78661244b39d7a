"""Pending connections: new connections that wait up to ten minutes for the application to complete them.

A pending connection is stored as sealed JSON. It is not in lists of connections, and proxied calls
cannot use it.
"""

import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Any, Final

from sqlalchemy import RowMapping, and_, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import GatewayError
from gateway.records.audit import AuditAction
from gateway.records.connecting import PendingConnection, SessionTerms
from gateway.records.connection import (
    Account,
    Connection,
    ConnectionRef,
    Lifespan,
    NewConnection,
    RefreshFailure,
    Sealed,
)
from gateway.store.connection_rows import (
    SELECT_ROW,
    connection_of,
    end_user_from_json,
    end_user_to_json,
    ref_parameters,
)
from gateway.store.connection_store import ConnectionStore, connection_audit_entry
from gateway.store.data_keys import DataKeys
from gateway.store.pending_authorizations import count_connection, uncount_connection
from gateway.store.tables import pending_connections
from gateway.store.transactions import Transactions
from gateway.vault import Vault, VaultError

# ── Converts a pending connection to JSON, which is then sealed, and back.

PLAIN_FIELDS: Final = (
    "provider",
    "credential",
    "config",
    "secret_config",
    "metadata",
    "tags",
    "webhook_url_override",
    "warning",
)


def new_to_json(new_connection: NewConnection) -> dict[str, Any]:
    """Return the new connection as JSON, without its reference."""
    return {
        **{name: _plain_dict(getattr(new_connection, name)) for name in PLAIN_FIELDS},
        "expires_at": _text(new_connection.expires_at),
        "integration_uid": new_connection.integration_uid,
        "end_user": end_user_to_json(new_connection.end_user),
        "life": [
            _text(new_connection.life.dies_at),
            _text(new_connection.life.keep_alive_at),
            new_connection.life.settled,
        ],
        "account": [new_connection.account.id, new_connection.account.label],
        "ended": None
        if new_connection.ended is None
        else {
            **asdict(new_connection.ended),
            "at": _text(new_connection.ended.at),
            "retry_at": _text(new_connection.ended.retry_at),
        },
    }


def new_from_json(ref: ConnectionRef, stored_json: Mapping[str, Any]) -> NewConnection:
    dies_at, keep_alive_at, settled = stored_json["life"]
    ended = stored_json["ended"]
    return NewConnection(
        ref=ref,
        **{name: stored_json[name] for name in PLAIN_FIELDS},
        expires_at=_time(stored_json["expires_at"]),
        integration_uid=stored_json.get("integration_uid"),  # rows of earlier versions do not have this member
        end_user=end_user_from_json(stored_json["end_user"]),
        life=Lifespan(_time(dies_at), _time(keep_alive_at), settled),
        account=Account(*stored_json["account"]),
        ended=None
        if ended is None
        else RefreshFailure(**{**ended, "at": _time(ended["at"]), "retry_at": _time(ended["retry_at"])}),
    )


def _plain_dict(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


ROWS_PER_QUERY: Final = 100
Check = Callable[[Connection | None], None]


class PendingStore:
    """Pending connections.

    Each change is one transaction. So a connection is either pending or stored, never both or neither.
    """

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys, connections: ConnectionStore) -> None:
        self._transactions = transactions
        self._vault = vault
        self._keys = keys
        self._connections = connections

    async def add(
        self, new_connection: NewConnection, terms: SessionTerms, *, expires_at: datetime, reconnects: bool
    ) -> tuple[PendingConnection, list[PendingConnection]]:
        """Seal and store `new_connection`, and count the connection for its session.

        Returns the pending connection, and the replaced pending connections with the same session and reference. Raises
        Forbidden, and stores nothing, if the session has already created its maximum of connections, or if it is bound
        to another browser.
        """
        assert terms.code_challenge is not None
        row = {
            "uid": uuid.uuid4().hex,
            **new_connection.ref._asdict(),
            "session_digest": terms.session_digest,
            "code_challenge": terms.code_challenge,
            "expires_at": expires_at,
        }
        table = pending_connections.c
        same_connection = and_(
            table.session_digest == terms.session_digest,
            table.integration_id == new_connection.ref.integration_id,
            table.connection_id == new_connection.ref.connection_id,
            table.sealed.is_not(None),
        )

        async def write(db: AsyncConnection) -> list[RowMapping]:
            content = {"new": new_to_json(new_connection), "reconnects": reconnects}
            sealed = self._vault.seal_json(content, **_seal_place(new_connection.ref.environment, row["uid"]))
            replaced_rows = [
                *(await db.execute(select(pending_connections).where(same_connection).with_for_update())).mappings()
            ]
            if replaced_rows:
                await db.execute(delete(pending_connections).where(same_connection))
            if not replaced_rows or terms.browser_digest is not None:
                await count_connection(db, terms, replaces=bool(replaced_rows))
            await db.execute(insert(pending_connections).values(row | {"sealed": sealed.ciphertext}))
            return replaced_rows

        replaced_rows = await self._transactions.write(
            write, before=lambda: self._keys.allow(new_connection.ref.environment)
        )
        stored = PendingConnection(
            uid=row["uid"],
            ref=new_connection.ref,
            session_digest=terms.session_digest,
            code_challenge=terms.code_challenge,
            expires_at=expires_at,
            new=new_connection,
            reconnects=reconnects,
        )
        return stored, [pending for row in replaced_rows if (pending := await self._decrypt_or_none(row)) is not None]

    async def find_by_session(self, session_digest: str, *, now: datetime) -> list[PendingConnection]:
        """Return the session's pending connections, including those that were completed recently.

        A connection that cannot be opened is not returned.
        """
        is_live = pending_connections.c.session_digest == session_digest, pending_connections.c.expires_at > now
        query = select(pending_connections).where(*is_live).order_by(pending_connections.c.expires_at)
        async with self._transactions.read() as db:
            rows = (await db.execute(query)).mappings().all()
        return [pending for row in rows if (pending := await self._decrypt_or_none(row)) is not None]

    async def complete(
        self, pending: PendingConnection, *, now: datetime, check: Check
    ) -> tuple[Connection, bool] | None:
        """Store the connection, which is then no longer pending. Return the connection, and whether it was created.

        Returns None if the connection is no longer pending, because it was completed or has expired. `check`: called
        with the connection that is now stored under the same reference, or with None. `check` raises an error to
        refuse; the connection then stays pending.
        """
        new_connection, table = pending.new, pending_connections.c
        assert new_connection is not None
        is_pending = table.uid == pending.uid, table.sealed.is_not(None), table.expires_at > now
        entry = connection_audit_entry(AuditAction.CONNECTION_CREATED, pending.ref, now)

        async def write(db: AsyncConnection) -> tuple[Connection, bool] | None:
            completion_update = update(pending_connections).where(*is_pending).values(sealed=None)
            if (await db.execute(completion_update)).rowcount != 1:
                return None
            existing_row = (
                (await db.execute(SELECT_ROW.with_for_update(), ref_parameters(pending.ref))).mappings().first()
            )
            check(None if existing_row is None else connection_of(existing_row))
            digest = pending.session_digest
            return await self._connections.put_within(db, new_connection, now=now, entry=entry, session_digest=digest)

        return await self._transactions.write(write, before=lambda: self._keys.allow(pending.ref.environment))

    async def refuse_verifier(self, session_digest: str, *, limit: int) -> list[PendingConnection]:
        """Count a wrong verifier.

        If the count reaches `limit`, remove and return the session's pending connections.
        """
        table = pending_connections.c
        condition = table.session_digest == session_digest, table.sealed.is_not(None)

        async def write(db: AsyncConnection) -> list[RowMapping]:
            count_update = update(pending_connections).where(*condition)
            await db.execute(count_update.values(wrong_verifiers=table.wrong_verifiers + 1))
            refused_rows = [
                *(
                    await db.execute(select(pending_connections).where(*condition, table.wrong_verifiers >= limit))
                ).mappings()
            ]
            return [row for row in refused_rows if await _remove(db, row)]

        rows = await self._transactions.write(write)
        return [pending for row in rows if (pending := await self._decrypt_or_none(row)) is not None]

    async def drop(self, pending: PendingConnection) -> bool:
        """Remove a pending connection. Return False if the connection is not pending."""
        condition = pending_connections.c.uid == pending.uid, pending_connections.c.sealed.is_not(None)

        async def write(db: AsyncConnection) -> bool:
            row = (await db.execute(select(pending_connections).where(*condition))).mappings().first()
            return row is not None and await _remove(db, row)

        return await self._transactions.write(write)

    async def expire(self, now: datetime) -> AsyncGenerator[PendingConnection, None]:
        """Remove the expired rows, the oldest first. Yield each removed connection that was not completed, before the
        next row is removed: an error must not hide a connection that is already removed.

        If several nodes do this at the same time, each connection is yielded on only one node.
        """
        has_expired = pending_connections.c.expires_at <= now
        oldest = (
            select(pending_connections)
            .where(has_expired)
            .order_by(pending_connections.c.expires_at)
            .limit(ROWS_PER_QUERY)
        )
        while True:
            async with self._transactions.read() as db:
                rows = (await db.execute(oldest)).mappings().all()
            for row in rows:
                was_removed = await self._transactions.write(partial(_remove, row=row))
                if (
                    was_removed
                    and row["sealed"] is not None
                    and (pending := await self._decrypt_or_none(row)) is not None
                ):
                    yield pending
            if len(rows) < ROWS_PER_QUERY:
                return

    async def _decrypt_or_none(self, row: RowMapping) -> PendingConnection | None:
        content: dict[str, Any] = {}
        ref = ConnectionRef(row["environment"], row["integration_id"], row["connection_id"])
        if row["sealed"] is not None:
            sealed = Sealed(row["sealed"], **_seal_place(row["environment"], row["uid"]))
            try:
                await self._keys.load_keys_of(sealed)
                content = self._vault.open_json(sealed)
            except (VaultError, GatewayError):
                return None
        return PendingConnection(
            uid=row["uid"],
            ref=ref,
            session_digest=row["session_digest"],
            code_challenge=row["code_challenge"],
            expires_at=row["expires_at"],
            new=new_from_json(ref, content["new"]) if content else None,
            reconnects=content.get("reconnects", False),
        )


async def _remove(db: AsyncConnection, row: RowMapping) -> bool:
    """Remove the row of a pending connection. Also decrement the session's count if the connection was not completed.

    Returns False if another process has removed the row.
    """
    is_unchanged = pending_connections.c.uid == row["uid"], pending_connections.c.sealed.is_not(None)
    if row["sealed"] is None:
        is_unchanged = pending_connections.c.uid == row["uid"], pending_connections.c.sealed.is_(None)
    was_removed = (await db.execute(delete(pending_connections).where(*is_unchanged))).rowcount == 1
    if was_removed and row["sealed"] is not None:
        await uncount_connection(db, row["session_digest"])
    return was_removed


def _seal_place(environment: str, uid: str) -> dict[str, Any]:
    """Return the place that the ciphertext of a pending connection is bound to."""
    return {"environment": environment, "table": "pending_connections", "row": uid, "column": "sealed", "version": 1}
