"""The redirect of the browser to the provider's consent page, and the provider's callback with the result."""

from dataclasses import replace
from typing import Final

from aiohttp import hdrs, web

from gateway import clock
from gateway.authorization.flows import AuthorizationStart, state_in
from gateway.authorization.results import LIFETIME, CallbackFailed, ConnectedResult, SiteChoice
from gateway.errors import GatewayError, InvalidRequest, Issue, TooManyRequests, Unauthorized
from gateway.http.url import nested_parameters
from gateway.middleware.facts import REQUEST_ID
from gateway.pages.confirmation import SessionBrowser, claim_session, is_browser, is_real_browser
from gateway.pages.connect_cookie import (
    cookies_of,
    first_page_url,
    holds_session,
    page_url,
    quoted_id,
    set_session_cookie,
)
from gateway.pages.connect_offer import make_offer
from gateway.pages.error_page import failure_page
from gateway.pages.form_fields import read_form
from gateway.pages.frame import PageWords, connect_page, see_other, words_for
from gateway.pages.result import application_link, application_url, connected_page
from gateway.records.connecting import ConnectSession, FlowOptions, Outcome
from gateway.runtime import RUNTIME, generation_of
from gateway.secret import digest
from gateway.store.pending_authorizations import bound_to_other_browser_error

# ── Starts an authorization: sends the browser to the provider's consent page (docs/compatibility.md#authorization).

CREDENTIAL_OVERRIDES: Final = {
    "oauth_client_id_override": "client_id",
    "oauth_client_secret_override": "client_secret",
    "oauth_refresh_token_override": "refresh_token",
}
MAX_CLIENT_ID_CHARS: Final = 255


async def begin(request: web.Request) -> web.StreamResponse:
    """Start an authorization.

    A browser gets a 303 to the confirmation page, for which the URL's options are stored, and the session's token in a
    cookie. A program has no cookies of a person, so it gets a 302 to the provider, with a cookie that binds the flow to
    the program.

    A browser gets an error as a page. A program, or a request without a valid session, gets the error as JSON. The
    WebSocket of the window reports the error too.
    """
    runtime = request.app[RUNTIME]
    session = await runtime.sessions.find(request.query.get("connect_session_token", ""))
    integration_id = request.match_info["integration_id"]
    ws_client_id = request.query.get("ws_client_id", "")[:MAX_CLIENT_ID_CHARS] or None
    try:
        options = await _options_in(request, session, integration_id, ws_client_id)
        if is_browser(request):
            return await _confirmation_redirect(request, session, integration_id, options)
        browser = SessionBrowser(request, session)
        await claim_session(request, browser, session)
        authorization = await runtime.flows.begin(session, integration_id, replace(options, browser=browser.digest))
    except Unauthorized:
        raise
    except GatewayError as fault:
        if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
            raise
        status = fault.status if isinstance(fault, TooManyRequests) else 400
        return failure_page(
            request, fault, status, integration_id=integration_id, posts_to_opener=True, environment=session.environment
        )
    response = web.Response(
        status=302,
        headers={
            hdrs.LOCATION: authorization.url,
            hdrs.CACHE_CONTROL: "no-store",
            "Referrer-Policy": "no-referrer",  # the current URL contains the session's token
        },
    )
    set_binding_cookie(response, authorization)
    if session.for_one_browser:
        browser.set_cookie(response)
    return response


def set_binding_cookie(response: web.Response, authorization: AuthorizationStart) -> None:
    """Set the cookie with which the callback identifies the browser that started the flow."""
    set_flow_cookie(response, authorization.cookie_name, authorization.cookie_value.reveal())


def set_flow_cookie(response: web.Response, name: str, value: str) -> None:
    response.set_cookie(
        name,
        value,
        max_age=int(LIFETIME.total_seconds()),
        path="/",
        secure=name.startswith("__Host-"),
        httponly=True,
        samesite="Lax",
    )


async def _confirmation_redirect(
    request: web.Request, session: ConnectSession, integration_id: str, options: FlowOptions
) -> web.Response:
    if not SessionBrowser(request, session).may_use_session:
        raise bound_to_other_browser_error()
    token = await request.app[RUNTIME].flows.store_options(session, integration_id, options)
    words = words_for(request, options.lang)
    response = see_other(page_url(request, session.digest, words, f"/i/{quoted_id(integration_id)}", asked=token))
    set_session_cookie(request, response, request.query.get("connect_session_token", ""), session)
    return response


async def _options_in(
    request: web.Request, session: ConnectSession, integration_id: str, ws_client_id: str | None
) -> FlowOptions:
    runtime = request.app[RUNTIME]
    if "connection_id" in request.query:
        runtime.flows.count_start(session)
        message = "connection_id cannot be set here: the connect session sets it. Remove the parameter."
        fault = InvalidRequest("invalid_query_params", message, errors=[Issue("custom", message, ("connection_id",))])
        await runtime.flows.report_refusal(session, integration_id, ws_client_id, fault, request[REQUEST_ID])
        raise fault
    overrides = nested_parameters(request.query, "credentials")
    return FlowOptions(
        config=nested_parameters(request.query, "params"),
        authorization_params=nested_parameters(request.query, "authorization_params"),
        user_scope=request.query.get("user_scope"),
        override={
            CREDENTIAL_OVERRIDES[name]: text
            for name, text in overrides.items()
            if name in CREDENTIAL_OVERRIDES and text
        },
        ws_client_id=ws_client_id,
        lang=request.query.get("lang"),
        request_id=request[REQUEST_ID],
    )


