"""Where providers send their webhooks (api-contract 1.9)."""

from typing import TYPE_CHECKING

from aiohttp import web

from gateway import clock
from gateway.errors import NotFound
from gateway.secret import Secret
from gateway.services import SERVICES
from middleware.error_shape import MARK

if TYPE_CHECKING:
    from gateway.errors import Code


async def take_webhook(request: web.Request) -> web.Response:
    """200 once it is on the disk; 204 where nobody listens to this provider's; 401 in the contract's own shape.

    The query is part of the address, which nobody signs, and is dropped.
    """
    from gateway.scripts.webhook import Incoming, SignatureRefused
    from gateway.webhooks.address import webhook_address
    from gateway.webhooks.receive import receive

    services = request.app[SERVICES]
    environment, key = request.match_info["environment"], request.match_info["unique_key"]
    if environment not in services.config.environments:
        raise NotFound("unknown_environment", f"There is no environment '{environment[:64]}'.")
    integration = services.integrations.get(environment, key)
    message = Incoming(
        request.method,
        webhook_address(services.config.server.public_url, environment, key),
        {name.lower(): value for name, value in request.headers.items()},
        await request.read(),
        clock.now(),
    )
    try:
        came = await receive(services.store, integration, services.creator.provider_of(integration), message)
    except SignatureRefused as refusal:
        return _refused(missing=refusal.missing)
    if came.queued:
        services.deliverer.wake()
    return web.Response(status=204) if came.reply is None else web.json_response(came.reply)


async def confirm_webhook(request: web.Request) -> web.Response:
    """200 with the challenge of a provider that asks, before it sends anything, whether the address is ours.

    Where its question holds a token of our choice, that is the integration's `webhook_secret`.
    """
    services = request.app[SERVICES]
    integration = services.integrations.get(request.match_info["environment"], request.match_info["unique_key"])
    how = services.creator.provider_of(integration).webhook_signature
    asks = how.challenge if how is not None and how.challenge is not None else ""
    name = "hub.challenge" if "hub.challenge" in asks else "challenge" if "?challenge=" in asks else ""
    challenge = request.query.get(name, "") if name else ""
    token = Secret(request.query.get("hub.verify_token", ""))
    if not challenge or (name == "hub.challenge" and token not in integration.webhook_secrets):
        raise NotFound("not_found", "Webhooks are sent here by POST; no challenge is answered for what was asked.")
    return web.Response(text=challenge[:1024], headers={"X-Content-Type-Options": "nosniff"})


def _refused(*, missing: bool) -> web.Response:
    """Why is not said: whoever tries signatures out learns nothing."""
    code: Code = "missing_webhook_signature" if missing else "invalid_webhook_signature"
    words = "Missing webhook signature" if missing else "Invalid webhook signature"
    return web.json_response({"error": words}, status=401, headers={MARK: code, "Cache-Control": "no-store"})
