"""Data keys: each environment has one that seals. Loads, counts and replaces them; handles missing master keys."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

import structlog
from sqlalchemy import Connection as SyncConnection
from sqlalchemy import Text, bindparam, exists, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.errors import CredentialUnreadable
from gateway.pauses import Pauses
from gateway.records.connection import Sealed
from gateway.store.database_faults import unavailable
from gateway.store.preflight_checks import check_keys
from gateway.store.tables import data_keys, environments
from gateway.store.transactions import Fence, FenceFailed, MissingMasterKey, Transactions, insert_if_absent
from gateway.vault import Keyring, UnknownKey, Vault, WrappedKey
from gateway.vault.seal import KEY_ID, DataKey

# ── A missing master key: the operator may have added it to the configuration without reloading this process.
#
# So the configuration is read again, once for all requests that need the key, and with growing pauses while the key
# stays missing.

RESPONSE_S: Final = 3.0  # requests wait this long for the reload, which usually takes less than a second
LOGGED_EVERY_S: Final = 60.0  # at most one line for each data key or place, for any number of requests

log = structlog.get_logger(__name__)


class MissingKeys:
    """Requests a reload of the configuration when master keys are missing.

    `ask` starts the reload, and `reload_finished` is called when it is done. `ask` None: this process cannot reload.
    """

    def __init__(self) -> None:
        self.ask: Callable[[Collection[str]], None] | None = None
        self._response: asyncio.Future[None] | None = None
        self._overdue_at = 0.0  # when the reload is overdue (monotonic)
        self._pauses = Pauses()
        self._logged_at: dict[str, float] = {}  # data key id ▸ when (monotonic)

    def report(self, locked: Iterable[WrappedKey]) -> None:
        """Log which data keys cannot be opened because their master key is missing."""
        now = clock.monotonic()
        for one in locked:
            if now < self._logged_at.get(one.id, -math.inf) + LOGGED_EVERY_S:
                continue
            self._logged_at[one.id] = now
            detail = f"Data key {one.id} needs master key {one.master_key_id}, which is not in store.encryption_keys."
            log.error("data_key_unusable", detail=detail, fix="add that key to store.encryption_keys; reload")

    async def request_reload(self, ids: Collection[str]) -> bool:
        """Request a reload of the configuration for these missing master keys, by id; return whether it was reloaded.

        Waits at most `RESPONSE_S`. Returns False immediately if a recent reload did not bring the keys.
        """
        if self._response is not None and clock.monotonic() < self._overdue_at:
            response: asyncio.Future[None] | None = self._response
        else:
            response = self._begin_reload(ids)
        if response is None:
            return False
        done, _ = await asyncio.wait({response}, timeout=RESPONSE_S)
        return bool(done)

    def reload_finished(self) -> None:
        """Wake the waiting calls: the configuration was read again, with or without the key."""
        if self._response is not None and not self._response.done():
            self._response.set_result(None)
        self._response = None

    def _begin_reload(self, ids: Collection[str]) -> "asyncio.Future[None] | None":
        due = self._pauses.due(ids) if self.ask is not None else []
        if self.ask is None or not due:
            return None
        log.warning("encryption_key_missing", key_ids=due, effect="the configuration is read again")
        # The notice of an overdue reload may be lost, so it is requested again. The first notice wakes all waiting
        # calls.
        response = self._response = self._response or asyncio.get_running_loop().create_future()
        self._overdue_at = clock.monotonic() + RESPONSE_S
        self.ask(due)
        return response


# ── Stored secrets that cannot be opened although their key is known: counted, and logged with their place.

MOST_PLACES: Final = 1000  # places remembered, to log each at most once a minute
FIX: Final = "restore a backup (gateway restore), or let the end user authorize again"


class UnreadableSecrets:
    """Counts and logs unreadable secrets. `counts`: how many, by environment and table."""

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, str]]()
        self._logged: dict[tuple[str, str, str], float] = {}  # table, row, column ▸ when (monotonic)

    def record(self, sealed: Sealed) -> None:
        """Count and log `sealed`, which was changed, moved, or names a data key that does not exist."""
        self.counts[sealed.environment, sealed.table] += 1
        place, now = (sealed.table, sealed.row, sealed.column), clock.monotonic()
        if place in self._logged and now - self._logged[place] < LOGGED_EVERY_S:
            return
        if len(self._logged) >= MOST_PLACES:
            self._logged.clear()
        self._logged[place] = now
        whose = {"integration": sealed.of.integration_id, "connection_id": sealed.of.connection_id} if sealed.of else {}
        log.error(
            "stored_secret_unreadable",
            environment=sealed.environment,
            **whose,
            table=sealed.table,
            row=sealed.row,
            column=sealed.column,
            detail="it was changed, moved or damaged since it was stored",
            fix=FIX,
        )


def unreadable(sealed: Sealed) -> CredentialUnreadable:
    """Return the error for a caller."""
    place = f"{sealed.table}.{sealed.column}"
    whose = f" of connection '{sealed.of.connection_id}'" if sealed.of else ""
    payload = {"environment": sealed.environment, "table": sealed.table, "column": sealed.column}
    if sealed.of is not None:
        payload |= {"provider_config_key": sealed.of.integration_id, "connection_id": sealed.of.connection_id}
    return CredentialUnreadable(
        "credential_unreadable",
        f"The secret stored in {place}{whose} was changed or damaged and cannot be opened. Restore a backup with "
        "`gateway restore`, or let the end user authorize again.",
        payload=payload,
    )


SEALS_PER_KEY: Final = 2**32 - 1  # NIST SP 800-38D §8.3: with random nonces, fewer than 2^32 under one key
SEALS_RESERVED: Final = 2**16  # reserved together, so that counting rarely needs a write
SEALS_A_TURN: Final = 16  # an upper bound on the values that one transaction seals

NEWEST: Final = select(data_keys.c.id).order_by(data_keys.c.number.desc()).limit(1)
HELD: Final = NEWEST.where(data_keys.c.environment == bindparam("of")).with_for_update(read=True, key_share=True)
STILL_NEWEST: Final = HELD.scalar_subquery() == bindparam("sealing_key", type_=Text)
"""The check of `_hold` as a condition, for a statement that is its own transaction. `newest_key` returns its
parameters."""
STORED: Final = select(
    data_keys.c.id, data_keys.c.environment, data_keys.c.master_key_id, data_keys.c.wrapped
).order_by(data_keys.c.number)


def stored_keys(db: SyncConnection) -> list[WrappedKey]:
    """Return all data keys, oldest first."""
    return [WrappedKey(*row) for row in db.execute(STORED)]


class DataKeys:
    """Supplies `vault` with data keys, including those that other processes create, and with allowances to seal."""

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
        self.locked: frozenset[str] = frozenset()  # data keys that cannot be opened: their master key is missing
        self._transactions = transactions
        self.keyring = keyring
        self._vault = vault
        self._allowing = asyncio.Lock()
        self._holding: WeakKeyDictionary[SyncConnection, set[str]] = WeakKeyDictionary()
        self.seals_per_key = seals_per_key
        self.reserved = reserved

    async def load(self) -> dict[str, DataKey | None]:
        """Load every stored data key into the vault. Returns the newest of each environment.

        None for a key that cannot be opened: another node has wrapped it under a master key that is missing here, even
        in the present configuration. Values under older keys can still be opened.
        """
        newest, missing = await self._load()
        if missing and await self._reload_for_missing(missing):
            newest, missing = await self._load()
            self.missing.report(missing)
        return newest

    async def _reload_for_missing(self, missing: Sequence[WrappedKey]) -> bool:
        """Request the master keys of `missing`. Returns whether the configuration was read again, so that a retry makes
        sense."""
        reloaded = await self.missing.request_reload({key.master_key_id for key in missing})
        if not reloaded:
            self.missing.report(missing)
        return reloaded

    async def _load(self) -> tuple[dict[str, DataKey | None], list[WrappedKey]]:
        """Do the work of `load`, without a reload. Also returns the keys whose master key is missing."""
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
                newest[stored.environment] = self._vault.add_data_key(stored.id, stored.environment, key)
        self.locked = frozenset(one.id for one in missing)
        return newest, missing

    def is_locked(self, sealed: Sealed) -> bool:
        """Return whether the value's data key exists but its master key is missing."""
        return sealed.ciphertext[KEY_ID].hex() in self.locked

    async def use_keyring(self, keyring: Keyring) -> None:
        """Use other master keys from now on. Raises StoreRefused, and changes nothing, if they do not open every data
        key."""
        async with self._transactions.read() as db:
            check_keys("The database", await db.run_sync(stored_keys), keyring)
        self.keyring = keyring

    async def ensure(self, names: Sequence[str]) -> None:
        """Create the environments `names`, each with a data key. If two processes start together, each is created
        once."""

        async def make(db: AsyncConnection) -> None:
            for name in names:
                row = {"name": name, "created_at": clock.now()}
                await insert_if_absent(db, environments, row, key=["name"])
                present = select(data_keys.c.id).where(data_keys.c.environment == name).limit(1)
                if (await db.execute(present)).first() is None:
                    await self.make(db, name)

        if any(self._vault.sealing_key(name) is None for name in names):
            await self._transactions.write(make)
            _, missing = await self._load()  # not `load`: a reload of the configuration itself calls `ensure`
            self.missing.report(missing)

    @property
    def enough(self) -> int:
        """The maximum number of values that all concurrent transactions seal."""
        return SEALS_A_TURN * self._transactions.writes_at_once

    async def allow(self, environment: str, *, seals: int = 0) -> Fence:
        """Ensure that one more transaction may seal its values in `environment`, beside the running ones.

        `seals`: how many more values than usual it seals. Returns the fence that the transaction must run first. Raises
        MissingMasterKey if another node has created a key that this one cannot open; the caller then waits without its
        turn or a lock.
        """
        async with self._allowing:
            await self._allow(environment, self.enough + seals)
        return partial(self._lock_newest_key, environment, SEALS_A_TURN + seals)

    async def _lock_newest_key(self, environment: str, seals: int, db: AsyncConnection) -> None:
        """Lock the newest key until `db` has committed, so that no newer key replaces it. Raises FenceFailed.

        This prevents sealing a value under a key that is being replaced, after its values were counted (ADR 22). If
        several writes share one commit, the first one takes the lock for all, and each checks that the key's allowance
        suffices.
        """
        key = self._vault.sealing_key(environment)
        if key is not None and key.allowance < seals:
            raise FenceFailed
        holding = self._holding.setdefault(_connection(db), set())
        if environment in holding:
            return
        newest = (await db.execute(HELD, {"of": environment})).scalar_one_or_none()
        if key is not None and key.id != newest:
            key.replaced = True
            raise FenceFailed
        holding.add(environment)

    def newest_key(self, environment: str) -> dict[str, str] | None:
        """Return the parameters of STILL_NEWEST, to seal before the transaction begins. None: call `allow` first."""
        key = self._vault.sealing_key(environment)
        if key is None or key.replaced or key.allowance < SEALS_A_TURN:
            return None
        return {"of": environment, "sealing_key": key.id}

    async def _allow(self, environment: str, enough: int) -> None:
        key = self._vault.sealing_key(environment)
        while key is not None and (key.replaced or key.allowance < enough):
            if await self._transactions.begin(partial(self._reserve, key_id=key.id)):
                key.replaced = False  # the newer key that was seen was rolled back
                key.allowance += self.reserved
                self._vault.use_sealing_key(key)
            else:
                key = await self._after(key)

    async def _after(self, worn: DataKey) -> DataKey:
        """Return the key that replaces `worn`, which is used up; create it unless another process has done so."""
        newest = await self._newest(worn.environment)
        if newest.id == worn.id:
            await self._transactions.begin(partial(self.make, environment=worn.environment))
            newest = await self._newest(worn.environment)
        return newest

    async def _newest(self, environment: str) -> DataKey:
        found, missing = await self._load()
        newest = found.get(environment)
        if newest is None:
            refusal = unavailable("its newest data key needs an encryption key that this node does not have")
            raise MissingMasterKey(refusal, partial(self._reload_for_missing, missing))
        return newest

    async def learn(self, *sealed: Sealed) -> None:
        """Load the data keys of these values if unknown: another process may have sealed them under a new key."""
        if not all(map(self._vault.has_key_of, sealed)):
            await self.load()

    async def _reserve(self, db: AsyncConnection, key_id: str) -> bool:
        """Reserve more seals for a key. Returns False if the key is used up, or no longer its environment's newest."""
        more = data_keys.c.seals_reserved + self.reserved
        newer = data_keys.alias("newer")
        replaced = exists().where(newer.c.environment == data_keys.c.environment, newer.c.number > data_keys.c.number)
        taken = update(data_keys).where(data_keys.c.id == key_id, more <= self.seals_per_key, ~replaced)
        return (await db.execute(taken.values(seals_reserved=more))).rowcount == 1

    async def make(self, db: AsyncConnection, environment: str) -> None:
        """Create a data key for `environment`, wrapped under the first master key. It seals the next values."""
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
    """Return the synchronous connection of this transaction."""
    found = db.sync_connection
    assert found is not None, "a transaction has a connection"
    return found
