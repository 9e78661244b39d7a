"""Webhooks received from providers: finds their connections, ignores duplicates, and puts webhooks into the outbox."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import structlog
from sqlalchemy import and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import Unavailable
from gateway.records.event import FORWARD
from gateway.records.integration import Integration
from gateway.store.data_keys import DataKeys
from gateway.store.deliveries import webhook_seal_place
from gateway.store.outbox import Outbox, insert_deliveries, insert_event
from gateway.store.tables import connections, deliveries, outbox, webhooks_seen
from gateway.store.transactions import Transactions, insert_if_absent
from gateway.text import counted
from gateway.vault import Vault

MAX_CONNECTIONS: Final = 1000  # a webhook is sent for at most this many connections, the oldest first

log = structlog.get_logger(__name__)


class WebhookStore:
    """Stores each webhook in one transaction: its digest and its deliveries are stored together or not at all."""

    def __init__(self, transactions: Transactions, vault: Vault, keys: DataKeys, outbox: Outbox) -> None:
        self._transactions = transactions
        self._vault = vault
        self._keys = keys
        self._outbox = outbox

    async def queue_webhook(
        self,
        integration: Integration,
        received: Mapping[str, Any],
        *,
        now: datetime,
        origins: Collection[str] = (),
        webhook_id: str | None = None,
        max_waiting: int,
        max_waiting_bytes: int,
    ) -> int | None:
        """Queue `received` for each connection whose site is in `origins`, for at most `MAX_CONNECTIONS` connections.

        If no connection matches, queue `received` once, without a connection. Returns the number of connections.
        Returns None, and queues nothing, if a webhook with the id `webhook_id` was already stored.

        Raises Unavailable if `max_waiting` deliveries of the integration, or webhooks of `max_waiting_bytes` bytes, are already
        waiting. Each integration has limits of its own, so that none uses up the space of another.
        """

        async def write(db: AsyncConnection) -> int | None:
            await self._check_room(db, integration, max_waiting, max_waiting_bytes)
            if webhook_id is not None and not await self._record_first_arrival(db, webhook_id, now):
                return None
            matching_connections = await self._connections_at(db, integration, origins)
            recipients = [(connection_id, targets) for connection_id, targets in matching_connections if targets]
            if not matching_connections:
                recipients = [(None, self._outbox.targets(integration.environment, None))]
            if any(targets for _, targets in recipients):
                await self._queue(db, integration, received, recipients, now)
            return len(matching_connections)

        return await self._transactions.write(write, before=lambda: self._keys.allow(integration.environment))

    @staticmethod
    async def _check_room(db: AsyncConnection, integration: Integration, max_count: int, max_bytes: int) -> None:
        table = deliveries.c
        condition = and_(
            table.environment == integration.environment,
            table.integration_id == integration.integration_id,
            table.due_at.is_not(None),
        )
        count_query = select(func.count()).select_from(
            select(table.outbox).where(condition).limit(max_count).subquery()
        )
        size_query = select(func.coalesce(func.sum(func.length(outbox.c.sealed)), 0))
        size_query = size_query.where(outbox.c.id.in_(select(table.outbox).where(condition)))
        count, byte_count = (
            await db.execute(select(count_query.scalar_subquery(), size_query.scalar_subquery()))
        ).one()
        if count >= max_count or byte_count >= max_bytes:
            key = integration.integration_id
            message = (
                f"The webhook queue of integration '{key}' is full: {counted(count, 'undelivered event')} "
                f"({counted(byte_count, 'byte')}). Send this webhook again later."
            )
            raise Unavailable("busy", message, retry_after_s=60)

    @staticmethod
    async def _record_first_arrival(db: AsyncConnection, webhook_id: str, now: datetime) -> bool:
        return await insert_if_absent(db, webhooks_seen, {"digest": webhook_id, "at": now}, key=["digest"])

    async def _connections_at(
        self, db: AsyncConnection, integration: Integration, origins: Collection[str]
    ) -> list[tuple[str | None, Sequence[str]]]:
        if not origins:
            return []
        table = connections.c
        condition = and_(
            table.environment == integration.environment,
            table.integration_id == integration.integration_id,
            table.site_origin.in_(sorted(origins)),
        )
        query = (
            select(table.connection_id, table.webhook_url_override)
            .where(condition)
            .order_by(table.id)
            .limit(MAX_CONNECTIONS + 1)
        )
        rows = (await db.execute(query)).all()
        if len(rows) > MAX_CONNECTIONS:
            count = (await db.execute(select(func.count()).select_from(connections).where(condition))).scalar_one()
            log.warning(
                "webhook_connections_skipped",
                environment=integration.environment,
                integration=integration.integration_id,
                sent_for=MAX_CONNECTIONS,
                skipped=count - MAX_CONNECTIONS,
            )
        targets = self._outbox.targets
        return [
            (row.connection_id, targets(integration.environment, row.webhook_url_override))
            for row in rows[:MAX_CONNECTIONS]
        ]

    async def _queue(
        self,
        db: AsyncConnection,
        integration: Integration,
        webhook: Mapping[str, Any],
        recipients: Sequence[tuple[str | None, Sequence[str]]],
        now: datetime,
    ) -> None:
        integration_ref, uid = (integration.environment, integration.integration_id), uuid.uuid4().hex
        sealed = self._vault.seal_json(webhook, **webhook_seal_place(integration.environment, uid))
        event_id = await insert_event(
            db, *integration_ref, integration.provider, FORWARD, {}, now=now, uid=uid, sealed=sealed.ciphertext
        )
        await insert_deliveries(db, event_id, integration_ref, recipients, now=now, kind=FORWARD)