MAX_FORM_BYTES: Final = 4096


async def callback(request: web.Request) -> web.Response:
    """Handle the provider's callback.

    The response is a 303 to the result page. If the browser has no cookie of the session, the response is the result
    page itself. If the account has several sites, the response is a 200 with a choice. After an error, the response is
    a 400.

    A browser is never redirected to the application, because the callback can follow a form: on the provider's consent
    page, or the form of `choose_site`. Browsers apply the form-action of that page's CSP to all redirects after the
    form. So the result page itself forwards the browser. A program does not read pages, so it is redirected to the
    application if the connection is pending.
    """
    runtime = request.app[RUNTIME]
    name = runtime.flows.cookie_name(state_in(request.query))
    try:
        finished_flow = await runtime.flows.finish(request.query, cookies_of(request), request[REQUEST_ID])
    except GatewayError as fault:
        if fault.code == "invalid_state" and (earlier := await _earlier_result(request, state_in(request.query))):
            return earlier
        response = await _callback_failure_page(request, fault)
        if fault.code == "invalid_state" and not getattr(fault, "is_state_used", False):
            return response  # keep the cookie: a callback with a valid state can still arrive
    else:
        response = await _result_response(request, finished_flow)
    _delete_flow_cookie(request, response, name)
    return response


async def choose_site(request: web.Request) -> web.Response:
    """Handle ``POST /oauth/site``, with which the end user chooses one of several sites.

    The form's token is valid only once, and only in the browser that got the form.
    """
    runtime, token = request.app[RUNTIME], ""
    try:
        form = await read_form(request, MAX_FORM_BYTES)
        token = form.get("token", "")
        finished_flow = await runtime.flows.choose(
            token, form.get("site", ""), cookies_of(request), request[REQUEST_ID]
        )
    except GatewayError as fault:
        return await _callback_failure_page(request, fault)
    response = await _result_response(request, finished_flow)
    _delete_flow_cookie(request, response, runtime.flows.cookie_name(token))
    return response


async def _result_response(request: web.Request, finished_flow: ConnectedResult | SiteChoice) -> web.Response:
    words = words_for(request, finished_flow.lang)
    if isinstance(finished_flow, ConnectedResult):
        return await _connected_response(request, finished_flow, words)
    response = connect_page(
        request,
        "connect/sites.html",
        words,
        name=finished_flow.provider.display_name,
        action=f"{generation_of(request).public_url}/oauth/site",
        token=finished_flow.token,
        sites=finished_flow.sites,
    )
    set_flow_cookie(response, finished_flow.cookie_name, finished_flow.cookie_value.reveal())
    return response


async def _callback_failure_page(request: web.Request, fault: GatewayError) -> web.Response:
    if not isinstance(fault, CallbackFailed) or fault.integration_id is None:
        return failure_page(request, fault, posts_to_opener=True)
    runtime, generation, words = request.app[RUNTIME], generation_of(request), words_for(request)
    session = await _session_of_browser(request, fault.session_digest)
    integration = generation.integrations.find(session.environment, fault.integration_id) if session else None
    if session is None or integration is None or generation.catalog.get(integration.provider) is None:
        return failure_page(request, fault, words=words, integration_id=fault.integration_id, posts_to_opener=True)
    offer = make_offer(runtime, generation, integration, first_page_url(request, session.digest, words), words)
    return failure_page(
        request,
        fault,
        words=words,
        name=offer.name,
        integration_id=offer.key,
        back=offer.url,
        done=application_link(request, session, words, offer.key),
        posts_to_opener=True,
    )


async def _connected_response(request: web.Request, connected: ConnectedResult, words: PageWords) -> web.Response:
    ref = connected.connection.ref
    outcome = Outcome(
        environment=ref.environment,
        session_digest=connected.session_digest,
        integration_id=ref.integration_id,
        connection_id=ref.connection_id,
        is_pending=connected.is_pending,
        at=clock.now(),
    )
    if not holds_session(request, connected.session_digest):
        return await connected_page(request, words, outcome, None)
    if connected.is_pending and not is_real_browser(request):
        session = await request.app[RUNTIME].sessions.find_by_digest(connected.session_digest)
        if session is not None and session.return_url is not None:
            return see_other(await application_url(request, session, outcome, ref.integration_id))
    return see_other(page_url(request, connected.session_digest, words, f"/i/{quoted_id(ref.integration_id)}/result"))


async def _earlier_result(request: web.Request, state: str) -> web.Response | None:
    """Return a redirect to the result page if an earlier callback with this state created a connection, else None."""
    outcome = await request.app[RUNTIME].store.flow_results.find_by_flow(digest(state)) if state else None
    if outcome is None or not outcome.succeeded or not holds_session(request, outcome.session_digest):
        return None
    words = words_for(request)
    return see_other(page_url(request, outcome.session_digest, words, f"/i/{quoted_id(outcome.integration_id)}/result"))


async def _session_of_browser(request: web.Request, session_digest: str | None) -> ConnectSession | None:
    if session_digest is None or not holds_session(request, session_digest):
        return None
    return await request.app[RUNTIME].sessions.find_by_digest(session_digest)


def _delete_flow_cookie(request: web.Request, response: web.Response, name: str) -> None:
    if name in cookies_of(request):
        response.del_cookie(name, path="/", secure=name.startswith("__Host-"), httponly=True, samesite="Lax")
