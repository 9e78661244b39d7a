"""Data keys: one that seals in each environment, wrapped in the database, counted, and replaced before it wears out."""

import asyncio
from collections.abc import Sequence
from functools import partial
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
from gateway.vault.seal import DataKey

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

    async def load(self) -> dict[str, DataKey]:
        """Hand every stored data key to the vault. Returns the newest of each environment."""
        newest: dict[str, DataKey] = {}
        async with self._transactions.read() as db:
            for stored in await db.run_sync(stored_keys):
                newest[stored.environment] = self._vault.take(
                    stored.id, stored.environment, self._keyring.unwrap(stored)
                )
        return newest

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
        while key is not None and key.allowance < self.enough:
            if await self._transactions.begin(partial(self._reserve, key_id=key.id)):
                key.allowance += self._reserved
                self._vault.seal_with(key)
            else:
                key = await self._after(key)

    async def _after(self, worn: DataKey) -> DataKey | None:
        """The key that seals once `worn` may not: another process may have made it already."""
        newest = (await self.load()).get(worn.environment)
        if newest is None or newest.id == worn.id:
            await self._transactions.begin(partial(self._make, environment=worn.environment))
            newest = (await self.load()).get(worn.environment)
        return newest

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
