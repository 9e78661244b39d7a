"""Sealing everything again under the first master key, beside gateways that serve (ADR 22); how many values each key seals.

A new data key is made in each environment; from then on nobody seals under an older one, which `DataKeys` sees to in each
transaction. What is sealed under older ones is then walked through and sealed again, and a data key that nothing needs is
removed. Each step is a small transaction and the whole has no state of its own: cut short, it goes on where it was.
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
from gateway.store.audit.audit_records import SIGNING_KEY_OF, locked_state
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.data_keys import DataKeys, stored_keys
from gateway.store.preflight_checks import KEY_ID_BYTES, KEY_ID_FROM, SEALED, SealedColumn
from gateway.store.tables import audit_state, connections, data_keys, metadata
from gateway.store.transactions import Before, T, Transactions, Work
from gateway.vault import Vault, VaultError, WrappedKey

# ── Data keys under which nothing in the database is sealed, but perhaps a reply in a refresh journal (ADR 41).

REFRESHES_S: Final = 3.0  # to end, of those that are under way; a provider that takes longer is not waited for
LOOK_AGAIN_S: Final = 0.05


async def kept_for_answers(transactions: Transactions, unused: Collection[str]) -> frozenset[str]:
    """Return the `unused` keys whose environments have refreshes from before the newest key, after a wait for them.

    Their replies are in a refresh journal, in no table. A process that is killed leaves them there for the next one.
    """
    newest = select(func.max(data_keys.c.created_at)).where(data_keys.c.environment == connections.c.environment)
    begun = connections.c.intent_at <= newest.scalar_subquery()
    wanted = select(data_keys.c.id).where(
        data_keys.c.id.in_(unused),
        exists().where(connections.c.environment == data_keys.c.environment, begun),
    )
    end = time.monotonic() + REFRESHES_S
    while True:
        async with transactions.read() as db:
            kept = frozenset((await db.execute(wanted)).scalars())
        if not kept or time.monotonic() > end:
            return kept
        await asyncio.sleep(LOOK_AGAIN_S)


# ── How many values each key seals: the proof that a key is not needed any more.

PAGE: Final = 2000  # rows at a time: no statement lasts, and no snapshot is held, however large the table

Rows = Sequence[tuple[Any, str]]


@dataclass(frozen=True, slots=True)
class DataKeyUse:
    """A data key and how many values it seals, by ``table.column``. `newest`: the one that seals in its environment."""

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
    """`without_data_key`: values, by data key id, whose data key is not stored: nothing opens them."""

    data_keys: Sequence[DataKeyUse]
    without_data_key: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(key.total for key in self.data_keys)

    def under_master(self, master_key_id: str) -> Sequence[DataKeyUse]:
        """The data keys that it wraps."""
        return [key for key in self.data_keys if key.master_key_id == master_key_id]


async def count(transactions: Transactions) -> KeyCounts:
    """All sealed values, by their keys. Reads in pages, so what is written meanwhile may be counted or not."""
    values: dict[str, Counter[str]] = {}
    for column in SEALED:
        async for rows in pages(transactions, column):
            for key_id, number in Counter(key_id for _, key_id in rows).items():
                values.setdefault(key_id, Counter())[column.name] += number
    async with transactions.read() as db:
        stored = (await db.execute(select(data_keys).order_by(data_keys.c.number))).all()
    newest = {row.environment: row.id for row in stored}
    uses = [
        DataKeyUse(
            row.id,
            row.environment,
            row.master_key_id,
            row.created_at,
            newest[row.environment] == row.id,
            dict(values.pop(row.id, {})),
        )
        for row in stored
    ]
    return KeyCounts(uses, {key_id: counted.total() for key_id, counted in values.items()})


async def pages(transactions: Transactions, column: SealedColumn) -> AsyncIterator[Rows]:
    """Primary key and data key id of every row that has a value there, in the order of the former."""
    table = metadata.tables[column.table]
    key, sealed = table.c[column.key], table.c[column.column]
    wanted = select(key, key_id_in(sealed)).where(sealed.is_not(None)).order_by(key).limit(PAGE)
    after: Any = None
    while True:
        async with transactions.read() as db:
            rows = (await db.execute(wanted if after is None else wanted.where(key > after))).all()
        if rows:
            yield [(row[0], bytes(row[1]).hex()) for row in rows]
        if len(rows) < PAGE:
            return
        after = rows[-1][0]


def key_id_in(sealed: Column[Any]) -> Any:
    """The data key's id, as it stands in the ciphertext."""
    return func.substr(sealed, KEY_ID_FROM, KEY_ID_BYTES, type_=LargeBinary)


