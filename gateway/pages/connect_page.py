"""The handlers of the connect page: the list of integrations, the form, and the page that forwards to the provider.

With each form, the end user also confirms the connection (`gateway.pages.confirmation`). The response to an accepted
form is a 303, so that reloading the page does not repeat the action. The pages work without JavaScript, except in a
frame: there a script fetches the pages and shows them in the frame (templates/connect/connect.js).
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
    SessionBrowser,
    check_confirmed,
    claim_session,
)
from gateway.pages.connect_cookie import (
    TOKEN_FIELD,
    check_own_form,
    cookies_of,
    first_page_url,
    is_embedded,
    page_url,
    quoted_id,
    session_of,
    set_session_cookie,
)
from gateway.pages.connect_offer import Offer, make_offer
from gateway.pages.connect_view import first_page, form_page, frame_page
from gateway.pages.error_page import dead_link_page, failure_page
from gateway.pages.form_fields import fields_of, read_form, values_from_form
from gateway.pages.frame import PageWords, connect_page, see_other, words_for
from gateway.pages.redirects import MAX_CLIENT_ID_CHARS, set_binding_cookie
from gateway.pages.result import result_page
from gateway.records.connecting import ConnectSession, FlowOptions
from gateway.runtime import RUNTIME, generation_of
from gateway.store.pending_authorizations import bound_to_other_browser_error

MAX_FORM_BYTES: Final = 256 << 10


async def open_link(request: web.Request) -> web.StreamResponse:
    """Serve the page that `connect_link` opens and that a frame loads.

    The session's token is moved from the URL into a cookie immediately.
    """
    words, runtime = words_for(request), request.app[RUNTIME]
    token = request.query.get("session_token")
    if token is None and ("apiURL" in request.query or request.headers.get("Sec-Fetch-Dest") == "iframe"):
        return frame_page(request, words)
    try:
        session = await runtime.sessions.find(token or "")
    except Unauthorized as fault:
        return dead_link_page(request, fault, words)
    if "text/html" in request.headers.get(hdrs.ACCEPT, ""):
        response: web.StreamResponse = see_other(first_page_url(request, session.digest, words))
    else:  # a program gets the page itself instead of a redirect, because it may keep no cookies
        response = await first_page(request, session, words)
    set_session_cookie(request, response, token or "", session)
    return response


async def show_offers(request: web.Request) -> web.StreamResponse:
    """Serve the list of integrations that can be connected, or the form if there is only one integration."""
    words = words_for(request)
    try:
        session = await _session(request)
    except (Unauthorized, Forbidden) as fault:
        return dead_link_page(request, fault, words)
    return await first_page(request, session, words)


async def show_form(request: web.Request) -> web.StreamResponse:
    """Serve the form of one integration.

    Query parameters: ``asked`` is the token under which `Flows.store_options` has stored the options of
    ``/oauth/connect/…``. With ``connected``, a page in a frame requests the result.
    """
    words = words_for(request)
    try:
        session = await _session(request)
        offer = _requested_offer(request, session, words)
        url_options = await _stored_options(request, session, offer, request.query.get("asked"))
    except GatewayError as fault:
        return dead_link_page(request, fault, words)
    if is_embedded(request) and request.query.get("connected"):
        return await result_page(request, session.digest, session, offer.key, words) or await form_page(
            request, session, offer, words
        )
    return await form_page(
        request, session, offer, words, url_options=url_options, url_options_token=request.query.get("asked")
    )


async def submit_form(request: web.Request) -> web.StreamResponse:
    """Handle the POST of the form.

    Begin an authorization at the provider, or create a connection from the credential that the end user typed.
    """
    words = words_for(request)
    try:
        check_own_form(request)
        # The form is read only if the browser has the session's cookie. In a frame, the form itself contains the token.
        session = None if is_embedded(request) else await _session(request)
        posted = await read_form(request, MAX_FORM_BYTES)
        session = session or await session_of(request, posted.get(TOKEN_FIELD))
        offer = _requested_offer(request, session, words)
        url_options = await _stored_options(request, session, offer, posted.get("asked"))
    except GatewayError as fault:
        return dead_link_page(request, fault, words)
    browser = SessionBrowser(request, session)
    popup = offer.oauth and TOKEN_FIELD in posted  # a page in a frame opened this window
    fields = [] if url_options else fields_of(offer.provider, session, offer.key, words, {})
    params, credential = values_from_form(fields, posted)
    try:
        check_confirmed(request, browser, offer.key, posted.get(CONFIRMATION_FIELD, ""))
        if popup or not is_embedded(request):
            await claim_session(request, browser, session)
        elif session.for_one_browser and session.browser_digest is not None:
            raise bound_to_other_browser_error()  # a page in a frame has no cookie that identifies the browser
        if offer.oauth:
            response = await _begin_authorization(
                request, session, offer, words, url_options or _options_in(params, posted), browser.digest
            )
        else:
            typed_credentials = request.app[RUNTIME].typed_credentials
            browser_digest = None if is_embedded(request) else browser.digest
            await typed_credentials.connect(
                session, offer.integration, credential, params, request[REQUEST_ID], browser_digest
            )
            response = see_other(page_url(request, session.digest, words, f"/i/{quoted_id(offer.key)}/result"))
    except GatewayError as fault:
        return await _page_after_failure(request, session, offer, words, fault, posted, url_options, popup=popup)
    if popup:
        set_session_cookie(
            request, response, posted[TOKEN_FIELD], session
        )  # unlike the page in a frame that opened the window, the window can keep cookies
    if popup or not is_embedded(request):
        browser.set_cookie(response)
    return response


async def _page_after_failure(
    request: web.Request,
    session: ConnectSession,
    offer: Offer,
    words: PageWords,
    fault: GatewayError,
    posted: dict[str, str],
    url_options: FlowOptions | None,
    *,
    popup: bool,
) -> web.StreamResponse:
    """Return the page for a posted form that failed: usually the form again, with its values and the error."""
    if isinstance(fault, Forbidden):
        return dead_link_page(request, fault, words)
    if popup:
        return failure_page(
            request,
            fault,
            words=words,
            name=offer.name,
            integration_id=offer.key,
            posts_to_opener=True,
            environment=session.environment,
        )
    return await form_page(
        request,
        session,
        offer,
        words,
        posted=None if fault.code == UNCONFIRMED else posted,
        fault=fault,
        url_options=url_options,
        url_options_token=posted.get("asked"),
    )


async def leave_for_provider(request: web.Request) -> web.StreamResponse:
    """Serve a page that forwards the browser to the provider. The page can be reloaded.

    A redirect to the provider would not work after a form. Browsers apply the CSP's form-action to redirects too, and
    the gateway's pages allow forms only to the gateway.
    """
    words, runtime = words_for(request), request.app[RUNTIME]
    try:
        session = await _session(request)
        started_flow = await runtime.flows.started_authorization(request.match_info["flow"], cookies_of(request))
        if started_flow is None:  # the flow has ended, or belongs to another browser
            return see_other(first_page_url(request, session.digest, words))
        integration_id, authorization_url = started_flow
        offer = session_offer(request, session, integration_id, words)
    except GatewayError as fault:
        return dead_link_page(request, fault, words)
    return connect_page(
        request, "connect/leaving.html", words, name=offer.name, host=offer.host, url=authorization_url, logo_of=offer
    )


async def _session(request: web.Request) -> ConnectSession:
    """Return the page's session.

    Raises Unauthorized. Raises Forbidden if the session belongs to another browser, or if an origin that is not
    registered embeds the page.
    """
    session = await session_of(request)
    if not is_embedded(request) and not SessionBrowser(request, session).may_use_session:
        raise bound_to_other_browser_error()
    return session


async def _begin_authorization(
    request: web.Request,
    session: ConnectSession,
    offer: Offer,
    words: PageWords,
    url_options: FlowOptions,
    browser: str,
) -> web.Response:
    lang = words.lang if words.is_chosen else url_options.lang
    authorization = await request.app[RUNTIME].flows.begin(
        session, offer.key, replace(url_options, lang=lang, request_id=request[REQUEST_ID], browser=browser)
    )
    response = see_other(page_url(request, session.digest, words, f"/leave/{authorization.flow}", window=True))
    set_binding_cookie(response, authorization)
    return response


def _options_in(params: dict[str, str], posted: dict[str, str]) -> FlowOptions:
    return FlowOptions(config=params, ws_client_id=posted.get("ws_client_id", "")[:MAX_CLIENT_ID_CHARS] or None)


def _requested_offer(request: web.Request, session: ConnectSession, words: PageWords) -> Offer:
    """Return the offer of the integration in the path. Raises NotFound, Forbidden."""
    return session_offer(request, session, request.match_info["integration_id"], words)


def session_offer(request: web.Request, session: ConnectSession, integration_id: str, words: PageWords) -> Offer:
    """Return the offer of this integration if the session allows the integration. Raises NotFound, Forbidden."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    integration = generation.integrations.get(session.environment, integration_id)
    check_offered(session, integration.integration_id)
    return make_offer(runtime, generation, integration, first_page_url(request, session.digest, words), words)


async def _stored_options(
    request: web.Request, session: ConnectSession, offer: Offer, token: str | None
) -> FlowOptions | None:
    """Return the options stored under `token`; None if there is no token.

    Raises InvalidRequest if the options have expired.
    """
    if not token:
        return None
    url_options = await request.app[RUNTIME].flows.read_options(session, offer.key, token)
    if url_options is None:
        raise InvalidRequest("invalid_state", "This page was open too long. Start again from the application.")
    return url_options
