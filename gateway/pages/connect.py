"""The connect page: what a session offers, what will be granted, the form, and the way to the provider and back.

Works without JavaScript; with it, and in a frame, the same pages are fetched and shown in place (templates/connect/connect.js).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from aiohttp import hdrs, web

from gateway.connections.flow import Asked
from gateway.connections.offered import check_offered
from gateway.errors import Forbidden, GatewayError, Issue, Unauthorized
from gateway.pages.begin import LONGEST_CLIENT_ID, bind
from gateway.pages.callback import connected
from gateway.pages.choices import Offer, found, grants, offer, offered
from gateway.pages.connect_cookie import (
    TOKEN_FIELD,
    base_of,
    check_own_form,
    is_embedded,
    keep,
    name_of,
    session_of,
)
from gateway.pages.failing import failed
from gateway.pages.fields import fields_of, filled, typed
from gateway.pages.form import posted as form_of
from gateway.pages.frame import connect_page, embedders
from gateway.pages.words import Words, words_for
from gateway.records.connecting import ConnectSession
from gateway.records.connection import Connection, ConnectionRef
from gateway.services import SERVICES

FORM_BYTES: Final = 256 << 10
Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def entrance(request: web.Request) -> web.StreamResponse:
    """What `connect_link` opens, and what a frame loads. The token goes from the address into a cookie at once."""
    words, services = words_for(request), request.app[SERVICES]
    token = request.query.get("session_token")
    if token is None and ("apiURL" in request.query or request.headers.get("Sec-Fetch-Dest") == "iframe"):
        return _frame(request, words)
    try:
        session = await services.sessions.find(token or "")
    except Unauthorized as fault:
        return _expired(request, fault, words)
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
        answer = await _first(request, session, words)
    keep(request, answer, token or "", session)
    return answer


async def start(request: web.Request) -> web.StreamResponse:
    """The list of what can be connected; where that is one, its form."""
    words = words_for(request)
    try:
        session = await session_of(request)
    except (Unauthorized, Forbidden) as fault:
        return _expired(request, fault, words)
    return await _first(request, session, words)


async def form(request: web.Request) -> web.StreamResponse:
    """The form of one integration; with ``?connected=`` what has come of it, once that is known."""
    words = words_for(request)
    try:
        session = await session_of(request)
        one = _offer(request, session, words)
        made = await _made(request, session)
    except GatewayError as fault:
        return _expired(request, fault, words)
    if made is not None:
        return _connected(request, session, words, made)
    return await _form(request, session, one, words)


async def act(request: web.Request) -> web.StreamResponse:
    """POST of that form: out to the provider, or a connection from what was typed in."""
    words = words_for(request)
    try:
        check_own_form(request)
        posted = await form_of(request, FORM_BYTES)
        session = await session_of(request, posted.get(TOKEN_FIELD))
        one = _offer(request, session, words)
    except GatewayError as fault:
        return _expired(request, fault, words)
    fields = fields_of(one.provider, session, one.key, words, {})
    params, credential = typed(fields, posted)
    try:
        if one.oauth:
            return await _depart(request, session, one, words, params, posted)
        connection = await request.app[SERVICES].typed_in.connect(session, one.integration, credential, params)
    except GatewayError as fault:
        if one.oauth and TOKEN_FIELD in posted:  # in the window that the page has opened
            return failed(request, fault, words=words, name=one.name, integration_id=one.key, tells=True)
        return await _form(request, session, one, words, posted=posted, fault=fault)
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
    )
    departure = await request.app[SERVICES].flows.begin(session, one.key, asked)
    answer = connect_page(
        request, "connect/leaving.html", words, name=one.name, host=one.host, url=departure.url, logo_of=one
    )
    bind(answer, departure)
    return answer


async def _first(request: web.Request, session: ConnectSession, words: Words) -> web.StreamResponse:
    services = request.app[SERVICES]
    begin = base_of(request, session.digest, words)
    offers = [offer(services, one, begin, words) for one in offered(services, session)]
    if len(offers) == 1:
        return await _form(request, session, offers[0], words)
    search = request.query.get("q", "")[:100]
    return connect_page(
        request,
        "connect/list.html",
        words,
        framed=is_embedded(request),
        offers=found(offers, search),
        many=len(offers) > 6,
        total=len(offers),
        search=search,
        begin=begin,
        **_whose(session, words),
    )


async def _form(
    request: web.Request,
    session: ConnectSession,
    one: Offer,
    words: Words,
    *,
    posted: dict[str, str] | None = None,
    fault: GatewayError | None = None,
) -> web.StreamResponse:
    services = request.app[SERVICES]
    row = await _renewed(request, session, one.key)
    fields = fields_of(one.provider, session, one.key, words, row.config if row else {})
    issues: Sequence[Issue] = fault.errors if fault else ()
    if posted is not None:
        fields = filled(fields, posted, issues)
    beside = {(field.group, field.key) for field in fields if field.fault}
    advice = f"advice_{fault.code}" if fault else ""
    answer = connect_page(
        request,
        "connect/form.html",
        words,
        fault.status if fault and fault.status < 500 else 200 if fault is None else 502,
        framed=is_embedded(request),
        one=one,
        fields=fields,
        grants=grants(session, one, services.config.branding.name or words.plain("the_app"), words),
        reconnecting=session.reconnects,
        account=row.account.label if row else None,
        back=base_of(request, session.digest, words) if len(offered(services, session)) > 1 else None,
        guide=session.overrides.get(one.key, {}).get("docs_connect") or one.provider.docs_connect,
        fault=fault.message if fault else None,
        advice=words(advice if words.has(advice) else "advice_other", name=one.name) if fault else None,
        all_beside=bool(issues) and len(beside) == len({issue.path for issue in issues}),
        event={"type": "error", "payload": {"errorType": fault.code, "errorMessage": fault.message}} if fault else None,
        **_whose(session, words),
    )
    if fault:
        answer.headers["Gateway-Error"] = fault.code
    return answer


def _frame(request: web.Request, words: Words) -> web.Response:
    """What an embedding page loads: empty until it has been handed a session's token."""
    services = request.app[SERVICES]
    branding = services.config.branding
    return connect_page(
        request,
        "connect/embedded.html",
        words,
        framed=True,
        base=f"{services.config.server.public_url}/connect/s/embedded",
        result=f"{services.config.server.public_url}/connect/session/result",
        embedders=" ".join(embedders(services)),
        settings={
            "theme": {"light": {"primary": branding.color}, "dark": {"primary": branding.color_dark}},
            "defaultTheme": "system",
            "showWatermark": False,
        },
        chosen=words.lang if words.asked else "",
    )


