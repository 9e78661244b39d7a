"""Tells the customer's application of a connection that did not come about (api-contract 6.1)."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import structlog

from gateway import clock
from gateway.errors import GatewayError
from gateway.records.connecting import Flow
from gateway.records.connection import ConnectionRef
from gateway.records.event import Event
from gateway.store import Store

log = structlog.get_logger(__name__)


async def tell_failure(
    store: Store, flow: Flow, provider: str, details: Mapping[str, Any], fault: GatewayError
) -> None:
    """Write the event. `details` are those of the flow; where it was to renew a connection, that one says what they leave
    open: whose it is, and where its events go. Never raises: the end user hears of `fault` in any case.
    """
    ref = ConnectionRef(flow.environment, flow.integration_id, flow.connection_id)
    try:
        there = await store.connections.get(ref)
        user = details["end_user"] or (asdict(there.end_user) if there and there.end_user else None)
        override = details["webhook_url_override"]
        await store.outbox.tell(
            ref,
            provider,
            Event.CREATION_FAILED,
            {
                "tags": details["tags"] or (dict(there.tags) if there else {}),
                "end_user": user,
                "operation": "override" if there else "creation",
            },
            now=clock.now(),
            reason=fault.code,
            detail=fault.message,
            override=there.webhook_url_override if override is None and there else override,
        )
    except GatewayError as trouble:
        log.warning("failed_creation_not_told", connection_id=ref.connection_id, detail=trouble.message)
