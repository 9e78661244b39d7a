"""What no route takes is noted too: who looks for a wrong address or method in the log is to find it."""

from aiohttp import web

from middleware.access_log import access_log
from middleware.chain import Handler


@web.middleware
async def unrouted(request: web.Request, handler: Handler) -> web.StreamResponse:
    """For an application that is ours altogether; a request with a route is noted by its own chain."""
    if request.match_info.http_exception is None:
        return await handler(request)
    return await access_log(request, handler)
