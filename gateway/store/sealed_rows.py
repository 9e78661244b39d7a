"""What `ConnectionStore` and `RefreshStore` have in common: rows of connections, whose secrets are sealed where they lie."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import RowMapping, Update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connection import Connection, ConnectionRef
from gateway.store.connection_rows import connection_of, sealed_in
from gateway.store.data_keys import DataKeys
from gateway.store.transactions import Transactions
from gateway.vault import Vault


class SealedRows:
    """`keys` has the data key of every row that was returned, so that `Store.open` opens it without a question."""

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys) -> None:
        self.transactions = transactions
        self.vault = vault
        self.keys = keys

    async def records(self, rows: Iterable[RowMapping]) -> list[Connection]:
        """Rows as connections."""
        found = [connection_of(row) for row in rows]
        await self.learn(found)
        return found

    async def learn(self, found: Iterable[Connection]) -> None:
        """Have the data keys of these."""
        await self.keys.learn(*(sealed for one in found for sealed in sealed_in(one)))

    def seal(self, value: Mapping[str, Any], ref: ConnectionRef, uid: str, column: str, version: int) -> bytes:
        """The ciphertext of `value`, bound to this column of this version of the row."""
        sealed = self.vault.seal_json(
            value, environment=ref.environment, table="connections", row=uid, column=column, version=version
        )
        return sealed.ciphertext

    async def update(self, statement: Update) -> bool:
        """Whether it changed one row."""

        async def write(db: AsyncConnection) -> bool:
            return (await db.execute(statement)).rowcount == 1

        return await self.transactions.write(write)
