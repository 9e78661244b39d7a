"""The keys that sign events, for environments without a signing key in the configuration.

The gateway creates such a key, stores it sealed, and rotates it. After a rotation, the replaced key also signs for some
time.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.audit import AuditAction, AuditEntry
from gateway.records.connection import Sealed
from gateway.secret import Secret
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.data_keys import DataKeys
from gateway.store.tables import signing_keys
from gateway.store.transactions import FenceFailed, Transactions, insert_if_absent
from gateway.vault import Vault


@dataclass(frozen=True, slots=True)
class EventSigningKey:
    """A key that signs events. `retires_at`: when the key stops signing; None for the current key."""

    key: Secret
    created_at: datetime
    retires_at: datetime | None = None


class SigningKeyStore:
    """The signing keys of all environments.

    Each key has a number. If two processes create a key at the same time, both use the same number. So only one of the
    keys is stored.
    """

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys, trail: AuditTrail) -> None:
        self._transactions = transactions
        self._trail = trail
        self._vault = vault
        self._keys = keys

    async def active_keys(self, environment: str, *, now: datetime) -> list[EventSigningKey]:
        """Return the keys that sign at `now`, the current key first. Empty if no key exists yet."""
        table = signing_keys.c
        is_active = or_(table.retires_at.is_(None), table.retires_at > now)
        query = select(signing_keys).where(table.environment == environment, is_active).order_by(table.number.desc())
        async with self._transactions.read() as db:
            rows = (await db.execute(query)).all()
        sealed = [Sealed(row.key, **_seal_place(environment, row.uid)) for row in rows]
        await self._keys.load_keys_of(*sealed)
        opened = [Secret(self._vault.open_json(value)["key"]) for value in sealed]
        return [EventSigningKey(key, row.created_at, row.retires_at) for key, row in zip(opened, rows, strict=True)]

    async def ensure(self, environment: str, new_key: Callable[[], Secret], *, now: datetime) -> list[EventSigningKey]:
        """Create the first key if there is none. Return the keys that sign at `now`, the current key first."""
        keys = await self.active_keys(environment, now=now)
        if not keys:
            await self._write(environment, lambda db: self._add(db, environment, 1, new_key(), now))
            keys = await self.active_keys(environment, now=now)
        return keys

    async def rotate(self, environment: str, key: Secret, *, now: datetime, retires_at: datetime) -> None:
        """Make `key` the current key. The replaced key also signs until `retires_at`. All older keys are deleted."""
        table = signing_keys.c
        entry = AuditEntry.of(AuditAction.EVENT_KEY_ROTATED, environment, now)

        async def write(db: AsyncConnection) -> None:
            await self._trail.record(db, entry)
            in_environment = table.environment == environment
            numbers_query = select(table.number).where(in_environment).order_by(table.number.desc()).with_for_update()
            last_number = (await db.execute(numbers_query)).scalars().first() or 0
            await db.execute(delete(signing_keys).where(in_environment, table.number < last_number))
            retirement_update = update(signing_keys).where(in_environment, table.number == last_number)
            await db.execute(retirement_update.values(retires_at=retires_at))
            if not await self._add(db, environment, last_number + 1, key, now):
                raise FenceFailed  # another process has just rotated, so the transaction runs again

        await self._write(environment, write)

    async def _write(self, environment: str, work: Any) -> None:
        await self._transactions.write(work, before=lambda: self._keys.allow(environment))

    async def _add(self, db: AsyncConnection, environment: str, number: int, key: Secret, now: datetime) -> bool:
        """Insert `key` with the number `number`. Return False, and insert nothing, if another process has used the number."""
        uid = uuid.uuid4().hex
        sealed = self._vault.seal_json({"key": key.reveal()}, **_seal_place(environment, uid))
        row = {
            "uid": uid,
            "environment": environment,
            "number": number,
            "key": sealed.ciphertext,
            "created_at": now,
        }
        return await insert_if_absent(db, signing_keys, row, key=["environment", "number"])


def _seal_place(environment: str, uid: str) -> dict[str, Any]:
    """Return the place that the ciphertext of a key is bound to."""
    return {"environment": environment, "table": "signing_keys", "row": uid, "column": "key", "version": 1}
