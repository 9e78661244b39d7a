"""Where every provider sends the browser back to: ends the flow and says in plain words what came of it."""

from typing import Final

from aiohttp import web

from gateway import clock
from gateway.connections.arrived import Arrived, Choice
from gateway.connections.arriving import state_in
from gateway.connections.flow_faults import CallbackFailed
from gateway.errors import GatewayError
from gateway.pages.begin import set_flow_cookie
from gateway.pages.choices import offer
from gateway.pages.connect_cookie import address_of, base_of, holds, quoted
from gateway.pages.failing import failed
from gateway.pages.form import posted
from gateway.pages.frame import connect_page, see_other
from gateway.pages.result import application_address, connected_page, way_to_application
from gateway.pages.words import Words, words_for
from gateway.records.connecting import ConnectSession, Outcome
from gateway.secret import digest
from gateway.services import SERVICES
from middleware.facts import REQUEST_ID

LONGEST_FORM: Final = 4096


async def callback(request: web.Request) -> web.Response:
    """303 to the page of the result, or to the application; in a browser that does not hold the session, that page itself.
    200 with sites to choose from; 400 with what went wrong."""
    services = request.app[SERVICES]
    name = services.flows.cookie_name(state_in(request.query))
    try:
        came = await services.flows.finish(request.query, request.cookies, request[REQUEST_ID])
    except GatewayError as fault:
        if fault.code == "invalid_state" and (done := await _done_before(request, state_in(request.query))) is not None:
            return done
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
        return await _arrived(request, came, words)
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


async def _failed(request: web.Request, fault: GatewayError) -> web.Response:
    if not isinstance(fault, CallbackFailed) or fault.integration_id is None:
        return failed(request, fault, tells=True)
    services, words = request.app[SERVICES], words_for(request)
    session = await _held_session(request, fault.session_digest)
    integration = services.integrations.find(session.environment, fault.integration_id) if session else None
    if session is None or integration is None or services.catalog.get(integration.provider) is None:
        return failed(request, fault, words=words, integration_id=fault.integration_id, tells=True)
    one = offer(services, integration, base_of(request, session.digest, words), words)
    return failed(
        request,
        fault,
        words=words,
        name=one.name,
        integration_id=one.key,
        back=one.address,
        done=way_to_application(request, session, words, one.key),
        tells=True,
    )


async def _arrived(request: web.Request, came: Arrived, words: Words) -> web.Response:
    ref = came.connection.ref
    made = Outcome(
        environment=ref.environment,
        session_digest=came.session_digest,
        integration_id=ref.integration_id,
        connection_id=ref.connection_id,
        is_pending=came.is_pending,
        at=clock.now(),
    )
    if not holds(request, came.session_digest):
        return await connected_page(request, words, made, None)
    session = await request.app[SERVICES].sessions.known(came.session_digest)
    if came.is_pending and session is not None and session.return_url is not None:
        address = await application_address(request, session, made, ref.integration_id)
    else:
        address = address_of(request, came.session_digest, words, f"/i/{quoted(ref.integration_id)}/result")
    return see_other(address)


async def _done_before(request: web.Request, state: str) -> web.Response | None:
    """Where this browser has come back with this state before and was connected then: the page that says so."""
    made = await request.app[SERVICES].store.flow_results.of_flow(digest(state)) if state else None
    if made is None or not made.succeeded or not holds(request, made.session_digest):
        return None
    words = words_for(request)
    return see_other(address_of(request, made.session_digest, words, f"/i/{quoted(made.integration_id)}/result"))


async def _held_session(request: web.Request, session_digest: str | None) -> ConnectSession | None:
    if session_digest is None or not holds(request, session_digest):
        return None
    return await request.app[SERVICES].sessions.known(session_digest)


def _spend(request: web.Request, answer: web.Response, name: str) -> None:
    if name in request.cookies:
        answer.del_cookie(name, path="/", secure=name.startswith("__Host-"), httponly=True, samesite="Lax")
