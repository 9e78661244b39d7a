"""The connect page: what a session offers, what will be granted, the form, and the redirect to the provider and back.

Each form is also its confirmation (gateway.pages.confirmation). The response to an accepted form is a 303, so that
reloading a page does not repeat the action. All pages work without JavaScript, except in a frame: there the script
fetches the same pages and shows them in place (templates/connect/connect.js).
"""

from dataclasses import replace
from typing import Final

from aiohttp import hdrs, web

from gateway.authorization.connect_sessions import check_offered
from gateway.errors import Forbidden, GatewayError, InvalidRequest, Unauthorized
from gateway.middleware.facts import REQUEST_ID
from gateway.pages.confirmation import (
    CONFIRMATION_FIELD,
    UNCONFIRMED,
    Browser,
    check_confirmed,
    claim,
)
from gateway.pages.connect_cookie import (
    TOKEN_FIELD,
    check_own_form,
    first_page_url,
    is_embedded,
    keep,
    page_url,
    quoted,
    session_of,
)
from gateway.pages.connect_offer import Offer, offer
from gateway.pages.connect_view import first_page, form_page, frame_page
from gateway.pages.error_page import expired, failed
from gateway.pages.form_fields import fields_of, typed
from gateway.pages.form_fields import posted as form_of
from gateway.pages.frame import PageWords, connect_page, see_other, words_for
from gateway.pages.redirects import LONGEST_CLIENT_ID, bind
from gateway.pages.result import result_page
from gateway.records.connecting import ConnectSession, FlowOptions
from gateway.runtime import RUNTIME, generation_of
from gateway.store.pending_authorizations import bound_to_other_browser

FORM_BYTES: Final = 256 << 10


async def entrance(request: web.Request) -> web.StreamResponse:
    """Serve the page that `connect_link` opens and a frame loads.

    The token is moved from the URL into a cookie immediately.
    """
    words, runtime = words_for(request), request.app[RUNTIME]
    token = request.query.get("session_token")
    if token is None and ("apiURL" in request.query or request.headers.get("Sec-Fetch-Dest") == "iframe"):
        return frame_page(request, words)
    try:
        session = await runtime.sessions.find(token or "")
    except Unauthorized as fault:
        return expired(request, fault, words)
    if "text/html" in request.headers.get(hdrs.ACCEPT, ""):
        response: web.StreamResponse = see_other(first_page_url(request, session.digest, words))
    else:  # a program, which may keep no cookies, gets the page itself instead of a redirect
        response = await first_page(request, session, words)
    keep(request, response, token or "", session)
    return response


async def start(request: web.Request) -> web.StreamResponse:
    """Serve the list of integrations that can be connected, or the form if there is only one."""
    words = words_for(request)
    try:
        session = await _session(request)
    except (Unauthorized, Forbidden) as fault:
        return expired(request, fault, words)
    return await first_page(request, session, words)


async def form(request: web.Request) -> web.StreamResponse:
    """Serve the form of one integration. ``?asked=``: the token of stored options (`Flows.ask`), for a browser that
    opened ``/oauth/connect/…`` with options. ``?connected=``: a frame requests the result."""
    words = words_for(request)
    try:
        session = await _session(request)
        one = _offer(request, session, words)
        asked = await _stored_options(request, session, one, request.query.get("asked"))
    except GatewayError as fault:
        return expired(request, fault, words)
    if is_embedded(request) and request.query.get("connected"):
        return await result_page(request, session.digest, session, one.key, words) or await form_page(
            request, session, one, words
        )
    return await form_page(request, session, one, words, asked=asked, asked_token=request.query.get("asked"))


