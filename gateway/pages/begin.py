"""Where the end user's browser sets out for the provider's consent page (api-contract 1.6)."""

from dataclasses import replace
from typing import Final

from aiohttp import hdrs, web

from gateway.connections.arrived import LIFETIME
from gateway.connections.flow import Asked, Departure
from gateway.errors import GatewayError, InvalidRequest, Issue, Unauthorized
from gateway.pages.confirmation import Browser, claim, in_other_browser, is_browser
from gateway.pages.connect_cookie import address_of, keep, quoted
from gateway.pages.failing import failed
from gateway.pages.frame import see_other
from gateway.pages.words import words_for
from gateway.records.connecting import ConnectSession
from gateway.services import SERVICES
from gateway.wire.query import members
from middleware.facts import REQUEST_ID

OVERRIDES: Final = {
    "oauth_client_id_override": "client_id",
    "oauth_client_secret_override": "client_secret",
    "oauth_refresh_token_override": "refresh_token",
}
LONGEST_CLIENT_ID: Final = 255


async def begin(request: web.Request) -> web.StreamResponse:
    """A browser is led to the confirmation page (303), which keeps what the address says; its cookie binds the session to it.
    A program, which holds nobody's cookies, gets the 302 to the provider with the cookie that binds the flow to it.

    A refusal is a page for who looks at it in a browser, and JSON for programs; without a valid session always the latter.
    The window's WebSocket hears of it either way.
    """
    services = request.app[SERVICES]
    session = await services.sessions.find(request.query.get("connect_session_token", ""))
    integration_id = request.match_info["integration_id"]
    ws_client_id = request.query.get("ws_client_id", "")[:LONGEST_CLIENT_ID] or None
    try:
        asked = await _asked(request, session, integration_id, ws_client_id)
        if is_browser(request):
            return await _to_confirmation(request, session, integration_id, asked)
        browser = Browser(request, session)
        await claim(request, browser, session)
        departure = await services.flows.begin(session, integration_id, replace(asked, browser=browser.digest))
    except Unauthorized:
        raise
    except GatewayError as fault:
        if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
            raise
        return failed(request, fault, integration_id=integration_id, tells=True, environment=session.environment)
    answer = web.Response(
        status=302,
        headers={
            hdrs.LOCATION: departure.url,
            hdrs.CACHE_CONTROL: "no-store",
            "Referrer-Policy": "no-referrer",  # the address we come from holds the session's token
        },
    )
    bind(answer, departure)
    if session.for_one_browser:
        browser.keep(answer)
    return answer


def bind(answer: web.Response, departure: Departure) -> None:
    """The cookie that shows on return that it is the same browser."""
    set_flow_cookie(answer, departure.cookie_name, departure.cookie_value.reveal())


def set_flow_cookie(answer: web.Response, name: str, value: str) -> None:
    answer.set_cookie(
        name,
        value,
        max_age=int(LIFETIME.total_seconds()),
        path="/",
        secure=name.startswith("__Host-"),
        httponly=True,
        samesite="Lax",
    )


async def _to_confirmation(
    request: web.Request, session: ConnectSession, integration_id: str, asked: Asked
) -> web.Response:
    if not Browser(request, session).has_it:
        raise in_other_browser()
    token = await request.app[SERVICES].flows.ask(session, integration_id, asked)
    words = words_for(request, asked.lang)
    address = address_of(request, session.digest, words, f"/i/{quoted(integration_id)}", asked=token)
    answer = see_other(address)
    keep(request, answer, request.query.get("connect_session_token", ""), session)
    return answer


async def _asked(request: web.Request, session: ConnectSession, integration_id: str, ws_client_id: str | None) -> Asked:
    services = request.app[SERVICES]
    if "connection_id" in request.query:
        message = "The session decides about the connection id; leave it out."
        fault = InvalidRequest("invalid_query_params", message, errors=[Issue("custom", message, ("connection_id",))])
        await services.flows.refused(session, integration_id, ws_client_id, fault, request[REQUEST_ID])
        raise fault
    brought = members(request.query, "credentials")
    return Asked(
        config=members(request.query, "params"),
        authorization_params=members(request.query, "authorization_params"),
        user_scope=request.query.get("user_scope"),
        override={OVERRIDES[name]: text for name, text in brought.items() if name in OVERRIDES and text},
        ws_client_id=ws_client_id,
        lang=request.query.get("lang"),
        request_id=request[REQUEST_ID],
    )
