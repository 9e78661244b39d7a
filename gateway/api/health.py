"""Whether the process lives, and whether it serves: for load balancers, without a key."""

from typing import Final

from aiohttp import hdrs, web

from gateway.errors import Code, GatewayError
from gateway.services import SERVICES
from middleware.error_shape import MARK

NOT_READY: Final[Code] = "not_ready"


async def health(_request: web.Request) -> web.Response:
    """200 for as long as the process can answer at all."""
    return web.json_response({"result": "ok"})


async def ready(request: web.Request) -> web.Response:
    """200 once the store is open and readable, 503 before that and from the moment a stop begins.

    The body is that of api-contract 1.1; ``Gateway-Error`` tells this 503 from one of whatever stands before us.
    """
    services = request.app[SERVICES]
    if services.serving:
        try:
            await services.store.ping()
        except GatewayError:
            pass
        else:
            return web.json_response({"result": "ok"})
    headers = {MARK: NOT_READY, hdrs.CACHE_CONTROL: "no-store"}
    return web.json_response({"result": "not ready"}, status=503, headers=headers)
