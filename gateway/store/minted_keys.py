"""Minted keys, stored by digest. Each added or revoked key gets a change log entry, so that all nodes notice it."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, RowMapping, Select, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import Conflict, NotFound
from gateway.records.access import KeyLimits, KeyTerms, MintedKey, ReplacedKey
from gateway.records.audit import AuditAction, AuditActor, AuditEntry
from gateway.records.connection import ConnectionRef
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.changes import record_change, record_changes
from gateway.store.tables import environments, keys
from gateway.store.transactions import Transactions

KEPT_AFTER_END: Final = timedelta(days=90)
MAX_AT_ONCE: Final = 500  # digests in one statement
MAX_ANCESTORS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMintedKey(KeyTerms):
    """A key to be stored.

    `replaces`: the id of the key that the new key replaces; None to replace no key. `replaced_ends_at`: when the
    replaced key ends, unless it expires earlier; None: immediately.
    """

    replaces: int | None = None
    replaced_ends_at: datetime | None = None


class KeyStore:
    def __init__(self, transactions: Transactions, trail: AuditTrail) -> None:
        self._transactions = transactions
        self._trail = trail

    async def get(self, digest: str) -> MintedKey | None:
        return await self._find_one(keys.c.digest == digest)

    async def find(self, environment: str, key_id: int) -> MintedKey | None:
        return await self._find_one(keys.c.environment == environment, keys.c.id == key_id)

    async def family(self, environment: str, key_id: int, *, limit: int) -> list[MintedKey]:
        """Return the key and all keys minted from it, at any depth, the oldest first. Empty if there is no such key."""
        root = select(keys.c.id).where(keys.c.environment == environment, keys.c.id == key_id).cte(recursive=True)
        members = root.union(select(keys.c.id).join(root, keys.c.parent_id == root.c.id))
        query = select(keys).where(keys.c.id.in_(select(members.c.id))).order_by(keys.c.id).limit(limit)
        async with self._transactions.read() as db:
            return [_key(row) for row in (await db.execute(query)).mappings()]

    async def names(self, environment: str, key_ids: Collection[int]) -> dict[int, str]:
        """Return the names of these keys by id. The result omits keys that do not exist."""
        query = select(keys.c.id, keys.c.name).where(keys.c.environment == environment, keys.c.id.in_(key_ids))
        async with self._transactions.read() as db:
            return {row.id: row.name for row in await db.execute(query)}

    async def list(
        self,
        environment: str,
        *,
        alive_at: datetime | None = None,
        parent_id: int | None = None,
        before_id: int | None = None,
        limit: int,
    ) -> list[MintedKey]:
        """Return keys, the newest first. `alive_at`: only keys that are neither revoked nor expired at this time."""
        query = select(keys).where(keys.c.environment == environment).order_by(keys.c.id.desc()).limit(limit)
        if alive_at is not None:
            query = query.where(*_alive(alive_at))
        if parent_id is not None:
            query = query.where(keys.c.parent_id == parent_id)
        if before_id is not None:
            query = query.where(keys.c.id < before_id)
        async with self._transactions.read() as db:
            return [_key(row) for row in (await db.execute(query)).mappings()]

    async def add(self, new_key: NewMintedKey, *, now: datetime) -> MintedKey:
        """Store the key.

        Raises Conflict if another active key has the same name, or if the parent key was revoked. Raises NotFound if
        the key to replace does not exist.
        """
        entry = AuditEntry.of(AuditAction.KEY_CREATED, new_key.environment, now, detail=_as_detail(new_key))

        async def write(db: AsyncConnection) -> MintedKey:
            await _lock_keys(db, new_key.environment)
            if new_key.parent_id is not None:
                await _check_parent(db, new_key.parent_id)
            replaced = None
            if new_key.replaces is not None:
                replaced = await self._replace(db, new_key, now)
            else:
                await self._check_name(db, new_key, now)
            row = {name: getattr(new_key, name) for name in _STORED_FIELDS} | {
                "scopes": list(new_key.scopes),
                "limits": [key_limits.as_stored() for key_limits in new_key.limits],
                "calls": 0,
                "created_at": now,
            }
            await db.execute(insert(keys).values(row))
            stored_row = (await db.execute(select(keys).where(keys.c.digest == new_key.digest))).mappings().one()
            if new_key.replaces is not None:
                await self._move_children(db, new_key.replaces, stored_row["id"], now)
            await self._trail.record(db, dataclasses.replace(entry, key_id=stored_row["id"]))
            await record_change(db, changed_key(new_key.environment, new_key.digest), now)
            return dataclasses.replace(_key(stored_row), replaced=replaced)

        return await self._transactions.write(write)

    async def revoke(self, environment: str, key_id: int, *, now: datetime) -> Sequence[str]:
        """Revoke the key and all keys minted from it, at any depth. Return the digests of the keys revoked now."""
        entry = AuditEntry.of(AuditAction.KEY_REVOKED, environment, now)

        async def write(db: AsyncConnection) -> Sequence[str]:
            await _lock_keys(db, environment)
            ended_digests: dict[int, str] = {}
            seen_ids: set[int] = set()
            level: list[ColumnElement[bool]] = [keys.c.id == key_id]
            while level:
                # Locked, so that no transaction can mint another key from these keys before they are revoked.
                query = select(keys).where(keys.c.environment == environment, *level).with_for_update()
                rows = [row for row in (await db.execute(query)).mappings() if row["id"] not in seen_ids]
                seen_ids |= {row["id"] for row in rows}
                ended_digests |= {row["id"]: row["digest"] for row in rows if row["revoked_at"] is None}
                level = [keys.c.parent_id.in_([row["id"] for row in rows])] if rows else []
            if ended_digests:
                await db.execute(update(keys).where(keys.c.id.in_(ended_digests)).values(revoked_at=now))
                for ended_id, digest in ended_digests.items():
                    detail = {} if ended_id == key_id else {"with_key": key_id}
                    await self._trail.record(db, dataclasses.replace(entry, key_id=ended_id, detail=detail))
                    await record_change(db, changed_key(environment, digest), now)
            return list(ended_digests.values())

        return await self._transactions.write(write)

    async def withdraw(self, key: MintedKey, *, now: datetime) -> None:
        """Revoke a new key that nobody received, and undo its replacement of another key.

        `key`: the result of `add`. The replaced key gets back the keys minted from it, and its former end, unless its
        end has been changed again.
        """
        replaced = key.replaced
        restored = {} if replaced is None else {"restored_key": replaced.before.id}
        entry = AuditEntry.of(AuditAction.KEY_REVOKED, key.environment, now, key_id=key.id, detail=restored)

        async def write(db: AsyncConnection) -> None:
            await _lock_keys(db, key.environment)
            await db.execute(update(keys).where(keys.c.id == key.id).values(revoked_at=now))
            await self._trail.record(db, entry)
            await record_change(db, changed_key(key.environment, key.digest), now)
            if replaced is not None:
                former_key, unchanged = replaced.before, keys.c.expires_at.is_not_distinct_from(replaced.ends_at)
                restore_end = (
                    update(keys).where(keys.c.id == former_key.id, unchanged).values(expires_at=former_key.expires_at)
                )
                await db.execute(restore_end)
                await record_change(db, changed_key(key.environment, former_key.digest), now)
                await self._move_children(db, key.id, former_key.id, now)

        await self._transactions.write(write)

    async def record_uses(self, digests: Sequence[str], *, now: datetime) -> None:
        """Record that these keys were used. A key's first use also gets an audit record."""
        entry = AuditEntry.of(AuditAction.KEY_FIRST_USED, "", now)
        for start in range(0, len(digests), MAX_AT_ONCE):
            batch = digests[start : start + MAX_AT_ONCE]
            # Skips keys that another transaction has locked, because waiting could cause a deadlock: `revoke` locks
            # several keys in another order.
            free_keys_query = select(keys.c.digest).where(keys.c.digest.in_(batch)).with_for_update(skip_locked=True)
            recorded = await self._transactions.write(partial(self._record_use, query=free_keys_query, entry=entry))
            for key_digest in set(batch) - recorded:
                lock_query = select(keys.c.digest).where(keys.c.digest == key_digest).with_for_update()
                await self._transactions.write(partial(self._record_use, query=lock_query, entry=entry))

    async def _record_use(self, db: AsyncConnection, query: Select[str], entry: AuditEntry) -> set[str]:
        """Record the use of the keys that `query` selects and locks. Return the digests of these keys."""
        digests = set((await db.execute(query)).scalars())
        use_update = update(keys).where(keys.c.digest.in_(digests)).values(last_used_at=entry.at)
        first_uses = use_update.where(keys.c.last_used_at.is_(None)).returning(
            keys.c.id, keys.c.environment, keys.c.name
        )
        for key in (await db.execute(first_uses)).all():
            actor = AuditActor("key", key_id=key.id, name=key.name, address=entry.actor.address)
            first_use = dataclasses.replace(entry, environment=key.environment, key_id=key.id, actor=actor)
            await self._trail.record(db, first_use)
        await db.execute(use_update)
        return digests

    async def ancestors(self, key: MintedKey) -> tuple[int, ...]:
        """Return the ids of the key's parent, the parent's parent, and so on."""
        ids: list[int] = []
        async with self._transactions.read() as db:
            parent_id = key.parent_id
            while parent_id is not None and parent_id not in ids and len(ids) < MAX_ANCESTORS:
                ids.append(parent_id)
                parent_id = (await db.execute(select(keys.c.parent_id).where(keys.c.id == parent_id))).scalar()
        return tuple(ids)

    async def reserve_calls(self, digest: str, limit: int) -> int:
        """Reserve up to `limit` calls, but at most a twentieth of the remaining budget. Return their number.

        A negative `limit` returns unused calls to the budget.
        """

        async def write(db: AsyncConnection) -> int:
            of_key = keys.c.digest == digest
            row = (await db.execute(select(keys.c.calls, keys.c.budget).where(of_key).with_for_update())).one_or_none()
            if row is None or row.budget is None:
                return 0
            calls_left = max(0, row.budget - row.calls)
            reserved = max(limit, -row.calls) if limit < 0 else min(limit, calls_left, max(1, calls_left // 20))
            if reserved:
                await db.execute(update(keys).where(of_key).values(calls=keys.c.calls + reserved))
            return int(reserved)

        return await self._transactions.write(write)

    async def prune(self, now: datetime) -> None:
        """Remove keys that ended long ago (`KEPT_AFTER_END`)."""
        ended_before = now - KEPT_AFTER_END
        statement = delete(keys).where(or_(keys.c.revoked_at < ended_before, keys.c.expires_at < ended_before))
        await self._transactions.write(lambda db: db.execute(statement))

    async def _find_one(self, *conditions: ColumnElement[bool]) -> MintedKey | None:
        async with self._transactions.read() as db:
            row = (await db.execute(select(keys).where(*conditions))).mappings().first()
        return None if row is None else _key(row)

    async def _check_name(self, db: AsyncConnection, new_key: NewMintedKey, now: datetime) -> None:
        same_name_query = select(keys.c.id).where(
            keys.c.environment == new_key.environment, keys.c.name == new_key.name, *_alive(now)
        )
        holder_id: int | None = (await db.execute(same_name_query)).scalars().first()
        if holder_id is not None:
            raise Conflict(
                "conflict",
                f"Key {holder_id} of environment '{new_key.environment}' has the name '{new_key.name}' already. Choose "
                f"another name, revoke it, or replace it (--replaces {holder_id}, through the API replaces: {holder_id}).",
                payload={"key_id": holder_id},
            )

    async def _move_children(self, db: AsyncConnection, old_id: int, new_id: int, now: datetime) -> None:
        """Make the new key the parent of the keys minted from the old key.

        Each node reads the active ones among them again, at any depth, because it keeps the ids of a key's ancestors.
        """
        await db.execute(update(keys).where(keys.c.parent_id == old_id).values(parent_id=new_id))
        children = select(keys.c.id).where(keys.c.parent_id == new_id).cte(recursive=True)
        descendants = children.union(select(keys.c.id).join(children, keys.c.parent_id == children.c.id))
        query = select(keys.c.environment, keys.c.digest).where(keys.c.id.in_(select(descendants.c.id)), *_alive(now))
        rows = (await db.execute(query)).all()
        await record_changes(db, [changed_key(row.environment, row.digest) for row in rows], now)

    async def _replace(self, db: AsyncConnection, new_key: NewMintedKey, now: datetime) -> ReplacedKey:
        """Let the replaced key end when `new_key` says, if it does not end earlier. Raises NotFound."""
        active_key = keys.c.environment == new_key.environment, keys.c.id == new_key.replaces, *_alive(now)
        old_row = (await db.execute(select(keys).where(*active_key).with_for_update())).mappings().first()
        if old_row is None:
            raise NotFound(
                "not_found",
                f"There is no active key {new_key.replaces} to replace. List the keys with `gateway keys list` or GET "
                "/environment/api-keys.",
            )
        old_key, ends_at = _key(old_row), new_key.replaced_ends_at or now
        if old_key.expires_at is not None and old_key.expires_at <= ends_at:
            return ReplacedKey(old_key, old_key.expires_at)
        await db.execute(update(keys).where(keys.c.id == new_key.replaces).values(expires_at=ends_at))
        await record_change(db, changed_key(new_key.environment, old_key.digest), now)
        return ReplacedKey(old_key, ends_at)


_STORED_FIELDS: Final = (
    "digest",
    "environment",
    "kind",
    "name",
    "last_four",
    "rate",
    "budget",
    "created_by",
    "parent_id",
    "expires_at",
)


async def _lock_keys(db: AsyncConnection, environment: str) -> None:
    """Let only one transaction at a time mint or revoke keys of an environment. The lock ends with the commit.

    Each of these transactions checks names and locks several keys. Without this lock, two transactions could wait for
    each other.
    """
    environment_query = select(environments.c.name).where(environments.c.name == environment)
    await db.execute(environment_query.with_for_update(key_share=True))


async def _check_parent(db: AsyncConnection, parent_id: int) -> None:
    """Raise Conflict if the key `parent_id` was revoked.

    Also locks the key, so that `revoke` waits for this transaction and then also revokes the new key.
    """
    parent_query = select(keys.c.revoked_at).where(keys.c.id == parent_id).with_for_update(read=True)
    row = (await db.execute(parent_query)).one_or_none()
    if row is not None and row.revoked_at is not None:
        message = f"Key {parent_id} was revoked, so it cannot mint another key. Use a key that is active."
        raise Conflict("conflict", message, payload={"key_id": parent_id})


def changed_key(environment: str, digest: str) -> ConnectionRef:
    """Return the reference of a key in the change log. A reference without an integration cannot be a connection."""
    return ConnectionRef(environment, "", digest)


def _as_detail(new_key: NewMintedKey) -> dict[str, Any]:
    """Return the detail for the audit record of a new key. The detail says what the key may do, without the key."""
    members = {
        "kind": new_key.kind,
        "name": new_key.name,
        "scopes": list(new_key.scopes),
        "limits": [key_limits.as_json() for key_limits in new_key.limits],
        "rate": new_key.rate,
        "budget": new_key.budget,
        "expires_at": None if new_key.expires_at is None else new_key.expires_at.isoformat(),
        "parent": new_key.parent_id,
        "replaces": new_key.replaces,
    }
    return {name: value for name, value in members.items() if value not in (None, [])}


def _alive(now: datetime) -> tuple[ColumnElement[bool], ...]:
    return keys.c.revoked_at.is_(None), or_(keys.c.expires_at.is_(None), keys.c.expires_at > now)


def _key(row: RowMapping) -> MintedKey:
    members: Mapping[str, Any] = dict(row)
    limits = tuple(KeyLimits.from_json(member) for member in members["limits"])
    return MintedKey(**{**members, "scopes": tuple(members["scopes"]), "limits": limits})
