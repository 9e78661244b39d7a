"""Key rotation: seals all values again under the first master key. Gateways keep serving during a rotation (ADR 22).

Each environment gets a new data key. From then on, no process seals under an older data key, which `DataKeys` ensures
in each transaction. Then all values under older data keys are sealed again. Data keys that no value needs are removed.

Each step is a small transaction, and the rotation stores no state of its own. After an interruption, the next run
continues the work. This module also counts how many values each key seals.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from sqlalchemy import Column, LargeBinary, bindparam, delete, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import Unavailable
from gateway.records.audit import AuditAction, AuditEntry
from gateway.records.connection import Sealed
from gateway.store.audit.audit_records import SIGNING_KEY_ENVIRONMENT, lock_state
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.data_keys import DataKeys, stored_keys
from gateway.store.preflight_checks import KEY_ID_BYTES, KEY_ID_FROM, SEALED, SealedColumn
from gateway.store.tables import audit_state, connections, data_keys, metadata
from gateway.store.transactions import Before, T, Transactions, Work
from gateway.vault import Vault, VaultError, WrappedKey

# ── Data keys that seal no value in the database, but possibly seal a reply in a refresh journal (ADR 41).

REFRESHES_S: Final = 3.0  # how long to wait for running refreshes, in seconds
CHECK_AGAIN_S: Final = 0.05


async def keys_kept_for_replies(transactions: Transactions, unused_keys: Collection[str]) -> frozenset[str]:
    """Wait for refreshes that began before the newest data key. Return the keys of `unused_keys` that must be kept.

    A key must be kept if a refresh of its environment is still open, because the refresh's reply is possibly sealed
    under it. The reply is in a refresh journal, not in a table. If the process is killed, the next process reads the
    reply there.
    """
    newest = select(func.max(data_keys.c.created_at)).where(data_keys.c.environment == connections.c.environment)
    is_older = connections.c.intent_at <= newest.scalar_subquery()
    query = select(data_keys.c.id).where(
        data_keys.c.id.in_(unused_keys),
        exists().where(connections.c.environment == data_keys.c.environment, is_older),
    )
    deadline = time.monotonic() + REFRESHES_S
    while True:
        async with transactions.read() as db:
            kept_ids = frozenset((await db.execute(query)).scalars())
        if not kept_ids or time.monotonic() > deadline:
            return kept_ids
        await asyncio.sleep(CHECK_AGAIN_S)


# ── How many values each key seals. A key that seals no value is no longer needed.

PAGE: Final = 2000  # rows per query; a short query does not hold a snapshot of the database for long

Rows = Sequence[tuple[Any, str]]


@dataclass(frozen=True, slots=True)
class DataKeyUse:
    """A data key, and how many values it seals.

    `newest`: whether the environment seals new values under this key. `values`: the number of values, by
    ``table.column``.
    """

    id: str
    environment: str
    master_key_id: str
    created_at: datetime
    newest: bool
    values: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.values.values())


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """The number of values under each data key.

    `without_data_key`: the number of values whose data key is missing, by data key id.
    """

    data_keys: Sequence[DataKeyUse]
    without_data_key: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(key.total for key in self.data_keys)

    def data_keys_wrapped_by(self, master_key_id: str) -> Sequence[DataKeyUse]:
        """Return the data keys that the master key `master_key_id` wraps."""
        return [key for key in self.data_keys if key.master_key_id == master_key_id]


async def count(transactions: Transactions) -> KeyCounts:
    """Count all sealed values by key. Reads in pages, so the count can miss values that are written meanwhile."""
    values: dict[str, Counter[str]] = {}
    for column in SEALED:
        async for rows in pages(transactions, column):
            for key_id, value_count in Counter(key_id for _, key_id in rows).items():
                values.setdefault(key_id, Counter())[column.name] += value_count
    async with transactions.read() as db:
        key_rows = (await db.execute(select(data_keys).order_by(data_keys.c.number))).all()
    newest = {row.environment: row.id for row in key_rows}
    uses = [
        DataKeyUse(
            row.id,
            row.environment,
            row.master_key_id,
            row.created_at,
            newest[row.environment] == row.id,
            dict(values.pop(row.id, {})),
        )
        for row in key_rows
    ]
    return KeyCounts(uses, {key_id: uses_of_key.total() for key_id, uses_of_key in values.items()})


async def pages(transactions: Transactions, column: SealedColumn) -> AsyncIterator[Rows]:
    """Yield all rows with a value in `column`, in pages. Each row has its primary key and the id of its data key."""
    table = metadata.tables[column.table]
    key, sealed_column = table.c[column.key], table.c[column.column]
    query = select(key, key_id_in(sealed_column)).where(sealed_column.is_not(None)).order_by(key).limit(PAGE)
    last_key: Any = None
    while True:
        async with transactions.read() as db:
            rows = (await db.execute(query if last_key is None else query.where(key > last_key))).all()
        if rows:
            yield [(row[0], bytes(row[1]).hex()) for row in rows]
        if len(rows) < PAGE:
            return
        last_key = rows[-1][0]


def key_id_in(sealed_column: Column[Any]) -> Any:
    """Return the SQL expression for the data key's id in a ciphertext."""
    return func.substr(sealed_column, KEY_ID_FROM, KEY_ID_BYTES, type_=LargeBinary)


