"""The endpoint for providers' webhooks."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aiohttp import web

from gateway import clock
from gateway.errors import NotFound
from gateway.middleware.facts import REQUEST_ID, TIMING
from gateway.middleware.request_message import arrives_inflated, read_limited_body
from gateway.middleware.response_shape import ERROR_HEADER
from gateway.records.operation import Operation
from gateway.runtime import RUNTIME, generation_of
from gateway.secret import Secret

if TYPE_CHECKING:
    from gateway.catalog.provider_parts import WebhookSignature
    from gateway.errors import Code

USE_POST: Final = "Send webhooks to this URL by POST."
NO_CHALLENGE: Final = f"{USE_POST} This request contains no challenge that the gateway can return."

MAX_HANDSHAKE_CHARS: Final = 1024


async def receive_webhook(request: web.Request) -> web.Response:
    """Receive a provider's webhook. Respond with 200 as soon as the webhook is on the disk, with 204 if the integration
    does not accept webhooks, and with 401 in Nango's format if the signature is invalid.

    For an unknown environment or integration, the response is the same 401, sent after the body has arrived. So a
    client without a valid signature cannot tell an integration that verifies webhooks from an integration that does not
    exist. Xero's integrations are an exception, because Xero requires responses without a body. The 204 is a success,
    so providers do not retry. The URL's query is ignored, because providers do not sign it.
    """
    from gateway.events.receive import handling_of, receive
    from gateway.scripts.script_context import IncomingWebhook, SignatureRefused

    runtime, generation = request.app[RUNTIME], generation_of(request)
    environment, key = request.match_info["environment"], request.match_info["unique_key"]
    limits = generation.config.webhooks
    await read_limited_body(request, limits.body_bytes, f"A webhook has at most {limits.body_bytes} bytes.")
    if environment not in generation.config.environments:
        return _refused_response(request, "unknown environment", is_known=False)
    try:
        integration = generation.integrations.get(environment, key)
    except NotFound:
        return _refused_response(request, "unknown integration", is_known=False)
    headers = {name.lower(): value for name, value in request.headers.items()}
    if arrives_inflated(request):
        del headers["content-encoding"]
    message = IncomingWebhook(
        request.method,
        generation.webhook_url(environment, key),
        headers,
        await request.read(),
        clock.now(),
    )
    provider = runtime.creator.provider_of(integration)
    if (validation_response := _validation_response(request, message.body, provider.webhook_signature)) is not None:
        return validation_response
    try:
        handling = handling_of(integration, provider)
        if handling is None:
            return web.Response(status=204)
        signature = provider.webhook_signature
        owner = f"{environment}/{key}"
        keys = await runtime.webhook_keys.keys_for(generation.egress, owner, signature, message, handling.secrets)
        message = replace(message, public_keys=keys)
        result = await receive(runtime.store, integration, provider, message, handling, limits)
    except SignatureRefused as refusal:
        runtime.call_queue.record_refused(_logged_webhook(request, 401, "invalid_webhook_signature", refusal.why))
        return _refused_response(request, refusal.why, has_body=not _wants_no_body(provider.webhook_signature))
    runtime.call_queue.record_operation(_logged_webhook(request, 200, None, "queued" if result.queued else "taken"))
    if result.queued:
        runtime.deliverer.wake()
    if _wants_no_body(provider.webhook_signature):
        return web.Response()
    return _challenge_response(result.reply) if isinstance(result.reply, str) else web.json_response(result.reply)


async def confirm_webhook(request: web.Request) -> web.Response:
    """Confirm the webhook URL to a provider that verifies the URL before it sends webhooks. Respond with 200 and the
    provider's challenge.

    For ``hub.challenge``, the request must contain the integration's `webhook_secret` as ``hub.verify_token``. Fitbit
    sends the secret as ``verify`` and expects 204. Without a query, the response is 200, also for an unknown
    integration: Trello and Intercom check a URL in this way, by HEAD. Raises NotFound.
    """
    if not request.query_string:
        return web.Response(text=USE_POST)
    runtime, generation = request.app[RUNTIME], generation_of(request)
    integration = generation.integrations.find(request.match_info["environment"], request.match_info["unique_key"])
    if integration is None:
        raise NotFound("not_found", NO_CHALLENGE)
    signature = runtime.creator.provider_of(integration).webhook_signature
    challenge_form = signature.challenge if signature is not None and signature.challenge is not None else ""
    if "?verify=" in challenge_form and Secret(request.query.get("verify", "")) in integration.webhook_secrets:
        return web.Response(status=204)
    name = (
        "hub.challenge" if "hub.challenge" in challenge_form else "challenge" if "?challenge=" in challenge_form else ""
    )
    challenge = request.query.get(name, "") if name else ""
    token = Secret(request.query.get("hub.verify_token", ""))
    if not challenge or (name == "hub.challenge" and token not in integration.webhook_secrets):
        raise NotFound("not_found", NO_CHALLENGE)
    return _challenge_response(challenge)


def _validation_response(
    request: web.Request, body: bytes, signature: "WebhookSignature | None"
) -> web.Response | None:
    """Return the response to a provider that validates the URL by a POST without a signature. It contains the
    ``validationToken`` in the query, or the field `handshake_header`, in which Asana sends the secret of a new webhook.
    Return None for any other request."""
    if signature is None:
        return None
    name = signature.handshake_header
    secret = request.headers.get(name, "") if name and (signature.header or "") not in request.headers else ""
    if name and 0 < len(secret) <= MAX_HANDSHAKE_CHARS and secret.isascii() and secret.isprintable():
        return web.Response(headers={name: secret})
    is_validation = "?validationToken=" in (signature.challenge or "") and not body
    token = request.query.get("validationToken", "") if is_validation else ""
    return _challenge_response(token) if token else None


def _wants_no_body(signature: "WebhookSignature | None") -> bool:
    """Return whether the provider accepts only responses without a body. Xero checks this before it sends events."""
    return signature is not None and "responses without a body" in (signature.challenge or "")


def _challenge_response(text: str) -> web.Response:
    return web.Response(text=text[:1024], headers={"X-Content-Type-Options": "nosniff"})


def _logged_webhook(request: web.Request, status: int, code: "Code | None", result: str) -> Operation:
    """Return the operation of this webhook for the call log."""
    return Operation(
        "webhook",
        clock.now(),
        request[REQUEST_ID],
        request.match_info["environment"],
        request.match_info["unique_key"],
        method=request.method,
        status=status,
        error_code=code,
        duration_ms=(clock.monotonic() - request[TIMING].began) * 1000,
        bytes_in=request.content.total_bytes,
        detail={"what": result},
    )


def _refused_response(
    request: web.Request, reason: str, *, is_known: bool = True, has_body: bool = True
) -> web.Response:
    """Return the same response for every fault, so that guessing signatures or names reveals nothing. The reason is
    logged, at most a few times a minute for each client and integration; all unknown integrations count as one."""
    names = {"environment": "environment", "integration": "unique_key"}
    owner = {label: request.match_info[name][:64] for label, name in names.items()}
    subject = "/".join(owner.values()) if is_known else ""
    fields = {**owner, "reason": reason, "request_id": request[REQUEST_ID]}
    request.app[RUNTIME].refusal_log.info("webhook_refused", request.remote, subject, **fields)
    code: Code = "invalid_webhook_signature"
    headers = {ERROR_HEADER: code, "Cache-Control": "no-store", "WWW-Authenticate": 'Signature realm="webhook"'}
    if not has_body:
        return web.Response(status=401, headers=headers)
    return web.json_response({"error": "Invalid webhook signature"}, status=401, headers=headers)
