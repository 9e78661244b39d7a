"""The keys that sign events, for environments without one in the configuration: minted once, sealed, rotated with
overlap."""

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
    """A key that signs events. `retires_at` None: it is the current key."""

    key: Secret
    created_at: datetime
    retires_at: datetime | None = None


class SigningKeyStore:
    """The signing keys. They are numbered, so that two processes that create a key at the same time create one key."""

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys, trail: AuditTrail) -> None:
        self._transactions = transactions
        self._trail = trail
        self._vault = vault
        self._keys = keys

    async def of(self, environment: str, *, now: datetime) -> list[EventSigningKey]:
        """Return the keys that sign now, the current one first; an empty list if none exists yet."""
        table = signing_keys.c
        alive = or_(table.retires_at.is_(None), table.retires_at > now)
        wanted = select(signing_keys).where(table.environment == environment, alive).order_by(table.number.desc())
        async with self._transactions.read() as db:
            rows = (await db.execute(wanted)).all()
        sealed = [Sealed(row.key, **_place(environment, row.uid)) for row in rows]
        await self._keys.learn(*sealed)
        opened = [Secret(self._vault.open_json(one)["key"]) for one in sealed]
        return [EventSigningKey(key, row.created_at, row.retires_at) for key, row in zip(opened, rows, strict=True)]

    async def ensure(self, environment: str, mint: Callable[[], Secret], *, now: datetime) -> list[EventSigningKey]:
        """Create the first key if there is none. Returns the keys as `of` does."""
        found = await self.of(environment, now=now)
        if not found:
            await self._write(environment, lambda db: self._add(db, environment, 1, mint(), now))
            found = await self.of(environment, now=now)
        return found

    async def rotate(self, environment: str, key: Secret, *, now: datetime, retires_at: datetime) -> None:
        """Make `key` the current key. The previous key also signs until `retires_at`; older keys are deleted."""
        table = signing_keys.c
        entry = AuditEntry.of(AuditAction.EVENT_KEY_ROTATED, environment, now)

        async def write(db: AsyncConnection) -> None:
            await self._trail.record(db, entry)
            mine = table.environment == environment
            numbers = select(table.number).where(mine).order_by(table.number.desc()).with_for_update()
            last = (await db.execute(numbers)).scalars().first() or 0
            await db.execute(delete(signing_keys).where(mine, table.number < last))
            retiring = update(signing_keys).where(mine, table.number == last)
            await db.execute(retiring.values(retires_at=retires_at))
            if not await self._add(db, environment, last + 1, key, now):
                raise FenceFailed  # another process has just rotated: the transaction runs again

        await self._write(environment, write)

    async def _write(self, environment: str, work: Any) -> None:
        await self._transactions.write(work, before=lambda: self._keys.allow(environment))

    async def _add(self, db: AsyncConnection, environment: str, number: int, key: Secret, now: datetime) -> bool:
        """Insert the key; return False, and insert nothing, if another process has used the number."""
        uid = uuid.uuid4().hex
        sealed = self._vault.seal_json({"key": key.reveal()}, **_place(environment, uid))
        row = {
            "uid": uid,
            "environment": environment,
            "number": number,
            "key": sealed.ciphertext,
            "created_at": now,
        }
        return await insert_if_absent(db, signing_keys, row, key=["environment", "number"])


def _place(environment: str, uid: str) -> dict[str, Any]:
    """Return the place that a key's ciphertext is bound to."""
    return {"environment": environment, "table": "signing_keys", "row": uid, "column": "key", "version": 1}
