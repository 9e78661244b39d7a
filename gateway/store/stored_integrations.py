"""Integrations created through the API, with sealed secrets. Every change adds an entry to the change log."""

import uuid
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, Final

import structlog
from sqlalchemy import ColumnElement, RowMapping, Select, and_, delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import NotFound
from gateway.records.audit import AuditAction, AuditEntry
from gateway.records.connection import ConnectionRef, NewConnection, Sealed
from gateway.records.integration import ApiManagedRow, Integration
from gateway.secret import Secret
from gateway.store.audit.audit_trail import AuditTrail
from gateway.store.changes import record_change
from gateway.store.data_keys import DataKeys
from gateway.store.tables import connections, integrations
from gateway.store.transactions import Transactions, insert_if_absent
from gateway.vault import Vault, VaultError

SECRET_FIELDS: Final = ("client_secret", "private_key", "webhook_secret")
PLAIN_FIELDS: Final = ("client_id", "app_id", "app_link", "allow_unsigned_webhooks")

log = structlog.get_logger(__name__)


class IntegrationStore:
    """Integrations created through the API.

    If a row has a time in `ending_at`, the integration is being deleted. Only `list_ending` returns such rows.
    """

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys, trail: AuditTrail) -> None:
        self._transactions = transactions
        self._trail = trail
        self._vault = vault
        self._keys = keys

    async def all(self) -> list[Integration]:
        """Return the integrations of every environment, the oldest first.

        An integration that no key in the keyring opens is logged, and not returned.
        """
        query = select(integrations).where(integrations.c.ending_at.is_(None)).order_by(integrations.c.created_at)
        return await self._read_decryptable(query)

    async def _read_decryptable(self, query: Select[Any]) -> list[Integration]:
        readable = []
        for row in await self._rows(query):
            try:
                readable.append(await self._record(row))
            except VaultError as fault:
                log.error("integration_cannot_be_opened", integration=row["integration_id"], detail=str(fault))
        return readable

    async def get(self, environment: str, integration_id: str) -> Integration | None:
        """Return the integration; None if it does not exist. Raises VaultError if no key opens its secrets."""
        query = select(integrations).where(_is_row_of(environment, integration_id), integrations.c.ending_at.is_(None))
        rows = await self._rows(query)
        return await self._record(rows[0]) if rows else None

    async def list_ending(self) -> list[Integration]:
        """Return the integrations whose deletion has begun but is not complete.

        Each integration includes the secrets that are needed to revoke the tokens of its connections.
        """
        return await self._read_decryptable(select(integrations).where(integrations.c.ending_at.is_not(None)))

    async def add(self, new_integration: Integration, *, now: datetime) -> Integration | None:
        """Store `new_integration`. Return the stored integration; None if its `integration_id` is already in use."""
        managed_row = ApiManagedRow(uuid.uuid4().hex, 1, now, now)
        stored_integration = replace(new_integration, managed_row=managed_row)
        entry = _entry(AuditAction.INTEGRATION_CREATED, new_integration, now, provider=new_integration.provider)

        async def write(db: AsyncConnection) -> bool:
            row = {**self._columns(stored_integration, managed_row), "uid": managed_row.uid, "created_at": now}
            if not await insert_if_absent(db, integrations, row, key=["environment", "integration_id"]):
                return False
            await self._trail.record(db, entry)
            await _add_change(db, new_integration.environment, new_integration.integration_id, now=now)
            return True

        return stored_integration if await self._write(new_integration.environment, write) else None

    async def change(
        self, old_integration: Integration, new_integration: Integration, *, now: datetime
    ) -> Integration | None:
        """Change `old_integration` to `new_integration`, which can have another `integration_id`. Return the stored integration.

        Returns None if the integration was changed in the meantime, if the new `integration_id` is already in use, or
        if connections use the old one.
        """
        assert old_integration.managed_row is not None
        managed_row = replace(
            old_integration.managed_row, version=old_integration.managed_row.version + 1, updated_at=now
        )
        stored_integration = replace(new_integration, managed_row=managed_row)
        is_unchanged = and_(
            integrations.c.uid == managed_row.uid,
            integrations.c.version == old_integration.managed_row.version,
            integrations.c.ending_at.is_(None),
        )
        entry = _entry(
            AuditAction.INTEGRATION_CHANGED,
            new_integration,
            now,
            fields=_changed_fields(old_integration, new_integration),
        )

        async def write(db: AsyncConnection) -> bool:
            if new_integration.integration_id != old_integration.integration_id:
                # Locked, so that `lock_integration` waits.
                await db.execute(select(integrations.c.uid).where(is_unchanged).with_for_update())
                if await _is_rename_refused(db, old_integration, new_integration):
                    return False
            statement = update(integrations).where(is_unchanged).values(self._columns(stored_integration, managed_row))
            if (await db.execute(statement)).rowcount == 0:
                return False
            await self._trail.record(db, entry)
            for key in dict.fromkeys((old_integration.integration_id, new_integration.integration_id)):
                await _add_change(db, new_integration.environment, key, now=now)
            return True

        try:
            return stored_integration if await self._write(new_integration.environment, write) else None
        # Another process has used the new `integration_id` after `_is_rename_refused` had checked it.
        except IntegrityError:
            if new_integration.integration_id == old_integration.integration_id:
                raise
            return None

    async def record_read(self, integration: Integration, *, now: datetime) -> None:
        """Record that the client secret is about to be returned.

        If this method raises Unavailable, the caller must not return the secret.
        """
        await self._trail.write(_entry(AuditAction.CLIENT_SECRET_READ, integration, now))

    async def has_connections(self, environment: str, integration_id: str) -> bool:
        async with self._transactions.read() as db:
            return (await db.execute(_connections_of(environment, integration_id))).first() is not None

    async def begin_deletion(self, integration: Integration, *, now: datetime) -> bool:
        """Mark the integration as deleted: from then on, no node uses it. Return False if the deletion has already begun.

        The integration's connections still exist. The caller deletes the connections next.
        """
        assert integration.managed_row is not None
        condition = and_(integrations.c.uid == integration.managed_row.uid, integrations.c.ending_at.is_(None))
        entry = _entry(AuditAction.INTEGRATION_DELETED, integration, now)

        async def write(db: AsyncConnection) -> bool:
            if (await db.execute(update(integrations).where(condition).values(ending_at=now))).rowcount == 0:
                return False
            await self._trail.record(db, entry)
            await _add_change(db, integration.environment, integration.integration_id, now=now)
            return True

        return await self._transactions.write(write)

    async def delete_without_connections(self, integration: Integration) -> bool:
        """Delete the integration's row if it has no connections. Return whether the row no longer exists."""
        assert integration.managed_row is not None
        condition = and_(integrations.c.uid == integration.managed_row.uid, integrations.c.ending_at.is_not(None))
        has_connections = _connections_of(integration.environment, integration.integration_id).exists()

        async def write(db: AsyncConnection) -> None:
            # First wait for transactions that are storing a connection (`lock_integration`). The next statement then
            # sees the stored connections.
            await db.execute(select(integrations.c.uid).where(condition).with_for_update())
            await db.execute(delete(integrations).where(condition, ~has_connections))

        await self._transactions.write(write)
        async with self._transactions.read() as db:
            row_query = select(integrations.c.uid).where(integrations.c.uid == integration.managed_row.uid)
            return (await db.execute(row_query)).first() is None

    async def _write(self, environment: str, write: Any) -> bool:
        was_written: bool = await self._transactions.write(write, before=lambda: self._keys.allow(environment))
        return was_written

    async def _rows(self, query: Any) -> list[RowMapping]:
        async with self._transactions.read() as db:
            return list((await db.execute(query)).mappings())

    def _columns(self, integration: Integration, managed_row: ApiManagedRow) -> dict[str, Any]:
        secret_values = {
            name: value.reveal() for name in SECRET_FIELDS if (value := getattr(integration, name)) is not None
        }
        other_values = {name: value for name in PLAIN_FIELDS if (value := getattr(integration, name)) is not None}
        # The hosts are sealed together with the secrets. So a person who can write to the database cannot redirect the
        # secrets to another host.
        hosts = {"allowed_hosts": list(integration.allowed_hosts)} if integration.allowed_hosts else {}
        secrets = {**other_values, **secret_values, **hosts, "custom": dict(integration.custom)}
        return {
            "environment": integration.environment,
            "integration_id": integration.integration_id,
            "provider": integration.provider,
            "version": managed_row.version,
            "display_name": integration.display_name,
            "forward_webhooks": integration.forward_webhooks,
            "scopes": None if integration.scopes is None else list(integration.scopes),
            "secrets": self._vault.seal_json(secrets, **_seal_place(integration.environment, managed_row)).ciphertext,
            "updated_at": managed_row.updated_at,
        }

    async def _record(self, row: RowMapping) -> Integration:
        managed_row = ApiManagedRow(row["uid"], row["version"], row["created_at"], row["updated_at"])
        sealed = Sealed(row["secrets"], **_seal_place(row["environment"], managed_row))
        await self._keys.load_keys_of(sealed)
        secrets = self._vault.open_json(sealed)
        return Integration(
            environment=row["environment"],
            integration_id=row["integration_id"],
            provider=row["provider"],
            display_name=row["display_name"],
            scopes=None if row["scopes"] is None else tuple(row["scopes"]),
            forward_webhooks=row["forward_webhooks"],
            allowed_hosts=tuple(secrets.get("allowed_hosts", ())),
            custom=tuple(secrets["custom"].items()),
            managed_row=managed_row,
            **_secrets_of(secrets),
        )


