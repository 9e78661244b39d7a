"""Renders the connect page: the list of integrations, a form, and the empty page for a frame."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from aiohttp import web

from gateway.connections.refused_scopes import scopes_to_request
from gateway.errors import ERROR_HEADER, GatewayError
from gateway.pages.confirmation import SessionBrowser
from gateway.pages.connect_cookie import first_page_url, is_embedded, page_url, session_name
from gateway.pages.connect_offer import Offer, access_texts, make_offer, matching_offers, offered_integrations
from gateway.pages.error_page import advice, advice_by_code, dead_link_page, support_reference
from gateway.pages.form_fields import FormField, fields_of, with_posted_values
from gateway.pages.frame import PageWords, connect_page, embedding_origins
from gateway.pages.result import connected_outcomes, connected_page
from gateway.records.connecting import ConnectSession, FlowOptions
from gateway.records.connection import Connection, ConnectionRef
from gateway.runtime import RUNTIME, generation_of
from gateway.store.pending_authorizations import session_used_up_error
from gateway.text import is_uuid
from gateway.timestamps import iso


async def first_page(request: web.Request, session: ConnectSession, words: PageWords) -> web.StreamResponse:
    """Return the list of integrations that can be connected, or the form if there is only one integration."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    first_url = first_page_url(request, session.digest, words)
    outcomes = await connected_outcomes(request, session)
    offers = [
        replace(
            make_offer(runtime, generation, integration, first_url, words),
            connected=integration.integration_id in outcomes,
        )
        for integration in offered_integrations(generation, session)
    ]
    if len(offers) == 1:
        return await form_page(request, session, offers[0], words)
    search = request.query.get("q", "")[:100]
    return connect_page(
        request,
        "connect/list.html",
        words,
        framed=is_embedded(request),
        offers=matching_offers(offers, search),
        many=len(offers) > 6,
        total=len(offers),
        search=search,
        begin=first_url,
        **_end_user_lines(session, words),
    )


async def form_page(
    request: web.Request,
    session: ConnectSession,
    offer: Offer,
    words: PageWords,
    *,
    posted: dict[str, str] | None = None,
    fault: GatewayError | None = None,
    url_options: FlowOptions | None = None,
    url_options_token: str | None = None,
) -> web.StreamResponse:
    """Return the form with which the end user connects `offer`, and which is also the confirmation.

    If the session has already connected the integration, return a page that says so. `posted`, `fault`: the values and
    the error of a rejected form, which are shown again; None for a new form. `url_options`: the options of the URL that
    the browser opened; None: there are none. `url_options_token`: the token under which these options are stored.
    """
    generation = generation_of(request)
    outcome = (await connected_outcomes(request, session)).get(offer.key)
    if fault is None and outcome is not None and (session.is_used_up or "again" not in request.query):
        return await connected_page(request, words, outcome, session, already=True)
    if session.is_used_up:
        return dead_link_page(request, session_used_up_error(session.max_connections), words)
    browser = SessionBrowser(request, session)
    row = await _connection_to_reconnect(request, session, offer.key)
    fields = [] if url_options is not None else _shown_fields(session, offer, words, row, posted, fault)
    reconnect_scopes = scopes_to_request(request.app[RUNTIME].store, row, offer.provider, offer.integration)
    app = generation.config.branding.name or words.plain("the_app")
    response = connect_page(
        request,
        "connect/form.html",
        words,
        fault.status if fault and fault.status < 500 else 200 if fault is None else 502,
        framed=is_embedded(request),
        offer=offer,
        fields=fields,
        access=access_texts(
            session, offer, app, words, url_options.user_scope if url_options else None, reconnect_scopes
        ),
        confirmation=None if is_embedded(request) else browser.confirmation(offer.key),
        url_options_token=url_options_token if url_options else None,
        key_line=await _key_line(request, session, words),
        cancel=page_url(request, session.digest, words, "/return", i=offer.key),
        reconnecting=session.reconnects,
        account=row.account.label if row else None,
        back=first_page_url(request, session.digest, words)
        if len(offered_integrations(generation, session)) > 1
        else None,
        guide=session.overrides.get(offer.key, {}).get("docs_connect") or offer.provider.docs_connect,
        advice_by_code=advice_by_code(words, offer.name) if offer.oauth and is_embedded(request) else None,
        pinned=_pinned_line(request, session, offer, words),
        **_end_user_lines(session, words, row),
        **_fault_lines(request, words, offer, fields, fault),
    )
    if not is_embedded(request):
        browser.set_cookie(response)
    if fault:
        response.headers[ERROR_HEADER] = fault.code
    return response


