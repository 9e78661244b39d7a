"""``OPTIONS`` on our own API: which methods there are (RFC 9110 §9.3.7). A browser's preflight is answered before this."""

from aiohttp import hdrs, web


async def options(request: web.Request) -> web.Response:
    """204 with Allow. No key is asked for, since it shows nothing that docs/http-api.md does not."""
    resource = request.match_info.route.resource
    methods = [] if resource is None else sorted({route.method for route in resource})
    return web.Response(status=204, headers={hdrs.ALLOW: ", ".join(methods)})
