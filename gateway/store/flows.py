"""Authorizations under way, kept by the digest of `state`; each is used once (RFC 9700 §4.7)."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import RowMapping, and_, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connecting import Flow, NewFlow
from gateway.records.connection import Sealed
from gateway.store.data_keys import DataKeys
from gateway.store.tables import flows
from gateway.store.transactions import Transactions
from gateway.vault import Vault

COLUMNS: Final = tuple(column.name for column in flows.columns)


class FlowStore:
    """`details` (the PKCE verifier among them) are sealed on the way in and stay so on the way out."""

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys) -> None:
        self._transactions = transactions
        self._vault = vault
        self._keys = keys

    async def add(self, new: NewFlow) -> Flow:
        """Seal and store a flow."""

        async def write(db: AsyncConnection) -> Flow:
            address = _address(new.environment, new.state_digest)
            row: dict[str, Any] = {name: getattr(new, name) for name in COLUMNS if name != "details"}
            details = self._vault.seal_json(new.details, **address)
            await db.execute(insert(flows).values(row | {"details": details.ciphertext}))
            return Flow(**row, details=details)

        return await self._transactions.write(write, before=lambda: self._keys.allow(new.environment))

    async def get(self, state_digest: str, *, now: datetime) -> Flow | None:
        """The flow whose state has this digest, unless it was used or has expired."""
        async with self._transactions.read() as db:
            row = (await db.execute(select(flows).where(_alive(state_digest, now)))).mappings().first()
        return None if row is None else await self._flow(row)

    async def consume(self, state_digest: str, *, now: datetime) -> Flow | None:
        """The same, for the last time: however many ask at once, exactly one caller gets it."""

        async def take(db: AsyncConnection) -> RowMapping | None:
            row = (await db.execute(select(flows).where(_alive(state_digest, now)))).mappings().first()
            removed = await db.execute(delete(flows).where(_alive(state_digest, now)))
            return row if removed.rowcount == 1 else None

        row = await self._transactions.write(take)
        return None if row is None else await self._flow(row)

    async def prune(self, now: datetime) -> None:
        await self._transactions.write(lambda db: db.execute(delete(flows).where(flows.c.expires_at <= now)))

    async def _flow(self, row: RowMapping) -> Flow:
        fields = dict(row)
        details = Sealed(fields.pop("details"), **_address(row["environment"], row["state_digest"]))
        await self._keys.learn(details)
        return Flow(**fields, details=details)


def _address(environment: str, state_digest: str) -> dict[str, Any]:
    return {"environment": environment, "table": "flows", "row": state_digest, "column": "details", "version": 1}


def _alive(state_digest: str, now: datetime) -> Any:
    return and_(flows.c.state_digest == state_digest, flows.c.expires_at > now)
