"""The last pages of a connect session: the result, at a URL that can be reloaded, and the return to the application."""

from typing import Any

from aiohttp import web

from gateway.authorization.return_url import ReturnResult, signed_return_url
from gateway.errors import GatewayError
from gateway.events.signatures import signing_keys
from gateway.pages.confirmation import SessionBrowser
from gateway.pages.connect_cookie import (
    first_page_url,
    is_embedded,
    page_url,
    quoted_id,
    session_digest_in_cookie,
    session_of,
)
from gateway.pages.connect_offer import make_offer, offered_integrations
from gateway.pages.error_page import dead_link_page, failure_page
from gateway.pages.frame import PageWords, connect_page, opener_origins, see_other, words_for
from gateway.records.connecting import SESSION_ENDED, ConnectSession, Outcome
from gateway.records.connection import Account, ConnectionRef
from gateway.runtime import RUNTIME, generation_of
from gateway.store.pending_authorizations import bound_to_other_browser_error


async def result(request: web.Request) -> web.StreamResponse:
    """Show the result of connecting one integration. The page also works after the session has ended."""
    words, runtime, generation = words_for(request), request.app[RUNTIME], generation_of(request)
    key = request.match_info["integration_id"]
    try:
        if is_embedded(request):
            session: ConnectSession | None = await session_of(request)
            assert session is not None
            session_digest = session.digest
        else:
            session_digest = session_digest_in_cookie(request)
            session = await runtime.sessions.find_by_digest(session_digest)
            if session is not None and not SessionBrowser(request, session).may_use_session:
                raise bound_to_other_browser_error()
        page = await result_page(request, session_digest, session, key, words)
        if page is not None:
            return page
        session = session or await session_of(request)  # raises an error if the session has ended without a result
        generation.integrations.get(session.environment, key)
    except GatewayError as fault:
        return dead_link_page(request, fault, words)
    return see_other(page_url(request, session.digest, words, f"/i/{quoted_id(key)}"))


async def return_to_application(request: web.Request) -> web.StreamResponse:
    """Serve ``GET …/return``, the target of the buttons Done and Cancel.

    The response is a 303 to the session's `return_url` or, if the session has no `return_url`, the last page.
    """
    words = words_for(request)
    try:
        session = await session_of(request)
        browser = SessionBrowser(request, session)
        if not browser.may_use_session:
            raise bound_to_other_browser_error()
    except GatewayError as fault:
        return dead_link_page(request, fault, words)
    key = request.query.get("i")
    outcomes = await _outcomes(request, session.digest, key)
    if session.needs_completion and not browser.has_confirmed:  # do not show the outcome of another browser
        outcomes = []
    own_connections = {outcome.connection_id for outcome in outcomes if browser.may_return_outcome(outcome)}
    successes = [outcome for outcome in outcomes if outcome.succeeded and outcome.connection_id in own_connections]
    failures = [outcome for outcome in outcomes if not outcome.succeeded]
    if session.return_url is not None:
        newest = next(reversed(successes or failures), None)
        return see_other(await application_url(request, session, newest, key))
    if successes:
        return see_other(
            page_url(request, session.digest, words, f"/i/{quoted_id(successes[-1].integration_id)}/result")
        )
    return _last_page(
        request,
        words,
        success=None,
        title=words("cancelled_title"),
        message=words("cancelled"),
        back=first_page_url(request, session.digest, words),
        back_label=words("again"),
        opener_message="error",
        payload={"message": words("cancelled"), "errorType": "window_closed"},
        opener_origins=opener_origins(request, session.environment),
        event={"type": "close"},
    )


async def application_url(
    request: web.Request, session: ConnectSession, outcome: Outcome | None, key: str | None
) -> str:
    """Return the session's `return_url` with the signed result.

    `outcome`: the result; None: the end user cancelled. `key`: the integration's ID.
    """
    runtime, generation = request.app[RUNTIME], generation_of(request)
    if outcome is None:
        return_result = ReturnResult(outcome="cancelled", provider_config_key=key)
    elif not outcome.succeeded:
        return_result = ReturnResult(outcome="failed", provider_config_key=outcome.integration_id, error=outcome.code)
    else:
        return_result = ReturnResult(
            outcome="pending" if outcome.is_pending else "connected",
            provider_config_key=outcome.integration_id,
            connection_id=outcome.connection_id,
        )
    signing_key = (await signing_keys(generation.config, runtime.store, session.environment))[0]
    return signed_return_url(session, return_result, public_url=generation.public_url, signing_key=signing_key)


async def result_page(
    request: web.Request, session_digest: str, session: ConnectSession | None, key: str, words: PageWords
) -> web.Response | None:
    """Return the page with the result of connecting the integration `key`; None if there is no result yet."""
    outcomes = await _outcomes(request, session_digest, key)
    outcome = next((outcome for outcome in reversed(outcomes) if outcome.succeeded), None)
    if outcome is not None:
        return await connected_page(request, words, outcome, session)
    if not outcomes:
        return None
    return _failure(request, words, outcomes[-1], session)