def _shown_fields(
    session: ConnectSession,
    offer: Offer,
    words: PageWords,
    row: Connection | None,
    posted: dict[str, str] | None,
    fault: GatewayError | None,
) -> Sequence[FormField]:
    """Return the fields of the form, with the values of a rejected form. `row`: the connection to reconnect, or None."""
    fields = fields_of(offer.provider, session, offer.key, words, row.config if row else {})
    return fields if posted is None else with_posted_values(fields, posted, fault.errors if fault else ())


def _fault_lines(
    request: web.Request, words: PageWords, offer: Offer, fields: Sequence[FormField], fault: GatewayError | None
) -> dict[str, Any]:
    """Return the template's values about the error of a rejected form. `fault`: None for a new form."""
    if fault is None:
        return {"fault": None, "advice": None, "support_reference": None, "all_at_inputs": False, "event": None}
    faulty_inputs = {(field.group, field.key) for field in fields if field.fault}
    return {
        "fault": fault.message,
        "advice": advice(fault, words, offer.name),
        "support_reference": support_reference(request, fault, words),
        "all_at_inputs": bool(fault.errors) and len(faulty_inputs) == len({issue.path for issue in fault.errors}),
        "event": {"type": "error", "payload": {"errorType": fault.code, "errorMessage": fault.message}},
    }


def frame_page(request: web.Request, words: PageWords) -> web.Response:
    """Return the page that another site loads in a frame. It is empty until it receives a session's token."""
    generation = generation_of(request)
    branding = generation.config.branding
    return connect_page(
        request,
        "connect/embedded.html",
        words,
        framed=True,
        base=f"{generation.public_url}/connect/s/embedded",
        result=f"{generation.public_url}/connect/session/result",
        embedding_origins=" ".join(embedding_origins(generation)),
        settings={
            "theme": {"light": {"primary": branding.color}, "dark": {"primary": branding.color_dark}},
            "defaultTheme": "system",
            "showWatermark": False,
        },
        chosen=words.lang if words.is_chosen else "",
    )


async def _key_line(request: web.Request, session: ConnectSession, words: PageWords) -> str | None:
    """Return the line with the name of the key that created the session, or None.

    It is shown for a key that has limits or was minted by another key, because such a key can belong to an agent. Any
    other key belongs to the application.
    """
    if not session.key_id:
        return None
    key = await request.app[RUNTIME].store.keys.find(session.environment, int(session.key_id))
    return words("asked_by", who=key.name) if key is not None and (key.limits or key.parent_id is not None) else None


def _readable_id(identifier: str) -> str | None:
    """Return the ID; None for a UUID, which nobody can recognize."""
    return None if is_uuid(identifier) else identifier


def shortened_email(email: str) -> str:
    """Return a shortened e-mail address, such as ``a…@example.com``: enough for its owner to recognize it."""
    name, at_sign, host = email.rpartition("@")
    return f"{name[:1]}…{at_sign}{host}"


async def _connection_to_reconnect(request: web.Request, session: ConnectSession, key: str) -> Connection | None:
    if not session.reconnects or session.connection_id is None:
        return None
    ref = ConnectionRef(session.environment, key, session.connection_id)
    return await request.app[RUNTIME].store.connections.get(ref)


def _pinned_line(request: web.Request, session: ConnectSession, offer: Offer, words: PageWords) -> str | None:
    """Return the line that says which connection ID the connected account gets; None if the session sets no ID.

    The line does not show an ID that is a UUID.
    """
    if session.connection_id is None:
        return None
    app = generation_of(request).config.branding.name or words.plain("the_app")
    if is_uuid(session.connection_id):
        return words("for_one_connection", app=app, name=offer.name)
    return words("for_connection", app=app, connection=session.connection_id)


def _end_user_lines(session: ConnectSession, words: PageWords, row: Connection | None = None) -> dict[str, Any]:
    """Return the page's lines about the end user and the session's expiry.

    `row`: the connection that the end user connects again; None: a new connection. The e-mail address in `row` is
    shortened, because the key that created the link may not be allowed to read connections.
    """
    user = session.end_user
    end_user = (user.display_name or user.email or _readable_id(user.id)) if user else None
    if end_user is None:
        end_user = session.tags.get("end_user_display_name") or session.tags.get("end_user_email")
    if user is None and row is not None and (user := row.end_user) is not None:
        end_user = (
            end_user or user.display_name or (shortened_email(user.email) if user.email else _readable_id(user.id))
        )
    if end_user and user and user.organization_display_name:
        end_user = f"{end_user} · {user.organization_display_name}"
    return {
        "end_user_line": words("for_who", who=end_user) if end_user else None,
        "expires_text": session.expires_at.strftime("%Y-%m-%d %H:%M UTC"),
        "expires_at": iso(session.expires_at),
        "session_name": session_name(session.digest),
    }
