"""Data keys: one that seals in each environment, wrapped in the database, counted, and replaced before it wears out."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from sqlalchemy import Connection as SyncConnection
from sqlalchemy import bindparam, exists, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.records.connection import Sealed
from gateway.store.faults import unavailable
from gateway.store.missing_keys import MissingKeys
from gateway.store.tables import data_keys, environments
from gateway.store.transactions import Fence, NotYet, Overtaken, Transactions
from gateway.store.upsert import insert_if_absent
from gateway.store.verdict import judge_keys
from gateway.vault import Keyring, UnknownKey, Vault, WrappedKey
from gateway.vault.seal import KEY_ID, DataKey

SEALS_PER_KEY: Final = 2**32 - 1  # NIST SP 800-38D §8.3: with random nonces, fewer than 2^32 under one key
SEALS_RESERVED: Final = 2**16  # taken at once, so that counting costs a write only now and then
SEALS_A_TURN: Final = 16  # more than any one transaction seals

NEWEST: Final = select(data_keys.c.id).order_by(data_keys.c.number.desc()).limit(1)
HELD: Final = NEWEST.where(data_keys.c.environment == bindparam("of")).with_for_update(read=True, key_share=True)
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
        self.missing = MissingKeys()
        self.locked: frozenset[str] = frozenset()  # data keys that are there and do not open, for want of a master key
        self._transactions = transactions
        self.keyring = keyring
        self._vault = vault
        self._allowing = asyncio.Lock()
        self._holding: WeakKeyDictionary[SyncConnection, set[str]] = WeakKeyDictionary()
        self._seals_per_key = seals_per_key
        self._reserved = reserved

    async def load(self) -> dict[str, DataKey | None]:
        """Hand every stored data key to the vault. Returns the newest of each environment.

        None: it cannot be opened here, since another node has wrapped it under a master key that this one was not given,
        and which is not in the configuration now either. What is sealed under older keys is not to suffer from that.
        """
        newest, missing = await self._load()
        if missing and await self._came(missing):
            newest, missing = await self._load()
            self.missing.tell(missing)
        return newest

    async def _came(self, missing: Sequence[WrappedKey]) -> bool:
        """Whether the configuration was read anew meanwhile, so that it is worth while to look again."""
        came = await self.missing.asked_for({one.master_key_id for one in missing})
        if not came:
            self.missing.tell(missing)
        return came

    async def _load(self) -> tuple[dict[str, DataKey | None], list[WrappedKey]]:
        """And those that do not open for want of their master key."""
        newest: dict[str, DataKey | None] = {}
        missing = []
        async with self._transactions.read() as db:
            found = await db.run_sync(stored_keys)
        for stored in found:
            try:
                key = self.keyring.unwrap(stored)
            except UnknownKey:
                newest[stored.environment] = None
                missing.append(stored)
            else:
                newest[stored.environment] = self._vault.take(stored.id, stored.environment, key)
        self.locked = frozenset(one.id for one in missing)
        return newest, missing

    def is_locked(self, sealed: Sealed) -> bool:
        """Whether its data key is there and lacks its master key."""
        return sealed.ciphertext[KEY_ID].hex() in self.locked

    async def turn_to(self, keyring: Keyring) -> None:
        """Go by other master keys from now on. Raises StoreRefused, and changes nothing, where a data key needs another."""
        async with self._transactions.read() as db:
            judge_keys("The database", await db.run_sync(stored_keys), keyring)
        self.keyring = keyring

    async def ensure(self, names: Sequence[str]) -> None:
        """Make the environments `names`, each with a data key. Two processes that start at once make one of each."""

        async def make(db: AsyncConnection) -> None:
            for name in names:
                row = {"name": name, "created_at": clock.now()}
                await insert_if_absent(db, environments, row, key=["name"])
                present = select(data_keys.c.id).where(data_keys.c.environment == name).limit(1)
                if (await db.execute(present)).first() is None:
                    await self.make(db, name)

        if any(self._vault.sealing_key(name) is None for name in names):
            await self._transactions.write(make)
            _, missing = await self._load()  # asks nobody: a reload that is asked for makes environments itself
            self.missing.tell(missing)

    @property
    def enough(self) -> int:
        """What all transactions that may run at once seal at most."""
        return SEALS_A_TURN * self._transactions.writes_at_once

    async def allow(self, environment: str, *, seals: int = 0) -> Fence:
        """See to it that one transaction's worth of values may be sealed in `environment`, beside those under way.

        `seals`: where it is more than other transactions seal. Returns what such a transaction begins with. Raises
        NotYet where another node has made a key that this one cannot open: in a turn and behind a lock nobody waits for it.
        """
        async with self._allowing:
            await self._allow(environment, self.enough + seals)
        return partial(self._hold, environment, SEALS_A_TURN + seals)

    async def _hold(self, environment: str, seals: int, db: AsyncConnection) -> None:
        """Only the newest key seals, and it stays in its place until `db` has committed. Raises Overtaken.

        So that nothing is sealed under a key that is being replaced once everything under it was counted (ADR 22). Of
        several writes with one commit the first holds it for the others, and each looks whether leave for it is left.
        """
        key = self._vault.sealing_key(environment)
        if key is not None and key.allowance < seals:
            raise Overtaken
        holding = self._holding.setdefault(_connection(db), set())
        if environment in holding:
            return
        newest = (await db.execute(HELD, {"of": environment})).scalar_one_or_none()
        if key is not None and key.id != newest:
            key.replaced = True
            raise Overtaken
        holding.add(environment)

    async def _allow(self, environment: str, enough: int) -> None:
        key = self._vault.sealing_key(environment)
        while key is not None and (key.replaced or key.allowance < enough):
            if await self._transactions.begin(partial(self._reserve, key_id=key.id)):
                key.replaced = False  # by one that was seen and then not committed
                key.allowance += self._reserved
                self._vault.seal_with(key)
            else:
                key = await self._after(key)

    async def _after(self, worn: DataKey) -> DataKey:
        """The key that seals once `worn` may not: another process may have made it already."""
        newest = await self._newest(worn.environment)
        if newest.id == worn.id:
            await self._transactions.begin(partial(self.make, environment=worn.environment))
            newest = await self._newest(worn.environment)
        return newest

    async def _newest(self, environment: str) -> DataKey:
        found, missing = await self._load()
        newest = found.get(environment)
        if newest is None:
            refusal = unavailable("its newest data key is under an encryption key that this node was not given")
            raise NotYet(refusal, partial(self._came, missing))
        return newest

    async def learn(self, *sealed: Sealed) -> None:
        """See to it that these can be opened, where another process has sealed them under a key it just made."""
        if not all(map(self._vault.knows, sealed)):
            await self.load()

    async def _reserve(self, db: AsyncConnection, key_id: str) -> bool:
        """False: it has sealed its share, or is no longer the newest of its environment."""
        more = data_keys.c.seals_reserved + self._reserved
        newer = data_keys.alias("newer")
        replaced = exists().where(newer.c.environment == data_keys.c.environment, newer.c.number > data_keys.c.number)
        taken = update(data_keys).where(data_keys.c.id == key_id, more <= self._seals_per_key, ~replaced)
        return (await db.execute(taken.values(seals_reserved=more))).rowcount == 1

    async def make(self, db: AsyncConnection, environment: str) -> None:
        """A new key for `environment`, wrapped under the first master key; whoever seals next takes it."""
        self._holding.pop(_connection(db), None)
        wrapped, _ = self.keyring.new_data_key(environment)
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


def _connection(db: AsyncConnection) -> SyncConnection:
    """One for each transaction."""
    found = db.sync_connection
    assert found is not None, "a transaction has a connection"
    return found
