"""Scripts in browsers: any origin may read what our API answers, and none may have a browser add credentials to it.

There is no ambient authority: without the key, which a script must have been given, every answer is a 401. So the
bare wildcard is all there is (Fetch standard, §3.2.3). Pages for end users and operators stay without it.
"""

from typing import Final

from aiohttp import hdrs, web
from multidict import CIMultiDict

from gateway.middleware.chain import Handler

READABLE: Final = {hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*", hdrs.ACCESS_CONTROL_EXPOSE_HEADERS: "*"}
# Without the other headers of proxied calls: a secret key does not belong in a browser (docs/compatibility.md#requests).
PREFLIGHT: Final = {
    hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*",
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, HEAD, PUT, PATCH, POST, DELETE",
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: (
        "Authorization, Content-Type, Accept, Origin, X-Requested-With, Nango-Activity-Log-Id, Nango-Is-Dry-Run, "
        "Nango-Is-Sync, Provider-Config-Key, Connection-Id, Sentry-Trace, Baggage"
    ),
    hdrs.ACCESS_CONTROL_MAX_AGE: "600",
}


@web.middleware
async def cors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """204 for a CORS preflight, which carries no key; any other answer, errors too, may be read from any origin.

    One that is streamed is made so where it is prepared, by `readable`.
    """
    if hdrs.ORIGIN not in request.headers:
        return await handler(request)
    if is_preflight(request):
        return web.Response(status=204, headers=PREFLIGHT)
    response = await handler(request)
    if not response.prepared:
        readable(request, response.headers)
    return response


def is_preflight(request: web.Request) -> bool:
    """Any other OPTIONS is the provider's, or asks us which methods there are."""
    return (
        request.method == hdrs.METH_OPTIONS
        and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
        and hdrs.AUTHORIZATION not in request.headers
    )


def readable(request: web.Request, headers: CIMultiDict[str]) -> None:
    """Let a script that asked from another origin read the answer with these headers."""
    if hdrs.ORIGIN in request.headers:
        headers.update(READABLE)
