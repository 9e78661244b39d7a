"""Data keys, by which an environment's values are sealed. Also handles missing master keys and unreadable secrets."""

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
from gateway.store.database_faults import DatabaseUnavailable
from gateway.store.preflight_checks import check_keys
from gateway.store.tables import data_keys, environments
from gateway.store.transactions import Fence, FenceFailed, MissingMasterKey, Transactions, insert_if_absent
from gateway.vault import Keyring, UnknownKey, Vault, WrappedKey
from gateway.vault.seal import KEY_ID, DataKey

# ── Missing master keys. Possibly the operator has added the key to the configuration, and this process has not loaded
# it yet.
#
# So the configuration is read again: one reload for all requests that need the key. As long as the key is missing, the
# pause before the next reload grows.

RESPONSE_S: Final = 3.0  # requests wait this long for the reload, which usually takes less than a second
LOGGED_EVERY_S: Final = 60.0  # the minimum time, in seconds, between two log lines about the same data key or value

log = structlog.get_logger(__name__)


class MissingKeys:
    """Requests a reload of the configuration when master keys are missing.

    `start_reload`: starts the reload; None if this process cannot reload. `reload_finished` is called at the end of the reload.
    """

    def __init__(self) -> None:
        self.start_reload: Callable[[Collection[str]], None] | None = None
        self._response: asyncio.Future[None] | None = None
        self._overdue_at = 0.0  # when the running reload counts as lost (monotonic seconds)
        self._pauses = Pauses()
        # the key: a data key's id; the value: when it was last logged (monotonic seconds)
        self._logged_at: dict[str, float] = {}

    def report(self, locked: Iterable[WrappedKey]) -> None:
        """Log the data keys that cannot be opened because their master key is missing."""
        now = clock.monotonic()
        for data_key in locked:
            if now < self._logged_at.get(data_key.id, -math.inf) + LOGGED_EVERY_S:
                continue
            self._logged_at[data_key.id] = now
            detail = f"Data key {data_key.id} needs master key {data_key.master_key_id}, which is not in store.encryption_keys."
            log.error("data_key_unusable", detail=detail, fix="add that key to store.encryption_keys; reload")

    async def request_reload(self, ids: Collection[str]) -> bool:
        """Request a reload of the configuration for missing master keys. Return whether the reload took place.

        `ids`: the ids of the master keys. Waits at most `RESPONSE_S` seconds. Returns False immediately if a recent
        reload did not add the keys.
        """
        if self._response is not None and clock.monotonic() < self._overdue_at:
            response: asyncio.Future[None] | None = self._response
        else:
            response = self._begin_reload(ids)
        if response is None:
            return False
        finished, _ = await asyncio.wait({response}, timeout=RESPONSE_S)
        return bool(finished)

    def reload_finished(self) -> None:
        """Wake the waiting calls, because the configuration was read again. The master key can still be missing."""
        if self._response is not None and not self._response.done():
            self._response.set_result(None)
        self._response = None

    def _begin_reload(self, ids: Collection[str]) -> "asyncio.Future[None] | None":
        due_ids = self._pauses.due(ids) if self.start_reload is not None else []
        if self.start_reload is None or not due_ids:
            return None
        log.warning("encryption_key_missing", key_ids=due_ids, effect="the configuration is read again")
        # The message that ends a reload can be lost, so a reload that takes too long is requested again. The first
        # message that arrives wakes all waiting calls.
        response = self._response = self._response or asyncio.get_running_loop().create_future()
        self._overdue_at = clock.monotonic() + RESPONSE_S
        self.start_reload(due_ids)
        return response


# ── Stored secrets that cannot be opened although no master key is missing. They are counted, and logged with
# their table, row and column.

# the number of values that are remembered, so that each is logged at most once a minute
MAX_REMEMBERED_VALUES: Final = 1000
FIX: Final = "restore a backup (gateway restore), or let the end user authorize again"


class UnreadableSecrets:
    """Counts and logs unreadable secrets. `counts`: how often a secret was unreadable, by environment and table."""

    def __init__(self) -> None:
        self.counts = Counter[tuple[str, str]]()
        # The key: table, row and column. The value: when this value was last logged (monotonic seconds).
        self._logged: dict[tuple[str, str, str], float] = {}

    def record(self, sealed: Sealed) -> None:
        """Count and log `sealed`, which was changed or moved, or which has no data key."""
        self.counts[sealed.environment, sealed.table] += 1
        value_id, now = (sealed.table, sealed.row, sealed.column), clock.monotonic()
        if value_id in self._logged and now - self._logged[value_id] < LOGGED_EVERY_S:
            return
        if len(self._logged) >= MAX_REMEMBERED_VALUES:
            self._logged.clear()
        self._logged[value_id] = now
        ref = sealed.connection
        connection_fields = {"integration": ref.integration_id, "connection_id": ref.connection_id} if ref else {}
        log.error(
            "stored_secret_unreadable",
            environment=sealed.environment,
            **connection_fields,
            table=sealed.table,
            row=sealed.row,
            column=sealed.column,
            detail="it was changed, moved or damaged since it was stored",
            fix=FIX,
        )


