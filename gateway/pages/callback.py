"""Where every provider sends the browser back to: ends the flow and says in plain words what came of it."""

from typing import Final

from aiohttp import web

from gateway.connections.arrived import Arrived, Choice
from gateway.connections.arriving import state_in
from gateway.connections.flow_faults import CallbackFailed
from gateway.errors import GatewayError
from gateway.pages.begin import set_flow_cookie
from gateway.pages.choices import offer, offered
from gateway.pages.connect_cookie import base_of, holds
from gateway.pages.failing import failed
from gateway.pages.form import posted
from gateway.pages.frame import connect_page, openers
from gateway.pages.words import Words, words_for
from gateway.records.connecting import ConnectSession, PendingConnection
from gateway.records.connection import Connection
from gateway.services import SERVICES
from middleware.facts import REQUEST_ID

LONGEST_FORM: Final = 4096


async def callback(request: web.Request) -> web.Response:
    """HTML: 200 with the integration and the connection's id, or with sites to choose from; 400 with what went wrong."""
    services = request.app[SERVICES]
    name = services.flows.cookie_name(state_in(request.query))
    try:
        came = await services.flows.finish(request.query, request.cookies, request[REQUEST_ID])
    except GatewayError as fault:
        answer = await _failed(request, fault)
        if fault.code == "invalid_state" and not getattr(fault, "spent", False):
            return answer  # such a one may be another browser's, or still to come
    else:
        answer = await _told(request, came)
    _spend(request, answer, name)
    return answer


async def site(request: web.Request) -> web.Response:
    """POST /oauth/site: which of several sites a grant is for. The form's token is good for one use, in one browser."""
    services, token = request.app[SERVICES], ""
    try:
        form = await posted(request, LONGEST_FORM)
        token = form.get("token", "")
        came = await services.flows.choose(token, form.get("site", ""), request.cookies, request[REQUEST_ID])
    except GatewayError as fault:
        return await _failed(request, fault)
    answer = await _told(request, came)
    _spend(request, answer, services.flows.cookie_name(token))
    return answer


async def _told(request: web.Request, came: Arrived | Choice) -> web.Response:
    words = words_for(request, came.lang)
    if isinstance(came, Arrived):
        back = await _way_back(request, came.session_digest, words)
        return connected(request, words, came.connection, back=back, tells=True)
    answer = connect_page(
        request,
        "connect/sites.html",
        words,
        name=came.provider.display_name,
        action=f"{request.app[SERVICES].config.server.public_url}/oauth/site",
        token=came.token,
        sites=came.sites,
    )
    set_flow_cookie(answer, came.cookie_name, came.cookie_value.reveal())
    return answer


def connected(
    request: web.Request,
    words: Words,
    connection: Connection | PendingConnection,
    *,
    back: str | None = None,
    tells: bool = False,
    framed: bool = False,
) -> web.Response:
    """The page of success. `tells`: it says so to the window that opened it, and closes."""
    services = request.app[SERVICES]
    provider = services.catalog.get(connection.provider)
    ref = connection.ref
    integration = services.integrations.find(ref.environment, ref.integration_id)
    shown = provider.display_name if provider else connection.provider
    address = connection.config.get("baseUrl") or connection.config.get("subdomain")
    return connect_page(
        request,
        "connect/result.html",
        words,
        framed=framed,
        title=words("done_title", name=(integration.display_name if integration else None) or shown),
        message=words("done_embedded")
        if framed
        else words("done", app=services.config.branding.name or words.plain("the_app")),
        detail=None,
        advice=None,
        success=True,
        facts=[
            (label, text)
            for label, text in (
                (words("account"), connection.account.label),
                (words("integration"), ref.integration_id),
                (words("connection"), ref.connection_id),
                (words("site"), address),
            )
            if text
        ],
        reference=None,
        back=back,
        back_label=words("done_more"),
        tells="success" if tells else None,
        told={},
        openers=openers(request, ref.environment),
        event={
            "type": "connect",
            "payload": {
                "providerConfigKey": ref.integration_id,
                "connectionId": ref.connection_id,
                "isPending": isinstance(connection, PendingConnection),
            },
        },
    )


async def _failed(request: web.Request, fault: GatewayError) -> web.Response:
    if not isinstance(fault, CallbackFailed) or fault.integration_id is None:
        return failed(request, fault, tells=True)
    services, words = request.app[SERVICES], words_for(request)
    session = await _held_session(request, fault.session_digest)
    integration = services.integrations.find(session.environment, fault.integration_id) if session else None
    if session is None or integration is None or services.catalog.get(integration.provider) is None:
        return failed(request, fault, words=words, integration_id=fault.integration_id, tells=True)
    one = offer(services, integration, base_of(request, session.digest, words), words)
    return failed(request, fault, words=words, name=one.name, integration_id=one.key, back=one.address, tells=True)


async def _way_back(request: web.Request, session_digest: str, words: Words) -> str | None:
    """To the page that the authorization was begun on, where this browser has it open and there is more to connect."""
    session = await _held_session(request, session_digest)
    more = session is not None and len(offered(request.app[SERVICES], session)) > 1
    return base_of(request, session_digest, words) if more else None


async def _held_session(request: web.Request, session_digest: str | None) -> ConnectSession | None:
    if session_digest is None or not holds(request, session_digest):
        return None
    return await request.app[SERVICES].sessions.known(session_digest)


def _spend(request: web.Request, answer: web.Response, name: str) -> None:
    if name in request.cookies:
        answer.del_cookie(name, path="/", secure=name.startswith("__Host-"), httponly=True, samesite="Lax")
