"""The last pages of a connect session: its result, at a URL that can be reloaded, and the redirect back to the
application."""

from typing import Any

from aiohttp import web

from gateway.authorization.return_url import ReturnResult, signed_return_url
from gateway.errors import GatewayError
from gateway.events.signatures import signing_keys
from gateway.pages.confirmation import Browser
from gateway.pages.connect_cookie import first_page_url, held_digest, is_embedded, page_url, quoted, session_of
from gateway.pages.connect_offer import offer, offered
from gateway.pages.error_page import expired, failed
from gateway.pages.frame import PageWords, connect_page, openers, see_other, words_for
from gateway.records.connecting import SESSION_ENDED, ConnectSession, Outcome
from gateway.records.connection import Account, ConnectionRef
from gateway.runtime import RUNTIME, generation_of
from gateway.store.pending_authorizations import bound_to_other_browser


async def result(request: web.Request) -> web.StreamResponse:
    """Show the result of connecting one integration, even after the session has ended."""
    words, runtime, generation = words_for(request), request.app[RUNTIME], generation_of(request)
    key = request.match_info["integration_id"]
    try:
        if is_embedded(request):
            session: ConnectSession | None = await session_of(request)
            assert session is not None
            session_digest = session.digest
        else:
            session_digest = held_digest(request)
            session = await runtime.sessions.find_by_digest(session_digest)
            if session is not None and not Browser(request, session).may_use_session:
                raise bound_to_other_browser()
        page = await result_page(request, session_digest, session, key, words)
        if page is not None:
            return page
        session = session or await session_of(request)  # no result yet, so the session must still be alive
        generation.integrations.get(session.environment, key)
    except GatewayError as fault:
        return expired(request, fault, words)
    return see_other(page_url(request, session.digest, words, f"/i/{quoted(key)}"))


async def to_application(request: web.Request) -> web.StreamResponse:
    """Serve ``GET …/return``, the target of Done and Cancel: a 303 to the session's `return_url`, or a last page
    without one."""
    words = words_for(request)
    try:
        session = await session_of(request)
        browser = Browser(request, session)
        if not browser.may_use_session:
            raise bound_to_other_browser()
    except GatewayError as fault:
        return expired(request, fault, words)
    key = request.query.get("i")
    outcomes = await _outcomes(request, session.digest, key)
    if session.bound and not browser.confirmed:  # do not show one browser the outcome of another
        outcomes = []
    own = {one.connection_id for one in outcomes if browser.may_return_outcome(one)}
    made = [one for one in outcomes if one.succeeded and one.connection_id in own]
    failures = [one for one in outcomes if not one.succeeded]
    if session.return_url is not None:
        last = next(reversed(made or failures), None)
        return see_other(await application_url(request, session, last, key))
    if made:
        return see_other(page_url(request, session.digest, words, f"/i/{quoted(made[-1].integration_id)}/result"))
    return _last_page(
        request,
        words,
        success=None,
        title=words("cancelled_title"),
        message=words("cancelled"),
        back=first_page_url(request, session.digest, words),
        back_label=words("again"),
        tells="error",
        payload={"message": words("cancelled"), "errorType": "window_closed"},
        openers=openers(request, session.environment),
        event={"type": "close"},
    )