BATCH: Final = 100  # maximum number of values per transaction; decreases if a transaction takes longer than `HOLDS_S`
MIN_BATCH: Final = 5
HOLDS_S: Final = 0.03
MAX_PASSES: Final = 20  # maximum number of passes; a row that another transaction has locked is left for the next pass
# The pause after a batch, as a multiple of the batch's duration. So a slow database gets longer pauses.
PAUSE_FACTOR: Final = 4.0
MAX_PAUSE_S: Final = 1.0
NEXT_PASS_S: Final = 0.05
RETRY_FOR_S: Final = 60.0

Step = Callable[[int, int], None]  # called with the values done so far and in total


@dataclass(slots=True)
class RotationResult:
    """The result of a rotation.

    `sealed`: how many values were sealed again. `left`: how many values are still under an older data key. `damaged`:
    values that no key opens, each as ``table.column of row``; these values and their data keys stay.

    `kept_keys`: the number of data keys that seal no value in the database, but possibly the reply of a refresh that
    began before the rotation (ADR 41). The first master key now wraps these keys.
    """

    sealed: int = 0
    new_keys: int = 0
    removed_keys: int = 0
    kept_keys: int = 0
    left: int = 0
    damaged: list[str] = field(default_factory=list)


class BatchSize:
    """Adapts the number of values that one transaction seals, so that other writes wait only briefly."""

    def __init__(self) -> None:
        self._size = BATCH

    def split(self, keys: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Yield consecutive parts of `keys`. Each part has the size that is current when the part is taken."""
        start = 0
        while start < len(keys):
            batch = keys[start : start + self._size]
            start += len(batch)
            yield batch

    def adapt_to(self, held_s: float) -> None:
        """Adapt the size to the last transaction, which took `held_s` seconds.

        Halve the size if the transaction took longer than `HOLDS_S`. Otherwise double it, up to `BATCH`.
        """
        self._size = max(MIN_BATCH, self._size // 2) if held_s > HOLDS_S else min(BATCH, 2 * self._size)


class Rotation:
    """Rotates the keys of an open store. Other processes can use the store during the rotation."""

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys, trail: AuditTrail) -> None:
        self._transactions = transactions
        self._trail = trail
        self._vault = vault
        self._keys = keys
        self._batch = BatchSize()

    async def counts(self) -> KeyCounts:
        return await count(self._transactions)

    async def wrap_again(self, key_ids: Collection[str] | None = None) -> int:
        """Wrap data keys under the first master key. Return how many keys were changed.

        No value is sealed again. `key_ids`: the ids of the data keys to wrap; None for all.
        """

        entry = AuditEntry.of(AuditAction.ENCRYPTION_KEYS_ROTATED)

        async def write(db: AsyncConnection) -> int:
            await self._wrap_signing_key(db)
            stored_wrapped = await db.run_sync(stored_keys)
            outdated_keys = [key for key in stored_wrapped if key.master_key_id != self._keys.keyring.first_id]
            outdated_keys = [key for key in outdated_keys if key_ids is None or key.id in key_ids]
            for key in outdated_keys:
                wrapped = self._keys.keyring.wrap_again(key)
                is_unchanged = (data_keys.c.id == key.id, data_keys.c.master_key_id == key.master_key_id)
                columns = {"master_key_id": wrapped.master_key_id, "wrapped": wrapped.wrapped}
                await db.execute(update(data_keys).where(*is_unchanged).values(columns))
            if key_ids is None:
                await self._trail.record(db, replace(entry, detail={"wrapped": len(outdated_keys)}))
            return len(outdated_keys)

        return await self._write(write)

    async def rotate(self, step: Step, *, fresh: bool = False) -> RotationResult:
        """Seal every value under its environment's newest data key, which the first master key wraps.

        `step`: called with the progress. `fresh`: create new data keys even if the first master key already wraps the
        newest ones. Raises Unavailable.
        """
        await self._write(self._wrap_signing_key)
        result = RotationResult(new_keys=await self._renew_keys(force=fresh))
        await self._keys.load()
        newest, old_ids = await self._wait_for_transactions()
        counts_before = await self.counts()
        values_to_seal = sum(key.total for key in counts_before.data_keys if not key.newest)
        step(0, values_to_seal)
        for _ in range(MAX_PASSES):
            skipped = 0
            result.damaged.clear()
            for column in SEALED:
                async for rows in pages(self._transactions, column):
                    for batch in self._batch.split([key for key, key_id in rows if key_id not in newest]):
                        resealed_count, locked_count = await self._reseal(column, batch, newest, result)
                        result.sealed, skipped = result.sealed + resealed_count, skipped + locked_count
                        step(result.sealed, max(values_to_seal, result.sealed))
            if not skipped:
                break
            await asyncio.sleep(NEXT_PASS_S)
        counts_after = await self.counts()
        unused_ids = frozenset(key.id for key in counts_after.data_keys if key.id in old_ids and not key.total)
        kept_ids = await keys_kept_for_replies(self._transactions, unused_ids)
        if kept_ids:
            await self.wrap_again(kept_ids)
        result.removed_keys, result.kept_keys = await self._remove(unused_ids - kept_ids), len(kept_ids)
        result.left = sum(key.total for key in counts_after.data_keys if not key.newest) + sum(
            counts_after.without_data_key.values()
        )
        counts = {"sealed": result.sealed, "new_keys": result.new_keys, "removed_keys": result.removed_keys}
        detail = {**counts, "left": result.left, "first_key": self._keys.keyring.first_id}
        outcome = "ok" if not result.left and not result.damaged else "failed"
        entry = AuditEntry.of(AuditAction.ENCRYPTION_KEYS_ROTATED, outcome=outcome, detail=detail)
        await self._write(lambda db: self._trail.record(db, entry))
        return result

    async def verify(self, step: Step) -> list[str]:
        """Open every value, as a check. Return the values that no key opens, each as ``table.column of row``."""
        total, verified, damaged = (await self.counts()).total, 0, list[str]()
        for column in SEALED:
            async for rows in pages(self._transactions, column):
                for batch in self._batch.split([key for key, _ in rows]):
                    async with self._transactions.read() as db:
                        sealed_values = [
                            _sealed_value(column, row) for row in await db.execute(_sealed_values_query(column, batch))
                        ]
                    await self._keys.load_keys_of(*(sealed for _, sealed in sealed_values))
                    for _, sealed in sealed_values:
                        try:
                            self._vault.open_json(sealed)
                        except VaultError:
                            damaged.append(f"{column.name} of {sealed.row}")
                    verified += len(batch)
                    step(verified, max(total, verified))
        return damaged

    async def _wrap_signing_key(self, db: AsyncConnection) -> None:
        """Wrap the audit's signing key under the first master key too. Skip a signing key that cannot be opened."""
        row = await lock_state(db)
        if row.key_id is None or row.master_key_id == self._keys.keyring.first_id:
            return
        wrapped_key = WrappedKey(row.key_id, SIGNING_KEY_ENVIRONMENT, row.master_key_id, bytes(row.wrapped))
        try:
            wrapped_again = self._keys.keyring.wrap_again(wrapped_key)
        except VaultError:
            return  # the next checkpoint reports the problem, and `gateway audit key --new` replaces the key
        values = {"master_key_id": wrapped_again.master_key_id, "wrapped": wrapped_again.wrapped}
        await db.execute(update(audit_state).values(values))

    async def _renew_keys(self, *, force: bool) -> int:
        async def write(db: AsyncConnection) -> int:
            newest = {key.environment: key for key in await db.run_sync(stored_keys)}
            environments = [
                name for name, key in newest.items() if force or key.master_key_id != self._keys.keyring.first_id
            ]
            for name in environments:
                await self._keys.create_key(db, name)
            return len(environments)

        return await self._write(write)

    async def _wait_for_transactions(self) -> tuple[frozenset[str], frozenset[str]]:
        """Wait until every transaction that seals under an older data key has ended.

        Returns the ids of the newest data keys, and the ids of the older ones. Each transaction that seals locks the
        row of its data key, after checking that there is no newer key. So locking the older rows waits for these
        transactions.
        """

        async def write(db: AsyncConnection) -> tuple[frozenset[str], frozenset[str]]:
            stored = await db.run_sync(stored_keys)
            newest = frozenset({key.environment: key.id for key in stored}.values())
            old_ids = frozenset(key.id for key in stored) - newest
            # No new transaction locks the older data keys. Every transaction that seals a value locks a newest data
            # key, so waiting for a lock on the newest keys could take forever.
            await db.execute(select(data_keys.c.id).where(data_keys.c.id.in_(old_ids)).with_for_update())
            return newest, old_ids

        return await self._write(write)

    async def _reseal(
        self, column: SealedColumn, keys: Sequence[Any], newest: Collection[str], result: RotationResult
    ) -> tuple[int, int]:
        """Seal the values of these rows again, then pause, so that other processes can write.

        Returns how many values were sealed, and how many rows another transaction had locked.
        """
        began_at = time.monotonic()
        resealed_count = locked_count = 0
        environments = await self._environments(column, keys)
        for environment, batch in environments.items():

            async def write(db: AsyncConnection, batch: Sequence[Any] = batch) -> tuple[int, list[str]]:
                started = time.monotonic()
                rows = (await db.execute(_sealed_values_query(column, batch).with_for_update(skip_locked=True))).all()
                changed, damaged = list[dict[str, Any]](), list[str]()
                for key, sealed in (_sealed_value(column, row) for row in rows):
                    if sealed.ciphertext[1:9].hex() in newest:
                        continue  # a refresh has already sealed this value under the newest key
                    try:
                        changed.append({"of": key, "sealed": self._vault.seal_again(sealed).ciphertext})
                    except VaultError:
                        damaged.append(f"{column.name} of {sealed.row}")
                if changed:
                    await db.execute(_update_statement(column), changed)
                self._batch.adapt_to(time.monotonic() - started)
                return len(rows), damaged

            row_count, damaged = await self._write(
                write, before=partial(self._keys.allow, environment, seals=len(batch))
            )
            result.damaged += damaged
            resealed_count += row_count - len(damaged)
            locked_count += len(batch) - row_count
        await asyncio.sleep(min(PAUSE_FACTOR * (time.monotonic() - began_at), MAX_PAUSE_S))
        return resealed_count, locked_count

    async def _environments(self, column: SealedColumn, keys: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the primary keys of these rows by environment, because each environment has its own data key."""
        table = metadata.tables[column.table]
        query = select(table.c.environment, table.c[column.key]).where(table.c[column.key].in_(keys))
        keys_by_environment: dict[str, list[Any]] = {}
        async with self._transactions.read() as db:
            for environment, key in await db.execute(query.order_by(table.c[column.key])):
                keys_by_environment.setdefault(environment, []).append(key)
        return keys_by_environment

    async def _write(self, work: Work[T], *, before: Before | None = None) -> T:
        """Write in one transaction. If the database is busy or restarts, retry for `RETRY_FOR_S` seconds."""
        deadline = time.monotonic() + RETRY_FOR_S
        while True:
            try:
                return await self._transactions.write(work, before=before)
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(NEXT_PASS_S)

    async def _remove(self, ids: Collection[str]) -> int:
        """Remove data keys that seal no value, as counted after `_wait_for_transactions`. Return how many keys were removed."""
        if not ids:
            return 0
        statement = delete(data_keys).where(data_keys.c.id.in_(ids))
        return (await self._write(lambda db: db.execute(statement))).rowcount


def _sealed_values_query(column: SealedColumn, keys: Sequence[Any]) -> Any:
    """Return the query for the ciphertexts of these rows, and for the columns of the place of each ciphertext."""
    table = metadata.tables[column.table]
    version = [table.c[column.version]] if isinstance(column.version, str) else []
    columns = (table.c[column.key], table.c.environment, table.c[column.row], table.c[column.column], *version)
    has_key = table.c[column.key].in_(keys)
    return select(*columns).where(has_key, table.c[column.column].is_not(None)).order_by(table.c[column.key])


def _sealed_value(column: SealedColumn, row: Any) -> tuple[Any, Sealed]:
    """Return the row's primary key, and its ciphertext with the place that it is bound to."""
    key, environment, row_id, ciphertext, *stored_version = row
    version = column.version if isinstance(column.version, int) else stored_version[0]
    return key, Sealed(bytes(ciphertext), environment, column.table, row_id, column.column, version)


def _update_statement(column: SealedColumn) -> Any:
    table = metadata.tables[column.table]
    return update(table).where(table.c[column.key] == bindparam("of")).values({column.column: bindparam("sealed")})