def _entry(action: AuditAction, integration: Integration, now: datetime, **detail: Any) -> AuditEntry:
    entry_fields = {"integration_id": integration.integration_id, "detail": detail}
    return AuditEntry.of(action, integration.environment, now, **entry_fields)


def _changed_fields(old_integration: Integration, new_integration: Integration) -> list[str]:
    """Return the names of the fields that differ, but not their values, because some are secret."""
    names = [field.name for field in fields(Integration) if field.name != "managed_row"]
    return [name for name in names if getattr(old_integration, name) != getattr(new_integration, name)]


def _secrets_of(secrets: Mapping[str, Any]) -> dict[str, Any]:
    secret_values = {name: Secret(secrets[name]) for name in SECRET_FIELDS if name in secrets}
    return {**{name: secrets[name] for name in PLAIN_FIELDS if name in secrets}, **secret_values}


def _seal_place(environment: str, managed_row: ApiManagedRow) -> dict[str, Any]:
    """Return the place that the integration's secrets are bound to: the row's `uid`, because it never changes."""
    return {
        "environment": environment,
        "table": "integrations",
        "row": managed_row.uid,
        "column": "secrets",
        "version": managed_row.version,
    }


def _is_row_of(environment: str, integration_id: str) -> ColumnElement[bool]:
    return and_(integrations.c.environment == environment, integrations.c.integration_id == integration_id)