async def application_url(
    request: web.Request, session: ConnectSession, outcome: Outcome | None, key: str | None
) -> str:
    """Return `return_url` with the signed result. `outcome` None: the end user has cancelled."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    if outcome is None:
        returned = ReturnResult(outcome="cancelled", provider_config_key=key)
    elif not outcome.succeeded:
        returned = ReturnResult(outcome="failed", provider_config_key=outcome.integration_id, error=outcome.code)
    else:
        returned = ReturnResult(
            outcome="pending" if outcome.is_pending else "connected",
            provider_config_key=outcome.integration_id,
            connection_id=outcome.connection_id,
        )
    signing_key = (await signing_keys(generation.config, runtime.store, session.environment))[0]
    return signed_return_url(session, returned, public_url=generation.public_url, signing_key=signing_key)


async def result_page(
    request: web.Request, session_digest: str, session: ConnectSession | None, key: str, words: PageWords
) -> web.Response | None:
    """Return the page with the result of connecting `key` under this session; None if there is none yet."""
    outcomes = await _outcomes(request, session_digest, key)
    made = next((one for one in reversed(outcomes) if one.succeeded), None)
    if made is not None:
        return await connected_page(request, words, made, session)
    if not outcomes:
        return None
    return _failure(request, words, outcomes[-1], session)


async def connected_page(
    request: web.Request, words: PageWords, made: Outcome, session: ConnectSession | None, *, already: bool = False
) -> web.Response:
    """Return the page that says that an account is connected. `made`: its outcome. `session` None: the session has
    ended, or this browser does not hold it. `already`: the end user opened the form of an integration that is already
    connected."""
    generation = generation_of(request)
    if (
        made.is_pending
        and session is not None
        and session.return_url is not None
        and not is_embedded(request)
        and Browser(request, session).may_return_outcome(made)
    ):
        url = await application_url(request, session, made, made.integration_id)
        return connect_page(request, "connect/onward.html", words, url=url)
    integration = generation.integrations.find(made.environment, made.integration_id)
    provider = generation.catalog.get(integration.provider) if integration else None
    name = (integration.display_name if integration else None) or (
        provider.display_name if provider else made.integration_id
    )
    facts = await _facts(request, made, words)
    many = session is not None and len(offered(generation, session)) > 1
    open_for_more = session is not None and not session.used_up and session.connection_id is None
    state = "already" if already else "one_more" if made.is_pending else "done"
    app = generation.config.branding.name or words.plain("the_app")
    returns = session is not None and session.return_url is not None
    message = (
        words("done_embedded") if state == "done" and is_embedded(request)
        else words("done_return", app=app) if state == "done" and returns
        else words(state, app=app, name=name)
    )  # fmt: skip
    base = first_page_url(request, session.digest, words) if session is not None else None
    another = None
    if already and open_for_more and session is not None:
        another = page_url(request, session.digest, words, f"/i/{quoted(made.integration_id)}", again="1")
    return _last_page(
        request,
        words,
        success=True,
        title=words(f"{state}_title", name=name),
        message=message,
        facts=facts,
        back=base if many and open_for_more else None,
        back_label=words("done_more"),
        another=another,
        waits=state == "one_more",
        done=application_link(request, session, words, made.integration_id),
        tells="success" if not already else None,
        openers=openers(request, made.environment),
        event=None
        if already
        else {
            "type": "connect",
            "payload": {
                "providerConfigKey": made.integration_id,
                "connectionId": made.connection_id,
                "isPending": made.is_pending,
            },
        },
    )


def application_link(request: web.Request, session: ConnectSession | None, words: PageWords, key: str) -> str | None:
    """Return the URL that leads back to the application; None if the session has no `return_url`, or in a frame."""
    if session is None or session.return_url is None or is_embedded(request):
        return None
    return page_url(request, session.digest, words, "/return", i=key)


def _failure(request: web.Request, words: PageWords, outcome: Outcome, session: ConnectSession | None) -> web.Response:
    runtime, generation = request.app[RUNTIME], generation_of(request)
    name = back = None
    integration = generation.integrations.find(outcome.environment, outcome.integration_id)
    if session is not None and integration is not None and generation.catalog.get(integration.provider) is not None:
        one = offer(runtime, generation, integration, first_page_url(request, session.digest, words), words)
        name, back = one.name, one.url
    fault = GatewayError(outcome.code or "generic_error_support", outcome.error_desc or "")  # type: ignore[arg-type]
    return failed(
        request,
        fault,
        words=words,
        name=name,
        integration_id=outcome.integration_id,
        back=back,
        done=application_link(request, session, words, outcome.integration_id),
        framed=is_embedded(request),
    )


async def _facts(request: web.Request, made: Outcome, words: PageWords) -> list[tuple[str, str]]:
    """Return the account and the site, with labels that the account's owner recognizes."""
    if made.connection_id is None:
        return []
    ref = ConnectionRef(made.environment, made.integration_id, made.connection_id)
    row = None if made.is_pending else await request.app[RUNTIME].store.connections.get(ref)
    account = row.account if row else Account()
    config = row.config if row else {}
    site = config.get("baseUrl") or config.get("subdomain")
    found = ((words("account"), account.label), (words("site"), site))
    return [(label, text) for label, text in found if text]


async def _outcomes(request: web.Request, session_digest: str, key: str | None) -> list[Outcome]:
    found = await request.app[RUNTIME].store.flow_results.of_session(session_digest)
    return [one for one in found if one.error_type != SESSION_ENDED and key in {None, one.integration_id}]


async def made_by(request: web.Request, session: ConnectSession) -> dict[str, Outcome]:
    """Return the last successful outcome of each integration that the session has connected."""
    return {one.integration_id: one for one in await _outcomes(request, session.digest, None) if one.succeeded}


def _last_page(request: web.Request, words: PageWords, **context: Any) -> web.Response:
    plain: dict[str, Any] = {
        "detail": None,
        "facts": [],
        "reference": None,
        "done": None,
        "done_label": words("done_button"),
        "another": None,
        "waits": False,
        "payload": {},
    }
    return connect_page(request, "connect/result.html", words, framed=is_embedded(request), **{**plain, **context})
