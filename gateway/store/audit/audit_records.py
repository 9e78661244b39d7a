"""Moves records into the chain; finds, prunes and signs records.

`append_to_chain` moves committed records from `audit_pending` to `audit_records`. Only one process at a time moves
records, because `append_to_chain` locks the single row of `audit_state`. If a transaction commits late, its records get
later places in the chain. No record is skipped, because `append_to_chain` always reads all rows of `audit_pending`.
"""

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import ColumnElement, Row, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.records.audit import (
    AuditAction,
    AuditColumns,
    AuditEntry,
    AuditFilter,
    ChainedRecord,
    columns_of,
)
from gateway.store.audit.audit_chain import Checkpoint, first_hash, hash_record, public_text
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.data_keys import DataKeys
from gateway.store.tables import audit_checkpoints, audit_pending, audit_records, audit_state
from gateway.store.transactions import Transactions, insert_if_absent
from gateway.vault import WrappedKey

# records per transaction; takes about ten milliseconds, during which SQLite blocks other writers
ROWS_PER_TRANSACTION: Final = 500
PAGE: Final = 1000
UNREADABLE: Final = "unreadable"
# The signing key is bound to this name, in place of an environment's name. No environment can have this name.
SIGNING_KEY_ENVIRONMENT: Final = "\0audit"
# The store keeps the newest checkpoints, and those that begin a chain. Copies outside the store are not affected.
MAX_CHECKPOINTS: Final = 1000

_STATE: Final = select(audit_state)
_LOCKED_STATE: Final = _STATE.with_for_update()
_PENDING_RECORDS: Final = (
    select(audit_pending.c.id, audit_pending.c.body).order_by(audit_pending.c.id).limit(ROWS_PER_TRANSACTION)
)
_ROWS: Final = select(audit_records).order_by(audit_records.c.sequence)


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """The last record of the chain. `sequence`: 0 if the chain is empty.

    `signed`: the number of the last record with a checkpoint in this store; 0 for none. `signed_at`: the time of this
    checkpoint.
    """

    store: str
    sequence: int
    hash: str
    signed: int
    signed_at: datetime | None


