"""A new key for signing events (api-contract 1.8)."""

from aiohttp import web

from gateway.api.body import query_of
from gateway.auth.moments import iso
from gateway.errors import InvalidRequest
from gateway.services import SERVICES
from gateway.webhooks.keys import rotate
from middleware.facts import ENVIRONMENT
from middleware.scope import needs


@needs("environment:webhook_signing_key:rotate")
async def rotate_signing_key(request: web.Request) -> web.Response:
    """200 with the new key; the former one signs beside it until `previous_key_retires_at`."""
    query_of(request, ())
    if await request.read() not in {b"", b"{}"}:
        raise InvalidRequest("invalid_body", "This address takes no body.")
    services = request.app[SERVICES]
    key, retires_at = await rotate(services.config, services.store, request[ENVIRONMENT].name)
    services.deliverer.key_changed()
    told = {"webhook_signing_key": key.reveal(), "previous_key_retires_at": iso(retires_at)}
    return web.json_response({"data": told}, headers={"Cache-Control": "no-store"})
