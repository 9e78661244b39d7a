"""Data keys: one that seals in each environment, wrapped in the database, counted, and replaced before it wears out."""

import asyncio
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection as SyncConnection
from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.records.connection import Sealed
from gateway.store.tables import data_keys, environments
from gateway.store.transactions import Transactions
from gateway.store.upsert import insert_if_absent
from gateway.vault import Keyring, Vault, WrappedKey

SEALS_PER_KEY: Final = 2**32 - 1  # NIST SP 800-38D §8.3: with random nonces, fewer than 2^32 under one key
SEALS_RESERVED: Final = 2**16  # taken at once, so that counting costs a write only now and then
SEALS_A_TURN: Final = 16  # more than any one transaction seals

STORED: Final = select(
    data_keys.c.id, data_keys.c.environment, data_keys.c.master_key_id, data_keys.c.wrapped
).order_by(data_keys.c.number)


def stored_keys(db: SyncConnection) -> list[WrappedKey]:
    """All data keys, oldest first."""
    return [WrappedKey(*row) for row in db.execute(STORED)]


class DataKeys:
    """Keeps `vault` supplied: with the keys other processes made, and with leave to seal."""

    def __init__(
        self,
        transactions: Transactions,
        keyring: Keyring,
        vault: Vault,
        *,
        seals_per_key: int = SEALS_PER_KEY,
        reserved: int = SEALS_RESERVED,
    ) -> None:
        self._transactions = transactions
        self._keyring = keyring
        self._vault = vault
        self._allowing = asyncio.Lock()
        self._seals_per_key = seals_per_key
        self._reserved = reserved

    async def load(self) -> None:
        """Hand every stored data key to the vault; the newest of an environment seals."""
        async with self._transactions.read() as db:
            for stored in await db.run_sync(stored_keys):
                self._vault.take(stored.id, stored.environment, self._keyring.unwrap(stored))

    async def ensure(self, names: Sequence[str]) -> None:
        """Make the environments `names`, each with a data key. Two processes that start at once make one of each."""

        async def make(db: AsyncConnection) -> None:
            for name in names:
                row = {"name": name, "created_at": clock.now()}
                await insert_if_absent(db, environments, row, key=["name"])
                present = select(data_keys.c.id).where(data_keys.c.environment == name).limit(1)
                if (await db.execute(present)).first() is None:
                    await self._make(db, name)

        if any(self._vault.sealing_key(name) is None for name in names):
            await self._transactions.write(make)
            await self.load()

    @property
    def enough(self) -> int:
        """What all transactions that may run at once seal at most."""
        return SEALS_A_TURN * self._transactions.writes_at_once

    async def allow(self, environment: str) -> None:
        """See to it that one transaction's worth of values may be sealed in `environment`, beside those under way."""
        async with self._allowing:
            await self._allow(environment)

    async def _allow(self, environment: str) -> None:
        key = self._vault.sealing_key(environment)
        if key is None or key.allowance >= self.enough:
            return
        if await self._transactions.begin(lambda db: self._reserve(db, key.id)):
            key.allowance += self._reserved
            return
        await self.load()  # another process may have replaced it already
        newest = self._vault.sealing_key(environment)
        if newest is None or newest.id == key.id:
            await self._transactions.begin(lambda db: self._make(db, environment))
            await self.load()
        await self._allow(environment)

    async def learn(self, *sealed: Sealed) -> None:
        """See to it that these can be opened, where another process has sealed them under a key it just made."""
        if not all(map(self._vault.knows, sealed)):
            await self.load()

    async def _reserve(self, db: AsyncConnection, key_id: str) -> bool:
        more = data_keys.c.seals_reserved + self._reserved
        taken = update(data_keys).where(data_keys.c.id == key_id, more <= self._seals_per_key)
        return (await db.execute(taken.values(seals_reserved=more))).rowcount == 1

    async def _make(self, db: AsyncConnection, environment: str) -> None:
        wrapped, _ = self._keyring.new_data_key(environment)
        await db.execute(
            insert(data_keys).values(
                id=wrapped.id,
                environment=environment,
                master_key_id=wrapped.master_key_id,
                wrapped=wrapped.wrapped,
                seals_reserved=0,
                created_at=clock.now(),
            )
        )