class AuditRecords:
    def __init__(self, transactions: Transactions, trail: AuditTrail, keys: DataKeys) -> None:
        self._transactions = transactions
        self._trail = trail
        self._keys = keys

    # ── The chain: moves records into the chain.

    async def append_to_chain(self) -> int:
        """Move every committed record into the chain. Return how many were moved. Raises Unavailable."""
        total = 0
        while True:
            async with self._transactions.read() as db:
                if (await db.execute(select(audit_pending.c.id).limit(1))).first() is None:
                    return total
            linked_count = await self._transactions.write(self._link_some)
            total += linked_count
            if linked_count < ROWS_PER_TRANSACTION:
                return total

    async def _link_some(self, db: AsyncConnection) -> int:
        state = await lock_state(db)
        waiting = (await db.execute(_PENDING_RECORDS)).all()
        if not waiting:
            return 0
        sequence, digest = state.sequence, state.hash or first_hash(state.store_id)
        rows = []
        for row in waiting:
            sequence += 1
            digest = hash_record(digest, sequence, row.body)
            columns = _columns(row.body)._asdict()
            rows.append({"sequence": sequence, "hash": digest, **columns, "body": row.body})
        await db.execute(insert(audit_records), rows)
        await db.execute(delete(audit_pending).where(audit_pending.c.id.in_([row.id for row in waiting])))
        await db.execute(update(audit_state).values(sequence=sequence, hash=digest))
        return len(rows)

    async def chain_end(self) -> ChainEnd:
        """Return the present end of the chain."""
        newest_query = select(audit_checkpoints.c.sequence, audit_checkpoints.c.at)
        async with self._transactions.read() as db:
            state = (await db.execute(_STATE)).one_or_none()
            signed = (await db.execute(newest_query.order_by(audit_checkpoints.c.sequence.desc()).limit(1))).first()
        if state is None:
            return ChainEnd("", 0, "", 0, None)
        return ChainEnd(
            state.store_id,
            state.sequence,
            state.hash or first_hash(state.store_id),
            0 if signed is None else signed.sequence,
            None if signed is None else signed.at,
        )

    async def count_waiting(self) -> int:
        """Return how many committed records are not in the chain yet."""
        async with self._transactions.read() as db:
            return int((await db.execute(select(func.count()).select_from(audit_pending))).scalar_one())

    # ── Checkpoints.

    async def checkpoint(self, *, now: datetime, after: int = 0) -> Checkpoint | None:
        """Sign the end of the chain and store the checkpoint.

        Returns None if there is no new record after the last checkpoint, or if another process has signed a record
        above `after`. `after`: the number of a record; 0 to skip this check. Raises VaultError if the signing key
        cannot be opened.
        """

        async def work(db: AsyncConnection) -> Checkpoint | None:
            state = await lock_state(db)
            newest_query = select(func.max(audit_checkpoints.c.sequence))
            signed = (await db.execute(newest_query)).scalar() or 0
            if state.sequence <= signed or (after and signed > after):
                return None
            key = await self._signing_key(db, state, now)
            if state.key_id is None:  # the next checkpoint covers the record of the key's creation
                self._trail.record_written.set()
            checkpoint = Checkpoint(state.store_id, state.sequence, state.hash, now).sign(key)
            await _insert_checkpoint(db, checkpoint, starts=False)
            sequences_query = select(audit_checkpoints.c.sequence).order_by(audit_checkpoints.c.sequence.desc())
            newest_surplus = sequences_query.limit(1).offset(MAX_CHECKPOINTS).scalar_subquery()
            statement = delete(audit_checkpoints).where(
                ~audit_checkpoints.c.starts, audit_checkpoints.c.sequence <= newest_surplus
            )
            await db.execute(statement)
            return checkpoint

        return await self._transactions.write(work)

    async def checkpoints(self) -> list[Checkpoint]:
        """Return the checkpoints in this store, the oldest first.

        They do not reveal changes by a person who can write to the store, because this person can change them too.
        """
        async with self._transactions.read() as db:
            store = await _store_id(db)
            rows = (await db.execute(select(audit_checkpoints).order_by(audit_checkpoints.c.sequence))).all()
        return [_checkpoint(store, row) for row in rows]

    async def start(self) -> tuple[int, str, Checkpoint | None]:
        """Return the sequence number and the hash before the chain's first record.

        If records were pruned, also return the checkpoint at this place; otherwise None.
        """
        start_query = select(audit_checkpoints).where(audit_checkpoints.c.starts)
        async with self._transactions.read() as db:
            store = await _store_id(db)
            row = (await db.execute(start_query.order_by(audit_checkpoints.c.sequence.desc()).limit(1))).first()
        if row is None:
            return 0, first_hash(store), None
        return row.sequence, row.hash, _checkpoint(store, row)

    async def public_key(self, *, now: datetime) -> str:
        """Return the public key in base64. Create the signing key if there is none.

        Raises VaultError if the signing key cannot be opened.
        """

        async def work(db: AsyncConnection) -> str:
            return public_text(await self._signing_key(db, await lock_state(db), now))

        return await self._transactions.write(work)

    async def new_key(self, *, now: datetime) -> str:
        """Replace the signing key. Return the new public key. The old public key still proves older checkpoints."""
        entry = AuditEntry.of(AuditAction.AUDIT_KEY_CREATED, at=now)

        async def work(db: AsyncConnection) -> str:
            await lock_state(db)
            return public_text(await self._make_key(db, entry))

        return await self._transactions.write(work)

    async def _signing_key(self, db: AsyncConnection, state: Row[Any], now: datetime) -> Ed25519PrivateKey:
        if state.key_id is None:
            return await self._make_key(db, AuditEntry.of(AuditAction.AUDIT_KEY_CREATED, at=now))
        wrapped_key = WrappedKey(state.key_id, SIGNING_KEY_ENVIRONMENT, state.master_key_id, bytes(state.wrapped))
        return Ed25519PrivateKey.from_private_bytes(self._keys.keyring.unwrap(wrapped_key))

    async def _make_key(self, db: AsyncConnection, entry: AuditEntry) -> Ed25519PrivateKey:
        wrapped, seed = self._keys.keyring.new_data_key(SIGNING_KEY_ENVIRONMENT)
        values = {"key_id": wrapped.id, "master_key_id": wrapped.master_key_id, "wrapped": wrapped.wrapped}
        await db.execute(update(audit_state).values(values))
        key = Ed25519PrivateKey.from_private_bytes(seed)
        detail = {"public": public_text(key)}
        await self._trail.record(db, replace(entry, detail=detail))
        return key

    # ── Reading.

    async def find(self, filters: AuditFilter, *, oldest_first: bool = False) -> list[ChainedRecord]:
        """Return matching records, the newest first, up to the limit of `filters`.

        `oldest_first`: whether to begin with the oldest instead.
        """
        async with self._transactions.read() as db:
            conditions = await self._conditions(db, filters)
            if conditions is None:
                return []
            order = audit_records.c.sequence if oldest_first else audit_records.c.sequence.desc()
            rows = await db.execute(select(audit_records).where(*conditions).order_by(order).limit(filters.limit))
            return [_record(row) for row in rows]

    async def pages(self, filters: AuditFilter) -> AsyncIterator[list[ChainedRecord]]:
        """Yield all matching records in pages, the oldest first. The limit of `filters` is ignored."""
        last_sequence = filters.after or 0
        while True:
            page = await self.find(replace(filters, after=last_sequence, limit=PAGE), oldest_first=True)
            if page:
                yield page
                last_sequence = page[-1].sequence
            if len(page) < PAGE:
                return

    async def _conditions(self, db: AsyncConnection, filters: AuditFilter) -> list[ColumnElement[bool]] | None:
        """Return the conditions of a search; None if no record can match."""
        table = audit_records.c
        exact = {
            table.environment: filters.environment,
            table.action: filters.action,
            table.integration_id: filters.integration_id,
            table.connection_id: filters.connection_id,
        }
        conditions: list[ColumnElement[bool]] = [
            column == value for column, value in exact.items() if value is not None
        ]
        if filters.key_ids:
            conditions.append(table.key_id.in_(filters.key_ids))
        if filters.since is not None:
            conditions.append(table.at >= filters.since)
        if filters.until is not None:
            conditions.append(table.at < filters.until)
        if filters.before is not None:
            conditions.append(table.sequence < filters.before)
        if filters.after is not None:
            conditions.append(table.sequence > filters.after)
        if filters.end_user_id is not None:
            digest = await self._trail.known_digest(db, filters.environment or "", filters.end_user_id)
            if digest is None:
                return None
            conditions.append(table.end_user == digest)
        return conditions

    # ── Pruning.

    async def prune(self, before: datetime, *, now: datetime) -> int:
        """Remove the records older than `before`, from the first record on and without a gap. Return how many.

        The store keeps a checkpoint at the new beginning of the chain. First, a record that names this checkpoint is
        added to the chain; then the records are removed. Raises VaultError if the signing key cannot be opened.
        """
        entry = AuditEntry.of(AuditAction.AUDIT_PRUNED, at=now)

        async def begin(db: AsyncConnection) -> Checkpoint | None:
            state = await lock_state(db)
            first_younger_query = select(func.min(audit_records.c.sequence)).where(audit_records.c.at >= before)
            first_kept = (
                await db.execute(first_younger_query)
            ).scalar() or state.sequence  # the last record always stays
            row = (await db.execute(_ROWS.where(audit_records.c.sequence == first_kept - 1))).first()
            if row is None:
                return None
            key = await self._signing_key(db, state, now)
            checkpoint = Checkpoint(state.store_id, row.sequence, row.hash, now).sign(key)
            await db.execute(delete(audit_checkpoints).where(audit_checkpoints.c.sequence == checkpoint.sequence))
            await _insert_checkpoint(db, checkpoint, starts=True)
            detail = {"to_sequence": checkpoint.sequence, "to_hash": checkpoint.hash, "before": before.isoformat()}
            await self._trail.record(db, replace(entry, detail=detail))
            return checkpoint

        start = await self._transactions.write(begin)
        if start is None:
            return 0
        await self.append_to_chain()
        return await self._remove(start.sequence)

    async def is_oldest_before(self, moment: datetime) -> bool:
        """Return whether the first record is older than `moment`."""
        oldest_query = select(audit_records.c.at).order_by(audit_records.c.sequence).limit(1)
        async with self._transactions.read() as db:
            oldest_at = (await db.execute(oldest_query)).scalar()
        return oldest_at is not None and oldest_at < moment

    async def finish_pruning(self) -> int:
        """Continue an interrupted pruning. Return how many records were removed."""
        pruned_to, _, start = await self.start()
        return 0 if start is None else await self._remove(pruned_to)

    async def _remove(self, last_sequence: int) -> int:
        total = 0
        oldest_query = select(audit_records.c.sequence).where(audit_records.c.sequence <= last_sequence)
        batch = oldest_query.order_by(audit_records.c.sequence).limit(PAGE).scalar_subquery()
        statement = delete(audit_records).where(audit_records.c.sequence.in_(batch))
        while True:
            removed_count = (await self._transactions.write(lambda db: db.execute(statement))).rowcount
            total += removed_count
            if removed_count < PAGE:
                return total

    # ── The configuration that was recorded last.

    async def record_configuration(self, digest: str, entry: AuditEntry) -> bool:
        """Write `entry` if `digest` differs from the digest recorded last. Return whether the entry was written.

        If several processes load the same configuration, only one of them writes the entry.
        """

        async def work(db: AsyncConnection) -> bool:
            state = await lock_state(db)
            if state.configuration_digest == digest:
                return False
            await db.execute(update(audit_state).values(configuration_digest=digest))
            await self._trail.record(db, entry)
            return True

        async with self._transactions.read() as db:
            state = (await db.execute(_STATE)).one_or_none()
            if state is not None and state.configuration_digest == digest:
                return False
        return await self._transactions.write(work)


