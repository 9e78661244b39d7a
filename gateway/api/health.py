"""Whether the process lives, and whether it serves: for load balancers, without a key."""

from aiohttp import web

from gateway.errors import GatewayError
from gateway.services import SERVICES


async def health(_request: web.Request) -> web.Response:
    """200 for as long as the process can answer at all."""
    return web.json_response({"result": "ok"})


async def ready(request: web.Request) -> web.Response:
    """200 once the store is open and readable, 503 before that and from the moment a stop begins."""
    services = request.app[SERVICES]
    if services.serving:
        try:
            await services.store.ping()
        except GatewayError:
            pass
        else:
            return web.json_response({"result": "ok"})
    return web.json_response({"result": "not ready"}, status=503)
