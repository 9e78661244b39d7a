"""Writes a record in the transaction of the change that it describes.

A record names an end user only by a keyed digest. A new record is not in the chain yet. Otherwise every change, on any
node, would have to wait for the previous change. `AuditRecords.append_to_chain` later moves committed records into the
chain.
"""

import asyncio
import hashlib
import hmac
import secrets
from dataclasses import replace
from typing import Final

from sqlalchemy import bindparam, delete, exists, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.audit import AuditEntry
from gateway.records.connection import ConnectionRef
from gateway.store.tables import audit_pending, audit_persons, connections
from gateway.store.transactions import Transactions, insert_if_absent

SECRET_BYTES: Final = 32
DIGEST_CHARACTERS: Final = 32
INSERT_PENDING: Final = insert(audit_pending)
_SECRET: Final = select(audit_persons.c.secret).where(
    audit_persons.c.environment == bindparam("environment_"), audit_persons.c.end_user_id == bindparam("end_user_id_")
)


class AuditTrail:
    """Writes audit records.

    `all_refreshes`: whether to record every refresh; if false, only refreshes that change a connection's state.
    `record_written`: set whenever this process has written a record, for the task that moves records into the chain.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self.all_refreshes = False
        self.record_written = asyncio.Event()

    async def record(self, db: AsyncConnection, entry: AuditEntry, *, end_user_id: str | None = None) -> None:
        """Write `entry` in the caller's transaction.

        `end_user_id`: the id of the end user concerned, stored as a keyed digest; None without an end user.
        """
        if end_user_id:
            entry = replace(entry, end_user=await self._digest(db, entry.environment, end_user_id))
        await db.execute(INSERT_PENDING, {"body": entry.body()})
        self.record_written.set()

    def entry_if_all_recorded(self, entry: AuditEntry) -> AuditEntry | None:
        """Return `entry` if every refresh is recorded, else None. The statement of the caller writes the entry."""
        if not self.all_refreshes:
            return None
        self.record_written.set()
        return entry

    async def record_refresh(self, db: AsyncConnection, entry: AuditEntry, *, state_changed: bool) -> None:
        """Record a refresh. A refresh that changed no state (`state_changed` false) is recorded only with `all_refreshes`."""
        if state_changed or self.all_refreshes:
            await self.record(db, entry)

    async def write(self, *entries: AuditEntry, end_user_ids: tuple[str | None, ...] = ()) -> None:
        """Record entries in a transaction of their own, for actions that change nothing else in the store.

        `end_user_ids`: the end user of each entry; empty if no entry has an end user. Raises Unavailable.
        """

        async def work(db: AsyncConnection) -> None:
            for index, entry in enumerate(entries):
                await self.record(db, entry, end_user_id=end_user_ids[index] if end_user_ids else None)

        if entries:
            await self._transactions.write(work)

    async def forget_after_last_connection(
        self, db: AsyncConnection, ref: ConnectionRef, end_user_id: str | None
    ) -> None:
        """Forget the end user if `ref` was the last connection of this end user.

        Runs in the transaction that deletes `ref` or gives it another end user.
        """
        if not end_user_id:
            return
        other_connections = exists().where(
            connections.c.environment == ref.environment,
            connections.c.end_user_id == end_user_id,
        )
        of_end_user = (audit_persons.c.environment == ref.environment, audit_persons.c.end_user_id == end_user_id)
        await db.execute(delete(audit_persons).where(*of_end_user, ~other_connections))

    async def forget(self, environment: str, end_user_id: str, entry: AuditEntry) -> bool:
        """Delete the end user's secret, and write `entry` with the user's digest. Return False if no secret exists."""
        of_end_user = (audit_persons.c.environment == environment, audit_persons.c.end_user_id == end_user_id)

        async def work(db: AsyncConnection) -> bool:
            digest = await self.known_digest(db, environment, end_user_id)
            if digest is None:
                return False
            await db.execute(delete(audit_persons).where(*of_end_user))
            await self.record(db, replace(entry, end_user=digest))
            return True

        return await self._transactions.write(work)

    async def known_digest(self, db: AsyncConnection, environment: str, end_user_id: str) -> str | None:
        """Return the digest that records use for this end user.

        None if no record names the end user, or if the end user's secret was deleted.
        """
        secret = await _secret(db, environment, end_user_id)
        return None if secret is None else digest_of(secret, environment, end_user_id)

    async def _digest(self, db: AsyncConnection, environment: str, end_user_id: str) -> str:
        secret = await _secret(db, environment, end_user_id)
        if secret is None:
            row = {
                "environment": environment,
                "end_user_id": end_user_id,
                "secret": secrets.token_hex(SECRET_BYTES),
            }
            await insert_if_absent(db, audit_persons, row, key=["environment", "end_user_id"])
            secret = await _secret(db, environment, end_user_id) or row["secret"]
        return digest_of(secret, environment, end_user_id)


def digest_of(secret: str, environment: str, end_user_id: str) -> str:
    """Return the HMAC-SHA-256 of the end user's id, cut to 128 bits. The HMAC's key is the end user's secret.

    Without the secret, the digest identifies nobody.
    """
    message = f"{environment}\0{end_user_id}".encode()
    return hmac.new(bytes.fromhex(secret), message, hashlib.sha256).hexdigest()[:DIGEST_CHARACTERS]


async def _secret(db: AsyncConnection, environment: str, end_user_id: str) -> str | None:
    secret: str | None = (
        await db.execute(_SECRET, {"environment_": environment, "end_user_id_": end_user_id})
    ).scalar()
    return secret
