"""Connect sessions, kept by their token's digest: the token itself is in no table."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import delete, insert, select

from gateway.records.connecting import ConnectSession
from gateway.store.end_users import end_user_from_json, end_user_to_json
from gateway.store.tables import connect_sessions
from gateway.store.transactions import Transactions

COLUMNS: Final = tuple(column.name for column in connect_sessions.columns)


class SessionStore:
    """Reusable until they expire or are deleted."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def add(self, session: ConnectSession) -> None:
        row = {
            **{name: getattr(session, name) for name in COLUMNS},
            "end_user": end_user_to_json(session.end_user),
            "allowed_integrations": list(session.allowed_integrations),
        }
        await self._transactions.write(lambda db: db.execute(insert(connect_sessions).values(row)))

    async def get(self, digest: str, *, now: datetime) -> ConnectSession | None:
        """The session whose token has this digest, unless it has expired."""
        alive = select(connect_sessions).where(connect_sessions.c.digest == digest, connect_sessions.c.expires_at > now)
        async with self._transactions.read() as db:
            row = (await db.execute(alive)).mappings().first()
        return None if row is None else _session(dict(row))

    async def delete(self, digest: str) -> bool:
        """Whether there was such a session."""
        gone = delete(connect_sessions).where(connect_sessions.c.digest == digest)
        return (await self._transactions.write(lambda db: db.execute(gone))).rowcount == 1

    async def prune(self, now: datetime) -> None:
        expired = delete(connect_sessions).where(connect_sessions.c.expires_at <= now)
        await self._transactions.write(lambda db: db.execute(expired))


def _session(row: dict[str, Any]) -> ConnectSession:
    row["end_user"] = end_user_from_json(row["end_user"])
    row["allowed_integrations"] = tuple(row["allowed_integrations"])
    return ConnectSession(**row)
