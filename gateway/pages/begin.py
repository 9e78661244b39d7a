"""Where the end user's browser sets out for the provider's consent page (api-contract 1.6)."""

from aiohttp import hdrs, web

from gateway.connections.flow import LIFETIME, Asked
from gateway.errors import GatewayError, InvalidRequest, Issue, Unauthorized
from gateway.pages.environment import failed
from gateway.services import SERVICES
from gateway.wire.query import members


async def begin(request: web.Request) -> web.StreamResponse:
    """302 to the provider, with the cookie that binds the flow to this browser.

    A refusal is a page for who looks at it in a browser, and JSON for programs; without a valid session always the latter.
    """
    try:
        return await _set_out(request)
    except Unauthorized:
        raise
    except GatewayError as fault:
        if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
            raise
        return failed(request, fault, fault.status, integration_id=request.match_info["integration_id"])


async def _set_out(request: web.Request) -> web.Response:
    services = request.app[SERVICES]
    session = await services.sessions.find(request.query.get("connect_session_token", ""))
    if "connection_id" in request.query:
        message = "The session decides about the connection id; leave it out."
        raise InvalidRequest("invalid_query_params", message, errors=[Issue("custom", message, ("connection_id",))])
    asked = Asked(
        config=members(request.query, "params"),
        authorization_params=members(request.query, "authorization_params"),
        user_scope=request.query.get("user_scope"),
    )
    departure = await services.flows.begin(session, request.match_info["integration_id"], asked)
    answer = web.Response(
        status=302,
        headers={
            hdrs.LOCATION: departure.url,
            hdrs.CACHE_CONTROL: "no-store",
            "Referrer-Policy": "no-referrer",  # the address we come from holds the session's token
        },
    )
    answer.set_cookie(
        departure.cookie_name,
        departure.cookie_value.reveal(),
        max_age=int(LIFETIME.total_seconds()),
        path="/",
        secure=departure.cookie_name.startswith("__Host-"),
        httponly=True,
        samesite="Lax",
    )
    return answer