BATCH: Final = 100  # values in one transaction, and fewer where these take longer than a gateway's own write may wait
SHORTEST_BATCH: Final = 5
HOLDS_S: Final = 0.03
PASSES: Final = 20  # a row that somebody holds is left for the next one
COURTESY: Final = 4.0  # times as long as a batch took, its waiting included: who is busy is left alone the longer
LONGEST_REST_S: Final = 1.0
NEXT_PASS_S: Final = 0.05
PATIENCE_S: Final = 60.0

Step = Callable[[int, int], None]  # values done, of how many


@dataclass(slots=True)
class Rotated:
    """`damaged`: values that no key opens, as ``table.column of row``; they, and the keys they name, stay as they are.

    `left`: values that are still under an older data key. `kept_keys`: under which nothing is in the database, but perhaps
    what a token endpoint has answered to a refresh that began before (ADR 41); they are under the first master key by now.
    """

    sealed: int = 0
    new_keys: int = 0
    removed_keys: int = 0
    kept_keys: int = 0
    left: int = 0
    damaged: list[str] = field(default_factory=list)


class BatchSize:
    """How many values one transaction seals: fewer where other writes waited for the last one."""

    def __init__(self) -> None:
        self._size = BATCH

    def split(self, keys: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Consecutive parts of `keys`; the size is read again for each."""
        start = 0
        while start < len(keys):
            some = keys[start : start + self._size]
            start += len(some)
            yield some

    def took(self, held_s: float) -> None:
        """Adapt the size to the last transaction, which took `held_s`: halve it above HOLDS_S, else double it up to BATCH."""
        self._size = max(SHORTEST_BATCH, self._size // 2) if held_s > HOLDS_S else min(BATCH, 2 * self._size)


class Rotation:
    """Works on an open store, while other processes use it."""

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys, trail: AuditTrail) -> None:
        self._transactions = transactions
        self._trail = trail
        self._vault = vault
        self._keys = keys
        self._batch = BatchSize()

    async def counts(self) -> KeyCounts:
        return await count(self._transactions)

    async def wrap_again(self, only: Collection[str] | None = None) -> int:
        """Wrap every data key, or those of `only`, under the first master key, and touch no value. Returns how many were not."""

        entry = AuditEntry.of(AuditAction.ENCRYPTION_KEYS_ROTATED)

        async def write(db: AsyncConnection) -> int:
            await self._wrap_signing_key(db)
            stored = await db.run_sync(stored_keys)
            others = [key for key in stored if key.master_key_id != self._keys.keyring.first_id]
            others = [key for key in others if only is None or key.id in only]
            for key in others:
                again = self._keys.keyring.wrap_again(key)
                as_seen = (data_keys.c.id == key.id, data_keys.c.master_key_id == key.master_key_id)
                changed = {"master_key_id": again.master_key_id, "wrapped": again.wrapped}
                await db.execute(update(data_keys).where(*as_seen).values(changed))
            if only is None:
                await self._trail.record(db, replace(entry, detail={"wrapped": len(others)}))
            return len(others)

        return await self._write(write)

    async def rotate(self, step: Step, *, fresh: bool = False) -> Rotated:
        """Seal every value under the newest data key of its environment, which the first master key wraps.

        `fresh`: make new data keys also where the newest is wrapped by that master key already. Raises Unavailable.
        """
        await self._write(self._wrap_signing_key)
        rotated = Rotated(new_keys=await self._renew_keys(fresh=fresh))
        await self._keys.load()
        newest, old = await self._settle()
        before = await self.counts()
        todo = sum(key.total for key in before.data_keys if not key.newest)
        step(0, todo)
        for _ in range(PASSES):
            skipped = 0
            rotated.damaged.clear()
            for column in SEALED:
                async for rows in pages(self._transactions, column):
                    for some in self._batch.split([key for key, key_id in rows if key_id not in newest]):
                        done, held = await self._seal_again(column, some, newest, rotated)
                        rotated.sealed, skipped = rotated.sealed + done, skipped + held
                        step(rotated.sealed, max(todo, rotated.sealed))
            if not skipped:
                break
            await asyncio.sleep(NEXT_PASS_S)
        after = await self.counts()
        unused = frozenset(key.id for key in after.data_keys if key.id in old and not key.total)
        kept = await kept_for_answers(self._transactions, unused)
        if kept:
            await self.wrap_again(kept)
        rotated.removed_keys, rotated.kept_keys = await self._remove(unused - kept), len(kept)
        rotated.left = sum(key.total for key in after.data_keys if not key.newest) + sum(
            after.without_data_key.values()
        )
        counts = {"sealed": rotated.sealed, "new_keys": rotated.new_keys, "removed_keys": rotated.removed_keys}
        detail = {**counts, "left": rotated.left, "first_key": self._keys.keyring.first_id}
        outcome = "ok" if not rotated.left and not rotated.damaged else "failed"
        entry = AuditEntry.of(AuditAction.ENCRYPTION_KEYS_ROTATED, outcome=outcome, detail=detail)
        await self._write(lambda db: self._trail.record(db, entry))
        return rotated

    async def verify(self, step: Step) -> list[str]:
        """Open every value and forget it. Returns those that no key opens, as ``table.column of row``."""
        total, done, damaged = (await self.counts()).total, 0, list[str]()
        for column in SEALED:
            async for rows in pages(self._transactions, column):
                for some in self._batch.split([key for key, _ in rows]):
                    async with self._transactions.read() as db:
                        found = [_sealed(column, row) for row in await db.execute(_rows(column, some))]
                    await self._keys.learn(*(sealed for _, sealed in found))
                    for _, sealed in found:
                        try:
                            self._vault.open_json(sealed)
                        except VaultError:
                            damaged.append(f"{column.name} of {sealed.row}")
                    done += len(some)
                    step(done, max(total, done))
        return damaged

    async def _wrap_signing_key(self, db: AsyncConnection) -> None:
        """Have the key that signs the audit's checkpoints under the first master key too, where it can be opened."""
        row = await locked_state(db)
        if row.key_id is None or row.master_key_id == self._keys.keyring.first_id:
            return
        stored = WrappedKey(row.key_id, SIGNING_KEY_OF, row.master_key_id, bytes(row.wrapped))
        try:
            again = self._keys.keyring.wrap_again(stored)
        except VaultError:
            return  # signing reports it, and `gateway audit key --new` replaces it
        values = {"master_key_id": again.master_key_id, "wrapped": again.wrapped}
        await db.execute(update(audit_state).values(values))

    async def _renew_keys(self, *, fresh: bool) -> int:
        async def write(db: AsyncConnection) -> int:
            newest = {key.environment: key for key in await db.run_sync(stored_keys)}
            worn = [name for name, key in newest.items() if fresh or key.master_key_id != self._keys.keyring.first_id]
            for name in worn:
                await self._keys.make(db, name)
            return len(worn)

        return await self._write(write)

    async def _settle(self) -> tuple[frozenset[str], frozenset[str]]:
        """Wait until every transaction that seals under an older data key has ended. Returns the newest ids, and the older.

        A transaction that seals holds its key's row, having seen that there is no newer one.
        """

        async def write(db: AsyncConnection) -> tuple[frozenset[str], frozenset[str]]:
            stored = await db.run_sync(stored_keys)
            newest = frozenset({key.environment: key.id for key in stored}.values())
            old = frozenset(key.id for key in stored) - newest
            # Of these nobody takes hold any more; the newest, of which everybody does, would be waited for in vain.
            await db.execute(select(data_keys.c.id).where(data_keys.c.id.in_(old)).with_for_update())
            return newest, old

        return await self._write(write)

    async def _seal_again(
        self, column: SealedColumn, keys: Sequence[Any], newest: Collection[str], rotated: Rotated
    ) -> tuple[int, int]:
        """How many of these rows were sealed again, and how many somebody held. Then leaves the database to others."""
        began = time.monotonic()
        done = held = 0
        environments = await self._environments(column, keys)
        for environment, some in environments.items():

            async def write(db: AsyncConnection, some: Sequence[Any] = some) -> tuple[int, list[str]]:
                started = time.monotonic()
                rows = (await db.execute(_rows(column, some).with_for_update(skip_locked=True))).all()
                changed, damaged = list[dict[str, Any]](), list[str]()
                for key, sealed in (_sealed(column, row) for row in rows):
                    if sealed.ciphertext[1:9].hex() in newest:
                        continue  # sealed again by its own refresh in the meantime
                    try:
                        changed.append({"of": key, "sealed": self._vault.seal_again(sealed).ciphertext})
                    except VaultError:
                        damaged.append(f"{column.name} of {sealed.row}")
                if changed:
                    await db.execute(_replace(column), changed)
                self._batch.took(time.monotonic() - started)
                return len(rows), damaged

            seen, damaged = await self._write(write, before=partial(self._keys.allow, environment, seals=len(some)))
            rotated.damaged += damaged
            done, held = done + seen - len(damaged), held + len(some) - seen
        await asyncio.sleep(min(COURTESY * (time.monotonic() - began), LONGEST_REST_S))
        return done, held

    async def _environments(self, column: SealedColumn, keys: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the keys of these rows by environment, since each environment has a data key of its own."""
        table = metadata.tables[column.table]
        where = select(table.c.environment, table.c[column.key]).where(table.c[column.key].in_(keys))
        found: dict[str, list[Any]] = {}
        async with self._transactions.read() as db:
            for environment, key in await db.execute(where.order_by(table.c[column.key])):
                found.setdefault(environment, []).append(key)
        return found

    async def _write(self, work: Work[T], *, before: Before | None = None) -> T:
        """Write in one transaction, retried while a busy neighbour or a restart of the database stands in the way."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return await self._transactions.write(work, before=before)
            except Unavailable:
                if time.monotonic() > end:
                    raise
            await asyncio.sleep(NEXT_PASS_S)

    async def _remove(self, ids: Collection[str]) -> int:
        """Remove data keys of which it was seen, after `_settle`, that nothing is sealed under them."""
        if not ids:
            return 0
        gone = delete(data_keys).where(data_keys.c.id.in_(ids))
        return (await self._write(lambda db: db.execute(gone))).rowcount


def _rows(column: SealedColumn, keys: Sequence[Any]) -> Any:
    """Select each ciphertext with what it is bound to."""
    table = metadata.tables[column.table]
    version = [table.c[column.version]] if isinstance(column.version, str) else []
    shown = (table.c[column.key], table.c.environment, table.c[column.row], table.c[column.column], *version)
    mine = table.c[column.key].in_(keys)
    return select(*shown).where(mine, table.c[column.column].is_not(None)).order_by(table.c[column.key])


def _sealed(column: SealedColumn, row: Any) -> tuple[Any, Sealed]:
    """The primary key, and what stands there with its address."""
    key, environment, name, ciphertext, *version = row
    number = column.version if isinstance(column.version, int) else version[0]
    return key, Sealed(bytes(ciphertext), environment, column.table, name, column.column, number)


def _replace(column: SealedColumn) -> Any:
    table = metadata.tables[column.table]
    return update(table).where(table.c[column.key] == bindparam("of")).values({column.column: bindparam("sealed")})
