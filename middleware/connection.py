"""On whose behalf: two headers name one connection of the caller's environment (requirement 5.1)."""

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway import clock
from gateway.records.connection import ConnectionRef
from gateway.services import SERVICES
from gateway.wire import asked
from middleware.facts import ASKED, CONNECTION, ENVIRONMENT, TIMING


@web.middleware
async def connection(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn ASKED and CONNECTION. Raises InvalidRequest for bad headers, and what `live.opened` raises.

    A fresh connection is found in memory, without giving up the loop.
    """
    wish = asked.read(request.headers)
    ref = ConnectionRef(request[ENVIRONMENT].name, wish.integration_id, wish.connection_id)
    live = request.app[SERVICES].live
    request[ASKED] = wish
    opened = live.peek(ref)
    if opened is None:
        began = clock.monotonic()
        opened = await live.opened(*ref)
        if (timing := request.get(TIMING)) is not None:
            timing.token_s = clock.monotonic() - began
    request[CONNECTION] = opened
    return await handler(request)