async def connected_page(
    request: web.Request, words: PageWords, outcome: Outcome, session: ConnectSession | None, *, already: bool = False
) -> web.Response:
    """Return the page that says that an account is connected.

    `session`: None if the session has ended or this browser has no cookie for the session. `already`: whether the end
    user has opened the form of an integration that was already connected.
    """
    generation = generation_of(request)
    if (
        outcome.is_pending
        and session is not None
        and session.return_url is not None
        and not is_embedded(request)
        and SessionBrowser(request, session).may_return_outcome(outcome)
    ):
        url = await application_url(request, session, outcome, outcome.integration_id)
        return connect_page(request, "connect/onward.html", words, url=url)
    integration = generation.integrations.find(outcome.environment, outcome.integration_id)
    provider = generation.catalog.get(integration.provider) if integration else None
    name = (integration.display_name if integration else None) or (
        provider.display_name if provider else outcome.integration_id
    )
    facts = await _facts(request, outcome, words)
    has_several = session is not None and len(offered_integrations(generation, session)) > 1
    open_for_more = session is not None and not session.is_used_up and session.connection_id is None
    state = "already" if already else "one_more" if outcome.is_pending else "done"
    app = generation.config.branding.name or words.plain("the_app")
    returns = session is not None and session.return_url is not None
    message = (
        words("done_embedded") if state == "done" and is_embedded(request)
        else words("done_return", app=app) if state == "done" and returns
        else words(state, app=app, name=name)
    )  # fmt: skip
    base = first_page_url(request, session.digest, words) if session is not None else None
    connect_another = None
    if already and open_for_more and session is not None:
        connect_another = page_url(request, session.digest, words, f"/i/{quoted_id(outcome.integration_id)}", again="1")
    return _last_page(
        request,
        words,
        success=True,
        title=words(f"{state}_title", name=name),
        message=message,
        facts=facts,
        back=base if has_several and open_for_more else None,
        back_label=words("done_more"),
        another=connect_another,
        waits=state == "one_more",
        done=application_link(request, session, words, outcome.integration_id),
        opener_message="success" if not already else None,
        opener_origins=opener_origins(request, outcome.environment),
        event=None if already else _connect_event(outcome),
    )


def _connect_event(outcome: Outcome) -> dict[str, Any]:
    """Return the message that the page posts to the window that opened it."""
    return {
        "type": "connect",
        "payload": {
            "providerConfigKey": outcome.integration_id,
            "connectionId": outcome.connection_id,
            "isPending": outcome.is_pending,
        },
    }


def application_link(request: web.Request, session: ConnectSession | None, words: PageWords, key: str) -> str | None:
    """Return the URL with which the end user returns to the application.

    Return None if the session has no `return_url`, or if the page is in a frame.
    """
    if session is None or session.return_url is None or is_embedded(request):
        return None
    return page_url(request, session.digest, words, "/return", i=key)


def _failure(request: web.Request, words: PageWords, outcome: Outcome, session: ConnectSession | None) -> web.Response:
    runtime, generation = request.app[RUNTIME], generation_of(request)
    name = back_url = None
    integration = generation.integrations.find(outcome.environment, outcome.integration_id)
    if session is not None and integration is not None and generation.catalog.get(integration.provider) is not None:
        offer = make_offer(runtime, generation, integration, first_page_url(request, session.digest, words), words)
        name, back_url = offer.name, offer.url
    fault = GatewayError(outcome.code or "generic_error_support", outcome.error_desc or "")  # type: ignore[arg-type]
    return failure_page(
        request,
        fault,
        words=words,
        name=name,
        integration_id=outcome.integration_id,
        back=back_url,
        done=application_link(request, session, words, outcome.integration_id),
        framed=is_embedded(request),
    )


async def _facts(request: web.Request, outcome: Outcome, words: PageWords) -> list[tuple[str, str]]:
    """Return the names of the account and of the site, each with its label, so that the end user can recognize them."""
    if outcome.connection_id is None:
        return []
    ref = ConnectionRef(outcome.environment, outcome.integration_id, outcome.connection_id)
    row = None if outcome.is_pending else await request.app[RUNTIME].store.connections.get(ref)
    account = row.account if row else Account()
    config = row.config if row else {}
    site = config.get("baseUrl") or config.get("subdomain")
    labeled_facts = ((words("account"), account.label), (words("site"), site))
    return [(label, text) for label, text in labeled_facts if text]


async def _outcomes(request: web.Request, session_digest: str, key: str | None) -> list[Outcome]:
    outcomes = await request.app[RUNTIME].store.flow_results.find_by_session(session_digest)
    return [
        outcome for outcome in outcomes if outcome.error_type != SESSION_ENDED and key in {None, outcome.integration_id}
    ]


async def connected_outcomes(request: web.Request, session: ConnectSession) -> dict[str, Outcome]:
    """Return the last successful outcome of each integration that the session has connected."""
    return {
        outcome.integration_id: outcome
        for outcome in await _outcomes(request, session.digest, None)
        if outcome.succeeded
    }


def _last_page(request: web.Request, words: PageWords, **context: Any) -> web.Response:
    defaults: dict[str, Any] = {
        "detail": None,
        "facts": [],
        "support_reference": None,
        "done": None,
        "done_label": words("done_button"),
        "another": None,
        "waits": False,
        "payload": {},
    }
    return connect_page(request, "connect/result.html", words, framed=is_embedded(request), **{**defaults, **context})
