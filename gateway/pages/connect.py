"""The connect page: what a session offers, what will be granted, the form, and the way to the provider and back.

Works without JavaScript; with it, and in a frame, the same pages are fetched and shown in place (templates/connect/connect.js).
"""

from typing import Final

from aiohttp import hdrs, web

from gateway.connections.flow import Asked
from gateway.connections.offered import check_offered
from gateway.errors import Forbidden, GatewayError, Unauthorized
from gateway.pages.begin import LONGEST_CLIENT_ID, bind
from gateway.pages.callback import connected
from gateway.pages.choices import Offer, offer, offered
from gateway.pages.connect_cookie import TOKEN_FIELD, base_of, check_own_form, is_embedded, keep, session_of
from gateway.pages.connect_pages import expired, first_page, form_page, frame_page
from gateway.pages.failing import failed
from gateway.pages.fields import fields_of, typed
from gateway.pages.form import posted as form_of
from gateway.pages.frame import connect_page
from gateway.pages.words import Words, words_for
from gateway.records.connecting import ConnectSession, PendingConnection
from gateway.records.connection import Connection, ConnectionRef
from gateway.services import SERVICES
from middleware.facts import REQUEST_ID

FORM_BYTES: Final = 256 << 10


async def entrance(request: web.Request) -> web.StreamResponse:
    """What `connect_link` opens, and what a frame loads. The token goes from the address into a cookie at once."""
    words, services = words_for(request), request.app[SERVICES]
    token = request.query.get("session_token")
    if token is None and ("apiURL" in request.query or request.headers.get("Sec-Fetch-Dest") == "iframe"):
        return frame_page(request, words)
    try:
        session = await services.sessions.find(token or "")
    except Unauthorized as fault:
        return expired(request, fault, words)
    if "text/html" in request.headers.get(hdrs.ACCEPT, ""):
        answer: web.StreamResponse = web.Response(
            status=303,
            headers={
                hdrs.LOCATION: base_of(request, session.digest, words),
                hdrs.CACHE_CONTROL: "no-store",
                "Referrer-Policy": "no-referrer",
            },
        )
    else:  # a program, which may keep no cookies: it sees the page at once
        answer = await first_page(request, session, words)
    keep(request, answer, token or "", session)
    return answer


async def start(request: web.Request) -> web.StreamResponse:
    """The list of what can be connected; where that is one, its form."""
    words = words_for(request)
    try:
        session = await session_of(request)
    except (Unauthorized, Forbidden) as fault:
        return expired(request, fault, words)
    return await first_page(request, session, words)


async def form(request: web.Request) -> web.StreamResponse:
    """The form of one integration; with ``?connected=`` what has come of it, once that is known."""
    words = words_for(request)
    try:
        session = await session_of(request)
        one = _offer(request, session, words)
        made = await _made(request, session)
    except GatewayError as fault:
        return expired(request, fault, words)
    if made is not None:
        return _connected(request, session, words, made)
    return await form_page(request, session, one, words)


async def act(request: web.Request) -> web.StreamResponse:
    """POST of that form: out to the provider, or a connection from what was typed in."""
    words = words_for(request)
    try:
        check_own_form(request)
        # The cookie comes first: without it nothing of the form is read. In a frame the form itself holds the token.
        session = None if is_embedded(request) else await session_of(request)
        posted = await form_of(request, FORM_BYTES)
        session = session or await session_of(request, posted.get(TOKEN_FIELD))
        one = _offer(request, session, words)
    except GatewayError as fault:
        return expired(request, fault, words)
    fields = fields_of(one.provider, session, one.key, words, {})
    params, credential = typed(fields, posted)
    try:
        if one.oauth:
            return await _depart(request, session, one, words, params, posted)
        typed_in = request.app[SERVICES].typed_in
        connection = await typed_in.connect(session, one.integration, credential, params, request[REQUEST_ID])
    except GatewayError as fault:
        if one.oauth and TOKEN_FIELD in posted:  # in the window that the page has opened
            environment = session.environment
            return failed(
                request, fault, words=words, name=one.name, integration_id=one.key, tells=True, environment=environment
            )
        return await form_page(request, session, one, words, posted=posted, fault=fault)
    return _connected(request, session, words, connection)


async def _depart(
    request: web.Request,
    session: ConnectSession,
    one: Offer,
    words: Words,
    params: dict[str, str],
    posted: dict[str, str],
) -> web.StreamResponse:
    """A page that goes on by itself, not a redirect: so that forms of ours may go nowhere but to us (CSP form-action)."""
    asked = Asked(
        config=params,
        ws_client_id=posted.get("ws_client_id", "")[:LONGEST_CLIENT_ID] or None,
        lang=words.lang if words.asked else None,
        request_id=request[REQUEST_ID],
    )
    departure = await request.app[SERVICES].flows.begin(session, one.key, asked)
    answer = connect_page(
        request, "connect/leaving.html", words, name=one.name, host=one.host, url=departure.url, logo_of=one
    )
    bind(answer, departure)
    return answer


def _offer(request: web.Request, session: ConnectSession, words: Words) -> Offer:
    """Raises NotFound, Forbidden."""
    services = request.app[SERVICES]
    integration = services.integrations.get(session.environment, request.match_info["integration_id"])
    check_offered(session, integration.integration_id)
    return offer(services, integration, base_of(request, session.digest, words), words)


async def _made(request: web.Request, session: ConnectSession) -> Connection | None:
    """The connection that the page asks about, if this session made it."""
    name, store = request.query.get("connected"), request.app[SERVICES].store
    if not name:
        return None
    key = request.match_info["integration_id"]
    made = {
        one.connection_id for one in await store.flow_results.of_session(session.digest) if one.integration_id == key
    }
    return await store.connections.get(ConnectionRef(session.environment, key, name)) if name in made else None


def _connected(
    request: web.Request, session: ConnectSession, words: Words, connection: Connection | PendingConnection
) -> web.Response:
    back = base_of(request, session.digest, words) if len(offered(request.app[SERVICES], session)) > 1 else None
    return connected(request, words, connection, back=back, framed=is_embedded(request))