def unreadable(sealed: Sealed) -> CredentialUnreadable:
    """Return the error that a caller gets for `sealed`."""
    column = f"{sealed.table}.{sealed.column}"
    ref = sealed.connection
    of_connection = f" of connection '{ref.connection_id}'" if ref is not None else ""
    payload = {"environment": sealed.environment, "table": sealed.table, "column": sealed.column}
    if ref is not None:
        payload |= {"provider_config_key": ref.integration_id, "connection_id": ref.connection_id}
    return CredentialUnreadable(
        "credential_unreadable",
        f"The secret stored in {column}{of_connection} was changed or damaged and cannot be opened. Restore a backup with "
        "`gateway restore`, or let the end user authorize again.",
        payload=payload,
    )


# With random nonces, one key must encrypt fewer than 2^32 values (NIST SP 800-38D §8.3).
SEALS_PER_KEY: Final = 2**32 - 1
SEALS_RESERVED: Final = 2**16  # a process reserves this many seals at a time, so that counting rarely needs a write
SEALS_PER_TRANSACTION: Final = 16  # a transaction seals at most this many values, unless it asks `allow` for more

NEWEST: Final = select(data_keys.c.id).order_by(data_keys.c.number.desc()).limit(1)
LOCK_NEWEST: Final = NEWEST.where(data_keys.c.environment == bindparam("of")).with_for_update(read=True, key_share=True)
STILL_NEWEST: Final = LOCK_NEWEST.scalar_subquery() == bindparam("sealing_key", type_=Text)
"""The fence of `DataKeys.allow` as an SQL condition, for a statement that is a transaction of its own.

`newest_key` returns the parameters of this condition.
"""
STORED_KEYS: Final = select(
    data_keys.c.id, data_keys.c.environment, data_keys.c.master_key_id, data_keys.c.wrapped
).order_by(data_keys.c.number)


def stored_keys(db: SyncConnection) -> list[WrappedKey]:
    """Return all data keys, the oldest first."""
    return [WrappedKey(*row) for row in db.execute(STORED_KEYS)]


