"""The outbox. An event is written in the transaction of the change that it reports, so events and changes always agree.

`gateway.events` sends the events. An event that has no target is not written.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.records.connection import ConnectionRef
from gateway.records.event import AUTHORIZED, FAILURES, NO_REFRESH_TOKEN, OPERATIONS, DeliveryState, Event
from gateway.records.trace import CAUSE, current_cause
from gateway.store.changes import record_change
from gateway.store.tables import connections, deliveries, outbox
from gateway.store.transactions import Transactions

RETRY_PERIOD: Final = timedelta(days=1)
EVENT_COLUMNS: Final = (
    connections.c.environment,
    connections.c.integration_id,
    connections.c.connection_id,
    connections.c.provider,
    connections.c.tags,
    connections.c.end_user,
    connections.c.dies_at,
    connections.c.webhook_url_override,
)
"""The columns that an event needs: the facts about its connection, and a URL that replaces the usual targets."""

_SEPARATOR: Final = "\x1f"


class Outbox:
    """Stores events in the table `outbox`, with their deliveries.

    `targets_of`: returns the names of an environment's targets (``primary``, ``secondary``) that have a URL in the
    configuration. `gateway.events` sets this function.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self.targets_of: Callable[[str], Sequence[str]] = lambda _: ()

    def targets(self, environment: str, override: str | None) -> Sequence[str]:
        """Return the targets of an event. `override`: a URL, the only target; None for the environment's targets."""
        return (override,) if override else self.targets_of(environment)

    async def add_event(
        self,
        db: AsyncConnection,
        row_id: int,
        event: Event,
        *,
        now: datetime,
        reason: str | None = None,
        detail: str | None = None,
    ) -> None:
        """Write `event` for the connection with row id `row_id`, in the caller's transaction.

        The event describes the connection as it is now. `reason` (for programs) and `detail` (for people) say why
        something failed. If an end user has just authorized the connection, `detail` is a warning.
        """
        row = (await db.execute(select(*EVENT_COLUMNS).where(connections.c.id == row_id))).one()
        facts = {"tags": row.tags, "end_user": row.end_user}
        if event in AUTHORIZED and detail:
            facts["warning"] = {"type": NO_REFRESH_TOKEN, "description": detail}
        if row.dies_at is not None and (event is Event.EXPIRING or "warning" in facts):
            facts["dies_at"] = row.dies_at.isoformat(timespec="milliseconds")
        ref = ConnectionRef(row.environment, row.integration_id, row.connection_id)
        override = row.webhook_url_override
        await self.add(db, ref, row.provider, event, facts, now=now, reason=reason, detail=detail, override=override)

    async def add_failure(
        self,
        ref: ConnectionRef,
        provider: str,
        event: Event,
        facts: Mapping[str, Any],
        *,
        now: datetime,
        reason: str,
        detail: str,
        override: str | None = None,
    ) -> None:
        """Write an event that reports no change in the store, such as a failed attempt to connect."""

        async def write(db: AsyncConnection) -> None:
            details = {"reason": reason, "detail": detail, "override": override}
            await self.add(db, ref, provider, event, facts, now=now, **details)
            await record_change(db, ref, now)

        if self.targets(ref.environment, override):
            await self._transactions.write(write)

    async def add(
        self,
        db: AsyncConnection,
        ref: ConnectionRef,
        provider: str,
        event: Event,
        facts: Mapping[str, Any],
        *,
        now: datetime,
        reason: str | None = None,
        detail: str | None = None,
        override: str | None = None,
    ) -> None:
        """Write an event in the caller's transaction. The connection `ref` need not exist.

        `facts`: the connection's `tags` and `end_user`; also `operation`, if it is not the usual operation of the
        event. `reason`, `detail`: why something failed. `override`: a URL that replaces all targets of the environment,
        or None.
        """
        targets = self.targets(ref.environment, override)
        if not targets:
            return
        body = {name: value for name, value in facts.items() if value}
        body = {"operation": OPERATIONS.get(event, "refresh"), "success": event not in FAILURES} | body
        if event in FAILURES:
            body["error"] = {"type": reason or "unknown", "description": detail or reason or "unknown"}
        event_id = await insert_event(db, ref.environment, ref.integration_id, provider, event.value, body, now=now)
        await insert_deliveries(db, event_id, ref[:2], [(ref.connection_id, targets)], now=now)


async def insert_event(
    db: AsyncConnection,
    environment: str,
    integration_id: str,
    provider: str,
    event: str,
    facts: Mapping[str, Any],
    *,
    now: datetime,
    uid: str | None = None,
    sealed: bytes | None = None,
) -> int:
    """Insert an event. Return its row id."""
    cause = current_cause.get()
    if cause is not None:
        facts = {**facts, CAUSE: cause}
    row = {
        "uid": uid or uuid.uuid4().hex,
        "at": now,
        "environment": environment,
        "integration_id": integration_id,
        "provider": provider,
        "event": event,
        "facts": dict(facts),
        "sealed": sealed,
    }
    event_id: int = (await db.execute(insert(outbox).values(row).returning(outbox.c.id))).scalar_one()
    return event_id


async def insert_deliveries(
    db: AsyncConnection,
    event_id: int,
    integration_ref: tuple[str, str],
    targets_by_connection: Iterable[tuple[str | None, Sequence[str]]],
    *,
    now: datetime,
    kind: str = "",
) -> None:
    """Insert a message for each connection in `targets_by_connection`, and a delivery of the message to each target.

    `integration_ref`: environment and integration. Messages with the same connection and the same `kind` are sent in order.
    Messages without a connection have no order.
    """
    environment, integration_id = integration_ref
    rows = [
        {
            "outbox": event_id,
            "message_id": message_id,
            "at": now,
            "environment": environment,
            "integration_id": integration_id,
            "connection_id": connection_id,
            "sequence": None if connection_id is None else _SEPARATOR.join((integration_id, connection_id, kind)),
            "target": target,
            "state": DeliveryState.PENDING.value,
            "attempts": 0,
            "due_at": now,
            "give_up_at": now + RETRY_PERIOD,
        }
        for connection_id, targets in targets_by_connection
        for message_id in (f"msg_{uuid.uuid4().hex}",)
        for target in targets
    ]
    if rows:
        await db.execute(insert(deliveries), rows)
