"""Changes of a connection without a new credential: its metadata, tags, end user or webhook URL."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.audit import AuditAction, AuditEntry
from gateway.records.connection import Connection, ConnectionRef, EndUser
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.changes import record_change
from gateway.store.connection_rows import end_user_columns, index_tags, matches_ref, read_written
from gateway.store.tables import connections
from gateway.store.transactions import Transactions


class UnknownConnection(Exception):
    """One of the connections does not exist, so none was changed."""

    def __init__(self, ref: ConnectionRef) -> None:
        super().__init__(ref.connection_id)
        self.ref = ref


class InvalidMetadata(Exception):
    """The new metadata of one connection is not acceptable, so no connection was changed.

    `merged`: the metadata that was not accepted.
    """

    def __init__(self, ref: ConnectionRef, merged_metadata: Mapping[str, Any]) -> None:
        super().__init__(ref.connection_id)
        self.ref = ref
        self.merged = merged_metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """An edit of a connection. A field that is None stays unchanged.

    `tags`: the new tags, which replace all tags of the connection. `webhook_url_override`: the new URL; an empty text
    removes the stored URL.
    """

    end_user: EndUser | None = None
    tags: Mapping[str, str] | None = None
    webhook_url_override: str | None = None


class EditStore:
    """Edits connections. Each edit adds an entry to the change log.

    Raises UnknownConnection if a connection does not exist.
    """

    def __init__(self, transactions: Transactions, trail: AuditTrail) -> None:
        self._transactions = transactions
        self._trail = trail

    async def edit(self, ref: ConnectionRef, changes: Edit, *, now: datetime) -> Connection:
        """Apply `changes` to the connection. Return the changed connection."""
        fields = [name for name in ("end_user", "tags", "webhook_url_override") if getattr(changes, name) is not None]
        reference = {"integration_id": ref.integration_id, "connection_id": ref.connection_id}
        entry = AuditEntry.of(
            AuditAction.CONNECTION_CHANGED, ref.environment, now, **reference, detail={"fields": fields}
        )

        async def write(db: AsyncConnection) -> Connection:
            row = await _lock_row(db, ref)
            row_id = row.id
            columns: dict[str, Any] = {"updated_at": now}
            if changes.end_user is not None:
                columns |= end_user_columns(ref, changes.end_user)
            if changes.webhook_url_override is not None:
                columns["webhook_url_override"] = changes.webhook_url_override or None
            if changes.tags is not None:
                columns["tags"] = {key.lower(): value for key, value in changes.tags.items()}
                await index_tags(db, row_id, changes.tags)
            written_row = await _write_columns(db, ref, columns, now)
            new_end_user_id = written_row.end_user.id if written_row.end_user else None
            if fields:
                await self._trail.record(db, entry, end_user_id=new_end_user_id)
            if row.end_user_id != new_end_user_id:
                await self._trail.forget_after_last_connection(db, ref, row.end_user_id)
            return written_row

        return await self._transactions.write(write)

    async def set_metadata(
        self,
        refs: Sequence[ConnectionRef],
        metadata: Mapping[str, Any],
        *,
        merge: bool,
        is_acceptable: Callable[[Mapping[str, Any]], bool] = lambda _: True,
        now: datetime,
    ) -> list[Connection]:
        """Set the metadata of all `refs`. If a connection is unknown, change no connection.

        `merge`: whether to keep the stored top-level members that `metadata` does not name. `is_acceptable`: returns whether the
        new metadata of a connection is acceptable. Raises UnknownConnection, InvalidMetadata.
        """
        entry = AuditEntry.of(AuditAction.CONNECTION_CHANGED, at=now, detail={"fields": ["metadata"]})

        async def write(db: AsyncConnection) -> list[Connection]:
            # All writers lock rows in the same order, so that no deadlock is possible.
            new_metadata: dict[ConnectionRef, Mapping[str, Any]] = {}
            changed: list[tuple[str, ConnectionRef]] = []  # the id of the end user, and the connection
            for ref in sorted(set(refs)):
                row = await _lock_row(db, ref)
                old_metadata = row.metadata
                new_metadata[ref] = {**old_metadata, **metadata} if merge and old_metadata else metadata
                if not is_acceptable(new_metadata[ref]):
                    raise InvalidMetadata(ref, new_metadata[ref])
                if _as_text(new_metadata[ref]) != _as_text(old_metadata):  # in Python, true equals 1
                    changed.append((row.end_user_id or "", ref))
            rows = [
                await _write_columns(db, ref, {"metadata": dict(merged), "updated_at": now}, now)
                for ref, merged in new_metadata.items()
            ]
            for end_user_id, ref in sorted(changed):  # ordered, because a record can lock a row of its end user
                environment, integration_id, connection_id = ref
                connection_entry = replace(
                    entry, environment=environment, integration_id=integration_id, connection_id=connection_id
                )
                await self._trail.record(db, connection_entry, end_user_id=end_user_id)
            return rows

        return await self._transactions.write(write)


async def _lock_row(db: AsyncConnection, ref: ConnectionRef) -> Any:
    """Lock the row until the transaction ends, and return the columns that an edit needs."""
    query = (
        select(connections.c.id, connections.c.metadata, connections.c.end_user_id)
        .where(matches_ref(ref))
        .with_for_update()
    )
    row = (await db.execute(query)).one_or_none()
    if row is None:
        raise UnknownConnection(ref)
    return row


async def _write_columns(
    db: AsyncConnection, ref: ConnectionRef, columns: Mapping[str, Any], now: datetime
) -> Connection:
    await db.execute(update(connections).where(matches_ref(ref)).values(columns))
    row = await read_written(db, ref)
    await record_change(db, ref, now)
    return row


def _as_text(metadata: Mapping[str, Any] | None) -> str:
    """Return `metadata` as text that differs if its JSON differs."""
    return json.dumps(metadata, sort_keys=True)
