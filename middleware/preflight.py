"""A browser's question before a cross-origin request: it carries no key, so it cannot be the provider's to answer."""

from aiohttp import hdrs, web

from middleware.chain import Handler

# The bare wildcard: credentials that a browser adds by itself are never allowed with it (Fetch standard, §3.2.3).
ANSWER = {
    hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*",
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, HEAD, PUT, PATCH, POST, DELETE",
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: (
        "Authorization, Content-Type, Accept, Origin, X-Requested-With, Nango-Activity-Log-Id, Nango-Is-Dry-Run, "
        "Nango-Is-Sync, Provider-Config-Key, Connection-Id, Sentry-Trace, Baggage"
    ),
    hdrs.ACCESS_CONTROL_MAX_AGE: "600",
}


@web.middleware
async def preflight(request: web.Request, handler: Handler) -> web.StreamResponse:
    """204 for a CORS preflight; any other OPTIONS is the provider's and goes on."""
    asks = (
        request.method == hdrs.METH_OPTIONS
        and hdrs.ORIGIN in request.headers
        and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
        and hdrs.AUTHORIZATION not in request.headers
    )
    return web.Response(status=204, headers=ANSWER) if asks else await handler(request)
