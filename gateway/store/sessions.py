"""Connect sessions, kept by their token's digest: the token itself is in no table."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connecting import ConnectSession
from gateway.records.connection import Sealed
from gateway.store.data_keys import DataKeys
from gateway.store.end_users import end_user_from_json, end_user_to_json
from gateway.store.tables import connect_sessions
from gateway.store.transactions import Transactions
from gateway.vault import Vault

COLUMNS: Final = tuple(column.name for column in connect_sessions.columns)


class SessionStore:
    """Reusable until they expire or are deleted. `defaults` may hold secret settings, so they are sealed."""

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys) -> None:
        self._transactions = transactions
        self._vault = vault
        self._keys = keys

    async def add(self, session: ConnectSession) -> None:
        row = {
            **{name: getattr(session, name) for name in COLUMNS},
            "end_user": end_user_to_json(session.end_user),
            "allowed_integrations": list(session.allowed_integrations),
        }

        async def write(db: AsyncConnection) -> None:
            sealed = self._vault.seal_json(session.defaults, **_address(session.environment, session.digest))
            await db.execute(insert(connect_sessions).values(row | {"defaults": sealed.ciphertext}))

        await self._transactions.write(write, before=lambda: self._keys.allow(session.environment))

    async def get(self, digest: str, *, now: datetime) -> ConnectSession | None:
        """The session whose token has this digest, unless it has expired."""
        alive = select(connect_sessions).where(connect_sessions.c.digest == digest, connect_sessions.c.expires_at > now)
        async with self._transactions.read() as db:
            row = (await db.execute(alive)).mappings().first()
        return None if row is None else await self._session(dict(row))

    async def delete(self, digest: str) -> bool:
        """Whether there was such a session."""
        gone = delete(connect_sessions).where(connect_sessions.c.digest == digest)
        return (await self._transactions.write(lambda db: db.execute(gone))).rowcount == 1

    async def prune(self, now: datetime) -> None:
        expired = delete(connect_sessions).where(connect_sessions.c.expires_at <= now)
        await self._transactions.write(lambda db: db.execute(expired))

    async def _session(self, row: dict[str, Any]) -> ConnectSession:
        sealed = Sealed(row["defaults"], **_address(row["environment"], row["digest"]))
        await self._keys.learn(sealed)
        row["defaults"] = self._vault.open_json(sealed)
        row["end_user"] = end_user_from_json(row["end_user"])
        row["allowed_integrations"] = tuple(row["allowed_integrations"])
        return ConnectSession(**row)


def _address(environment: str, digest: str) -> dict[str, Any]:
    return {"environment": environment, "table": "connect_sessions", "row": digest, "column": "defaults", "version": 1}