def _expired(request: web.Request, fault: GatewayError, words: Words) -> web.Response:
    """A link that does not work, for whatever reason: the page says what to do, in words that are not a programmer's."""
    forbidden = isinstance(fault, Forbidden) and fault.code == "forbidden"
    lost_cookie = isinstance(fault, Unauthorized) and "session_id" in request.match_info and not is_embedded(request)
    message = words("embedder" if forbidden else "expired")
    if lost_cookie and fault.code == "invalid_connect_session_token_format":
        message = f"{message} {words('cookies')}"
    if not isinstance(fault, Forbidden | Unauthorized):
        return failed(request, fault, fault.status, words=words, framed=is_embedded(request))
    return failed(
        request,
        fault,
        fault.status,
        words=words,
        title=words("embedder_title" if forbidden else "expired_title"),
        message=message,
        framed=is_embedded(request),
    )


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


def _connected(request: web.Request, session: ConnectSession, words: Words, connection: Connection) -> web.Response:
    back = base_of(request, session.digest, words) if len(offered(request.app[SERVICES], session)) > 1 else None
    return connected(request, words, connection, back=back, framed=is_embedded(request))


async def _renewed(request: web.Request, session: ConnectSession, key: str) -> Connection | None:
    if not session.reconnects or session.connection_id is None:
        return None
    ref = ConnectionRef(session.environment, key, session.connection_id)
    return await request.app[SERVICES].store.connections.get(ref)


def _whose(session: ConnectSession, words: Words) -> dict[str, Any]:
    user = session.end_user
    who = (user.display_name or user.email or user.id) if user else None
    if user and user.organization_display_name:
        who = f"{who} · {user.organization_display_name}"
    return {
        "who": words("for_who", who=who) if who else None,
        "until": words("until", time=session.expires_at.strftime("%H:%M UTC")),
        "session_name": name_of(session.digest),
    }