async def lock_integration(db: AsyncConnection, new_connection: NewConnection) -> None:
    """Keep the integration of `new_connection` from being deleted or renamed until the commit, if it was created through the API.

    Raises NotFound if the integration is already deleted or renamed. The connection would be unusable, and the deletion
    of the integration would not delete it.
    """
    if new_connection.integration_uid is None:
        return
    condition = and_(
        _is_row_of(*new_connection.ref[:2]),
        integrations.c.uid == new_connection.integration_uid,
        integrations.c.ending_at.is_(None),
    )
    row_query = select(integrations.c.uid).where(condition).with_for_update(read=True, key_share=True)
    if (await db.execute(row_query)).first() is None:
        raise NotFound(
            "unknown_provider_config",
            f"Integration '{new_connection.ref.integration_id}' was deleted or renamed in the meantime. Nothing was stored.",
        )


async def _is_rename_refused(db: AsyncConnection, old_integration: Integration, new_integration: Integration) -> bool:
    """Return whether a rename is refused: the new id is already in use, or connections use the old id."""
    name_query = select(integrations.c.uid).where(
        _is_row_of(new_integration.environment, new_integration.integration_id)
    )
    has_connections = _connections_of(old_integration.environment, old_integration.integration_id)
    return (await db.execute(name_query)).first() is not None or (await db.execute(has_connections)).first() is not None


def _connections_of(environment: str, integration_id: str) -> Any:
    condition = and_(connections.c.environment == environment, connections.c.integration_id == integration_id)
    return select(connections.c.id).where(condition).limit(1)


async def _add_change(db: AsyncConnection, environment: str, integration_id: str, *, now: datetime) -> None:
    """Add an entry about an integration to the change log. The entry has an empty connection id."""
    await record_change(db, ConnectionRef(environment, integration_id, ""), now)