def _columns(body: str) -> AuditColumns:
    """Return the columns of `body`.

    An unreadable body, which somebody has written into `audit_pending`, enters the chain too. There it does not block
    other records, and `gateway audit verify` reports it.
    """
    try:
        return columns_of(body)
    except ValueError:
        return AuditColumns(clock.now(), "", UNREADABLE, None, "", "", "")


async def lock_state(db: AsyncConnection) -> Row[Any]:
    """Lock the single row of `audit_state` until the transaction ends, and return it. Create the row at first use."""
    state = (await db.execute(_LOCKED_STATE)).one_or_none()
    if state is None:
        row = {"id": 1, "store_id": uuid.uuid4().hex, "sequence": 0, "hash": ""}
        await insert_if_absent(db, audit_state, row, key=["id"])
        state = (await db.execute(_LOCKED_STATE)).one()
    return state


async def _store_id(db: AsyncConnection) -> str:
    state = (await db.execute(_STATE)).one_or_none()
    return "" if state is None else state.store_id


async def _insert_checkpoint(db: AsyncConnection, checkpoint: Checkpoint, *, starts: bool) -> None:
    row = {
        "sequence": checkpoint.sequence,
        "hash": checkpoint.hash,
        "at": checkpoint.at,
        "public_key": checkpoint.public_key,
        "signature": checkpoint.signature,
        "starts": starts,
    }
    await db.execute(insert(audit_checkpoints).values(row))


def _checkpoint(store: str, row: Row[Any]) -> Checkpoint:
    return Checkpoint(store, row.sequence, row.hash, row.at, row.public_key, row.signature)


def _record(row: Row[Any]) -> ChainedRecord:
    columns = AuditColumns(*(getattr(row, name) for name in AuditColumns._fields))
    return ChainedRecord(row.sequence, row.hash, columns, row.body)
