"""A browser's question before a cross-origin call. It carries no key, so it is answered before one is asked for."""

from aiohttp import hdrs, web

_HEADERS = {
    hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*",
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, HEAD, PUT, PATCH, POST, DELETE",
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: "Authorization, Content-Type, Accept, Origin, X-Requested-With, "
    "Nango-Activity-Log-Id, Nango-Is-Dry-Run, Nango-Is-Sync, Provider-Config-Key, Connection-Id, Sentry-Trace, Baggage",
    hdrs.ACCESS_CONTROL_MAX_AGE: "600",
}


def is_preflight(request: web.BaseRequest) -> bool:
    """OPTIONS with Origin and Access-Control-Request-Method, without Authorization. Any other OPTIONS is forwarded."""
    return (
        request.method == hdrs.METH_OPTIONS
        and hdrs.ORIGIN in request.headers
        and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
        and hdrs.AUTHORIZATION not in request.headers
    )


async def preflight(_request: web.Request) -> web.Response:
    """204 that allows what api-contract 0.1 allows, without credentials mode."""
    return web.Response(status=204, headers=_HEADERS)