async def act(request: web.Request) -> web.StreamResponse:
    """Handle the POST of the form: begin an authorization at the provider, or create a connection from the typed
    credential."""
    words = words_for(request)
    try:
        check_own_form(request)
        # The cookie is checked first: without it the form is not read. In a frame the form itself holds the token.
        session = None if is_embedded(request) else await _session(request)
        posted = await form_of(request, FORM_BYTES)
        session = session or await session_of(request, posted.get(TOKEN_FIELD))
        one = _offer(request, session, words)
        asked = await _stored_options(request, session, one, posted.get("asked"))
    except GatewayError as fault:
        return expired(request, fault, words)
    browser = Browser(request, session)
    popup = one.oauth and TOKEN_FIELD in posted  # a window opened by the page in a frame
    fields = [] if asked else fields_of(one.provider, session, one.key, words, {})
    params, credential = typed(fields, posted)
    try:
        check_confirmed(request, browser, one.key, posted.get(CONFIRMATION_FIELD, ""))
        if popup or not is_embedded(request):
            await claim(request, browser, session)
        elif session.for_one_browser and session.browser_digest is not None:
            raise bound_to_other_browser()  # a frame keeps no cookie that could identify its browser
        if one.oauth:
            response = await _begin_authorization(
                request, session, one, words, asked or _options_in(params, posted), browser.digest
            )
        else:
            typed_in = request.app[RUNTIME].typed_credentials
            its = None if is_embedded(request) else browser.digest
            await typed_in.connect(session, one.integration, credential, params, request[REQUEST_ID], its)
            response = see_other(page_url(request, session.digest, words, f"/i/{quoted(one.key)}/result"))
    except GatewayError as fault:
        if isinstance(fault, Forbidden):
            return expired(request, fault, words)
        if popup:
            environment = session.environment
            return failed(
                request, fault, words=words, name=one.name, integration_id=one.key, tells=True, environment=environment
            )
        shown = None if fault.code == UNCONFIRMED else posted
        token = posted.get("asked")
        return await form_page(request, session, one, words, posted=shown, fault=fault, asked=asked, asked_token=token)
    if popup:
        keep(request, response, posted[TOKEN_FIELD], session)  # the window has cookies, unlike the frame that opened it
    if popup or not is_embedded(request):
        browser.keep(response)
    return response


async def leave(request: web.Request) -> web.StreamResponse:
    """Send the browser to the provider. The response is a page that forwards the browser, not a redirect: browsers
    apply the CSP's form-action to redirects too, and the gateway's forms may only go to the gateway. The page can be
    reloaded."""
    words, runtime = words_for(request), request.app[RUNTIME]
    try:
        session = await _session(request)
        started = await runtime.flows.started_authorization(request.match_info["flow"], request.cookies)
        if started is None:  # the flow has ended, or belongs to another browser
            return see_other(first_page_url(request, session.digest, words))
        integration_id, authorization_url = started
        one = offer_of(request, session, integration_id, words)
    except GatewayError as fault:
        return expired(request, fault, words)
    return connect_page(
        request, "connect/leaving.html", words, name=one.name, host=one.host, url=authorization_url, logo_of=one
    )


async def _session(request: web.Request) -> ConnectSession:
    """Return the page's session. Raises Unauthorized, and Forbidden if the session belongs to another browser or the
    page is embedded by an origin that is not registered."""
    session = await session_of(request)
    if not is_embedded(request) and not Browser(request, session).may_use_session:
        raise bound_to_other_browser()
    return session


async def _begin_authorization(
    request: web.Request, session: ConnectSession, one: Offer, words: PageWords, asked: FlowOptions, browser: str
) -> web.Response:
    lang = words.lang if words.asked else asked.lang
    authorization = await request.app[RUNTIME].flows.begin(
        session, one.key, replace(asked, lang=lang, request_id=request[REQUEST_ID], browser=browser)
    )
    response = see_other(page_url(request, session.digest, words, f"/leave/{authorization.flow}", window=True))
    bind(response, authorization)
    return response


def _options_in(params: dict[str, str], posted: dict[str, str]) -> FlowOptions:
    return FlowOptions(config=params, ws_client_id=posted.get("ws_client_id", "")[:LONGEST_CLIENT_ID] or None)


def _offer(request: web.Request, session: ConnectSession, words: PageWords) -> Offer:
    """Return the offer of the integration in the path. Raises NotFound, Forbidden."""
    return offer_of(request, session, request.match_info["integration_id"], words)


def offer_of(request: web.Request, session: ConnectSession, integration_id: str, words: PageWords) -> Offer:
    """Return the session's offer of this integration. Raises NotFound, Forbidden."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    integration = generation.integrations.get(session.environment, integration_id)
    check_offered(session, integration.integration_id)
    return offer(runtime, generation, integration, first_page_url(request, session.digest, words), words)


async def _stored_options(
    request: web.Request, session: ConnectSession, one: Offer, token: str | None
) -> FlowOptions | None:
    """Return the options stored under `token`, None without a token. Raises InvalidRequest if they have expired."""
    if not token:
        return None
    asked = await request.app[RUNTIME].flows.stored_options(session, one.key, token)
    if asked is None:
        raise InvalidRequest("invalid_state", "This page was open too long. Start again from the application.")
    return asked
