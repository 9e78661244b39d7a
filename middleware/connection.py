"""On whose behalf: two headers name one connection of the caller's environment (requirement 5.1)."""

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.connections.live import Live
from gateway.connections.opened import Opened
from gateway.records.connection import ConnectionRef
from gateway.records.timing import Timing
from gateway.services import SERVICES
from gateway.wire import asked
from middleware.facts import ASKED, CONNECTION, ENVIRONMENT, TIMING


@web.middleware
async def connection(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn ASKED and CONNECTION. Raises InvalidRequest for bad headers, and what `live.opened` raises.

    A fresh connection is found in memory, without giving up the loop.
    """
    timing = request[TIMING]
    timing.proxied = True
    wish = asked.read(request.headers)
    ref = ConnectionRef(request[ENVIRONMENT].name, wish.integration_id, wish.connection_id)
    live = request.app[SERVICES].live
    request[ASKED] = wish
    request[CONNECTION] = live.peek(ref) or await _opened(live, ref, timing)
    return await handler(request)


async def _opened(live: Live, ref: ConnectionRef, timing: Timing) -> Opened:
    with timing.waiting_for_token():
        return await live.opened(*ref)
