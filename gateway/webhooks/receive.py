"""Providers' webhooks on their way in: proved, remembered, and queued for the application in one transaction."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from gateway.catalog.provider import Provider
from gateway.catalog.webhook import WebhookSignature
from gateway.records.integration import Integration
from gateway.scripts import WEBHOOK_ROUTING
from gateway.scripts.signature import SHARED, checkable, signing_secrets
from gateway.scripts.signed_webhook import signed_webhook
from gateway.scripts.webhook import Incoming, Routing, WebhookRouting
from gateway.secret import Secret
from gateway.store import Store
from gateway.webhooks.body import passes
from gateway.wire.origin import parse_address

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reception:
    """`reply`: the JSON to answer with; None: nobody here listens to this provider's webhooks (204)."""

    reply: Mapping[str, Any] | None
    queued: bool = False


async def receive(store: Store, integration: Integration, provider: Provider, message: Incoming) -> Reception:
    """Take `message`, once. Raises SignatureRefused, Unavailable."""
    secrets = signing_secrets(provider.webhook_signature, integration.webhook_secrets, integration.client_secret)
    script = _script(provider, secrets)
    if script is None:
        return Reception(None)
    routing = script(message, provider.webhook_signature, secrets)
    done = {"status": "success"}
    if routing.reply is not None:
        return Reception(routing.reply)
    if not integration.forward_webhooks:
        return Reception(done)
    connections = await store.webhooks.take(
        integration,
        _kept(message, provider.webhook_signature),
        now=message.received_at,
        origins=_origins(routing),
        seen=None if routing.seen is None else f"{integration.environment}/{integration.integration_id}/{routing.seen}",
    )
    whose = {"environment": integration.environment, "integration": integration.integration_id}
    log.info("webhook_taken", **whose, connections=connections, again=connections is None)
    return Reception(done, queued=connections is not None)


def _script(provider: Provider, secrets: Sequence[Secret]) -> WebhookRouting | None:
    if provider.webhook_routing_script is not None:
        return WEBHOOK_ROUTING[provider.webhook_routing_script]
    how = provider.webhook_signature
    return signed_webhook if how is not None and checkable(how) and secrets else None


def _origins(routing: Routing) -> Sequence[str]:
    """As `connections.site_origin` spells them."""
    found = []
    for origin in routing.origins:
        try:
            found.append(parse_address(origin).origin)
        except ValueError:
            continue
    return found


def _sendable(value: str) -> bool:
    """Bytes that are not UTF-8 came as lone surrogates, and nothing of the sort can be sent on."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


def _kept(message: Incoming, how: WebhookSignature | None) -> dict[str, Any]:
    """What is stored of it. A token that is the secret itself is nobody else's business."""
    secret = how.header.lower() if how is not None and how.scheme == SHARED else None
    fields = [
        (name, value)
        for name, value in message.headers.items()
        if (passes(name) or name == "content-type") and name != secret and _sendable(value)
    ]
    return {"headers": fields, "body": base64.b64encode(message.body).decode()}