class DataKeys:
    """Gives `vault` the data keys, also those that other processes create. Limits how many values each key seals."""

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
        # ids of data keys that cannot be opened, because their master key is missing
        self.locked: frozenset[str] = frozenset()
        self._transactions = transactions
        self.keyring = keyring
        self._vault = vault
        self._allow_lock = asyncio.Lock()
        self._locked_environments: WeakKeyDictionary[SyncConnection, set[str]] = WeakKeyDictionary()
        self.seals_per_key = seals_per_key
        self.reserved = reserved

    async def load(self) -> dict[str, DataKey | None]:
        """Load every stored data key into the vault. Return the newest data key of each environment.

        If the newest data key cannot be opened, its value is None: another node has wrapped it under a master key that
        this node's configuration lacks, even after a reload. Values under older keys can still be opened.
        """
        newest, missing = await self._load()
        if missing and await self._reload_for_missing(missing):
            newest, missing = await self._load()
            self.missing.report(missing)
        return newest

    async def _reload_for_missing(self, missing_keys: Sequence[WrappedKey]) -> bool:
        """Request the master keys of `missing_keys`. Return whether the configuration was read again."""
        was_reloaded = await self.missing.request_reload({key.master_key_id for key in missing_keys})
        if not was_reloaded:
            self.missing.report(missing_keys)
        return was_reloaded

    async def _load(self) -> tuple[dict[str, DataKey | None], list[WrappedKey]]:
        """Load the keys like `load`, but without a reload. Also return the data keys whose master key is missing."""
        newest: dict[str, DataKey | None] = {}
        missing = []
        async with self._transactions.read() as db:
            stored_rows = await db.run_sync(stored_keys)
        for stored in stored_rows:
            try:
                key = self.keyring.unwrap(stored)
            except UnknownKey:
                newest[stored.environment] = None
                missing.append(stored)
            else:
                newest[stored.environment] = self._vault.add_data_key(stored.id, stored.environment, key)
        self.locked = frozenset(key.id for key in missing)
        return newest, missing

    def is_locked(self, sealed: Sealed) -> bool:
        """Return whether the data key of `sealed` exists but its master key is missing."""
        return sealed.ciphertext[KEY_ID].hex() in self.locked

    async def use_keyring(self, keyring: Keyring) -> None:
        """Use other master keys from now on.

        Raises StoreRefused, and changes nothing, if `keyring` cannot open every data key.
        """
        async with self._transactions.read() as db:
            check_keys("The database", await db.run_sync(stored_keys), keyring)
        self.keyring = keyring

    async def ensure(self, names: Sequence[str]) -> None:
        """Create the environments `names`, each with a data key.

        If two processes create the same environment at the same time, it is still created only once.
        """

        async def create_missing(db: AsyncConnection) -> None:
            for name in names:
                row = {"name": name, "created_at": clock.now()}
                await insert_if_absent(db, environments, row, key=["name"])
                present_query = select(data_keys.c.id).where(data_keys.c.environment == name).limit(1)
                if (await db.execute(present_query)).first() is None:
                    await self.create_key(db, name)

        if any(self._vault.sealing_key(name) is None for name in names):
            await self._transactions.write(create_missing)
            _, missing = await self._load()  # not `load`, which can request a reload: a reload itself calls `ensure`
            self.missing.report(missing)

    @property
    def max_seals_at_once(self) -> int:
        """The maximum number of values that all transactions seal at the same time."""
        return SEALS_PER_TRANSACTION * self._transactions.writes_at_once

    async def allow(self, environment: str, *, seals: int = 0) -> Fence:
        """Ensure that another transaction can seal its values in `environment`.

        `seals`: how many values the transaction seals in addition to the usual number. Returns the fence that the
        transaction must run first. Raises MissingMasterKey if another node has created a key that this node cannot
        open. The caller then gives up its turn in the queue and its locks, and waits for the master key.
        """
        async with self._allow_lock:
            await self._allow(environment, self.max_seals_at_once + seals)
        return partial(self._lock_newest_key, environment, SEALS_PER_TRANSACTION + seals)

    async def _lock_newest_key(self, environment: str, seals: int, db: AsyncConnection) -> None:
        """Lock the newest key until `db` has committed, so that no newer key replaces it. Raises FenceFailed.

        Without the lock, a transaction could seal a value under an old key after the rotation has counted the values of
        this key (ADR 22). If several writes share one commit, the first takes the lock for all.
        Each write checks that the key's allowance is large enough.
        """
        key = self._vault.sealing_key(environment)
        if key is not None and key.allowance < seals:
            raise FenceFailed
        locked_environments = self._locked_environments.setdefault(_connection(db), set())
        if environment in locked_environments:
            return
        newest = (await db.execute(LOCK_NEWEST, {"of": environment})).scalar_one_or_none()
        if key is not None and key.id != newest:
            key.replaced = True
            raise FenceFailed
        locked_environments.add(environment)

    def newest_key(self, environment: str) -> dict[str, str] | None:
        """Return the parameters of `STILL_NEWEST`, to seal values before the transaction begins.

        None if `allow` must be called first, because no key is available or the key's allowance is used up.
        """
        key = self._vault.sealing_key(environment)
        if key is None or key.replaced or key.allowance < SEALS_PER_TRANSACTION:
            return None
        return {"of": environment, "sealing_key": key.id}

    async def _allow(self, environment: str, min_allowance: int) -> None:
        key = self._vault.sealing_key(environment)
        while key is not None and (key.replaced or key.allowance < min_allowance):
            if await self._transactions.begin(partial(self._reserve, key_id=key.id)):
                key.replaced = False  # the newer key no longer exists, because its transaction was rolled back
                key.allowance += self.reserved
                self._vault.use_sealing_key(key)
            else:
                key = await self._replacement_of(key)

    async def _replacement_of(self, used_up_key: DataKey) -> DataKey:
        """Return the key that replaces `used_up_key`, which is used up. Create the new key if no other process has done so."""
        newest = await self._newest(used_up_key.environment)
        if newest.id == used_up_key.id:
            await self._transactions.begin(partial(self.create_key, environment=used_up_key.environment))
            newest = await self._newest(used_up_key.environment)
        return newest

    async def _newest(self, environment: str) -> DataKey:
        newest_keys, missing = await self._load()
        newest = newest_keys.get(environment)
        if newest is None:
            refusal = DatabaseUnavailable("its newest data key needs an encryption key that this node does not have")
            raise MissingMasterKey(refusal, partial(self._reload_for_missing, missing))
        return newest

    async def load_keys_of(self, *sealed: Sealed) -> None:
        """Load the data keys of these values, unless the vault already has them.

        Another process has possibly sealed the values under a new key.
        """
        if not all(map(self._vault.has_key_of, sealed)):
            await self.load()

    async def _reserve(self, db: AsyncConnection, key_id: str) -> bool:
        """Reserve more seals for a key. Return False if the key is used up or is not its environment's newest key."""
        reserved_after = data_keys.c.seals_reserved + self.reserved
        newer = data_keys.alias("newer")
        has_newer = exists().where(newer.c.environment == data_keys.c.environment, newer.c.number > data_keys.c.number)
        reservation_update = update(data_keys).where(
            data_keys.c.id == key_id, reserved_after <= self.seals_per_key, ~has_newer
        )
        return (await db.execute(reservation_update.values(seals_reserved=reserved_after))).rowcount == 1

    async def create_key(self, db: AsyncConnection, environment: str) -> None:
        """Create a data key for `environment`, wrapped under the first master key. The new key seals later values."""
        self._locked_environments.pop(_connection(db), None)
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
    db_connection = db.sync_connection
    assert db_connection is not None, "a transaction has a connection"
    return db_connection
