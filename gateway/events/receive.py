"""Receives providers' webhooks: verifies each webhook, then queues it for the application. The same transaction records
the webhook's id, so that a repetition is recognized."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import WebhookSignature
from gateway.config import WebhooksConfig
from gateway.events.event_body import is_forwarded
from gateway.off_loop import INLINE_BYTES, off_loop
from gateway.origin import parse_url
from gateway.records.integration import Integration
from gateway.scripts import WEBHOOK_ROUTING
from gateway.scripts.script_context import IncomingWebhook, Routing, SignatureRefused, WebhookRouting
from gateway.scripts.webhook_signature import BASIC, SHARED_TOKEN, is_checkable, signed_webhook, signing_secrets
from gateway.secret import Secret
from gateway.store import Store

log = structlog.get_logger(__name__)

TOKENS: Final = frozenset({SHARED_TOKEN, BASIC})
BODY_FIELDS: Final = frozenset({"content-type", "content-encoding"})  # needed to read the stored body


@dataclass(frozen=True, slots=True)
class WebhookHandling:
    """How an integration's webhooks are received. `script`: verifies and routes a webhook. `secrets`: the secrets for
    the verification; empty: webhooks are not verified."""

    script: WebhookRouting
    secrets: Sequence[Secret]


@dataclass(frozen=True, slots=True)
class WebhookResult:
    """The result of receiving a webhook. `reply`: the response to its sender, as JSON or as text; `queued`: whether the
    webhook was queued for the application."""

    reply: Mapping[str, Any] | str
    queued: bool = False


def accepts_webhooks(provider: Provider) -> bool:
    """Return whether the provider's entry says how webhooks are routed or signed."""
    signature = provider.webhook_signature
    return provider.webhook_routing_script is not None or (signature is not None and is_checkable(signature))


def verification_secrets(
    provider: Provider, webhook_secrets: Sequence[Secret], client_secret: Secret | None
) -> Sequence[Secret]:
    """Return the secrets that verify this provider's webhooks. If the result is empty, forged webhooks cannot be
    recognized."""
    return (
        signing_secrets(provider.webhook_signature, webhook_secrets, client_secret)
        if accepts_webhooks(provider)
        else ()
    )


def handling_of(integration: Integration, provider: Provider) -> WebhookHandling | None:
    """Return how the integration's webhooks are handled; None if the integration does not accept webhooks. Raises
    SignatureRefused if the integration would forward webhooks that cannot be verified, and does not set
    `allow_unsigned_webhooks`."""
    if not accepts_webhooks(provider) and not integration.allow_unsigned_webhooks:
        return None
    script = provider.webhook_routing_script
    secrets = verification_secrets(provider, integration.webhook_secrets, integration.client_secret)
    if not secrets and integration.forward_webhooks and not integration.allow_unsigned_webhooks:
        raise SignatureRefused("the integration has no secret", no_secret=True)
    return WebhookHandling(signed_webhook if script is None else WEBHOOK_ROUTING[script], secrets)


async def receive(
    store: Store,
    integration: Integration,
    provider: Provider,
    message: IncomingWebhook,
    handling: WebhookHandling,
    limits: WebhooksConfig,
) -> WebhookResult:
    """Verify `message` and queue it for the application. A repetition is not queued again. Nothing is queued if the
    script returns a reply, or if the integration does not forward webhooks. Raises SignatureRefused, Unavailable."""
    arguments = message, provider.webhook_signature, handling.secrets
    sender = f"{integration.environment}/{integration.integration_id}"
    is_small = len(message.body) <= INLINE_BYTES
    routing = handling.script(*arguments) if is_small else await off_loop(sender, handling.script, *arguments)
    success = {"status": "success"}
    if routing.reply is not None:
        return WebhookResult(routing.reply)
    if not integration.forward_webhooks:
        return WebhookResult(success)
    connections = await store.webhooks.queue_webhook(
        integration,
        _stored_parts(message, provider.webhook_signature),
        now=message.received_at,
        origins=_origins(routing),
        webhook_id=None if routing.webhook_id is None else f"{sender}/{routing.webhook_id}",
        max_waiting=limits.waiting,
        max_waiting_bytes=limits.waiting_bytes,
    )
    integration_fields = {"environment": integration.environment, "integration": integration.integration_id}
    log.info(
        "webhook_taken",
        **integration_fields,
        connections=connections,
        again=connections is None,
        signed=bool(handling.secrets),
    )
    return WebhookResult(success, queued=connections is not None)


def _origins(routing: Routing) -> Sequence[str]:
    """Return the origins in `routing`, in the format of the column `site_origin` of the table `connections`. Invalid
    origins are left out."""
    origins = []
    for origin in routing.origins:
        try:
            origins.append(parse_url(origin).origin)
        except ValueError:
            continue
    return origins


def _is_utf8(value: str) -> bool:
    """Return whether a header's value was valid UTF-8. Invalid bytes were decoded to lone surrogates, which cannot be
    forwarded."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


def _stored_parts(message: IncomingWebhook, signature: WebhookSignature | None) -> dict[str, Any]:
    """Return the parts of the webhook to store: the body, and the header fields to forward. A header that contains the
    secret itself is left out."""
    secret_header = None  # the name of the header that contains the secret
    if signature is not None and signature.header is not None and signature.scheme in TOKENS:
        secret_header = signature.header.lower()
    fields = [
        (name, value)
        for name, value in message.headers.items()
        if (is_forwarded(name) or name in BODY_FIELDS) and name != secret_header and _is_utf8(value)
    ]
    return {"headers": fields, "body": base64.b64encode(message.body).decode()}
