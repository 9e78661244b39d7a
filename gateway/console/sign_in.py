"""Signs operators in by a link of `gateway console`, by their identity provider, or by the headers of a trusted proxy.

A link or an ID token starts a session with a random token. The headers of a trusted proxy sign a person in for one
request.

The browser has the token in a cookie that no script can read and that no page of another site can send. The database
has only the token's digest. A form contains a value derived from the token (a CSRF token), which a page of another site
cannot know.
"""

import hmac
import secrets
from datetime import timedelta
from ipaddress import ip_address
from typing import Any, Final

import structlog
from aiohttp import hdrs, web

from gateway import clock
from gateway.api.health import has_shared_store
from gateway.config.model import ConsoleConfig
from gateway.console.console_page import SignedIn, View, check_enabled, console_path, console_url, render
from gateway.console.oidc import (
    SIGN_IN_S,
    PendingSignIn,
    SignInRefused,
    authorization_url,
    fetch_claims,
    person_name,
    printable_name,
    role_of,
)
from gateway.errors import Forbidden, GatewayError, NotFound, Unauthorized
from gateway.pages.connect_cookie import check_own_form, cookies_of
from gateway.pages.form_fields import read_form
from gateway.pages.frame import see_other
from gateway.records.console import ConsoleRole, ConsoleSession
from gateway.runtime import RUNTIME, generation_of
from gateway.secret import Secret, digest

MAX_LINK_CHARS: Final = 128
FORM_FIELD: Final = "form"
FORM_BYTES: Final = 64 << 10

RELOAD_S: Final = 15
_DATABASE_ADVICE: Final = "Start PostgreSQL, or restore the network to it. The gateway then continues automatically."

log = structlog.get_logger(__name__)


async def require_sign_in(request: web.Request) -> SignedIn:
    """Return the signed-in person.

    Raises NotFound if the console is off, and Unauthorized if nobody is signed in. Raises Forbidden if a trusted proxy
    names a person who is in none of the allowed groups.
    """
    check_enabled(request)
    token = _session_token(request)
    if (session := _session_by_headers(request)) is not None:
        return await _sign_in_by_headers(request, session, token)
    session = None
    if token:
        session = await request.app[RUNTIME].store.console_sessions.get(digest(token.reveal()), now=clock.now())
    if session is None:
        raise Unauthorized("missing_auth_header", "You are not signed in. Open the link that `gateway console` prints.")
    return SignedIn(session, _csrf_token(token))


def _session_by_headers(request: web.Request) -> ConsoleSession | None:
    """Return the person that a trusted proxy names; None if the request names no person. Raises Forbidden."""
    config = generation_of(request).config.console
    identity_headers = config.identity_headers
    if not identity_headers.trusted_proxies or not _is_trusted(request.remote, config):
        return None
    names = request.headers.getall(identity_headers.user, [])
    if not names:
        return None
    groups = request.headers.getall(identity_headers.groups, [])
    if len(names) > 1 or len(groups) > 1:
        raise Forbidden(
            "forbidden",
            f"The request has {identity_headers.user} or {identity_headers.groups} twice. Configure the proxy to "
            "remove these headers from browsers' requests.",
        )
    role = role_of(config, [group.strip(" \t") for group in ",".join(groups).split(",")])
    name = printable_name(names[0])
    if role is None or not name:
        raise Forbidden("forbidden", "You are in none of the groups in console.operators and console.viewers.")
    return ConsoleSession(name, role, clock.now() + timedelta(hours=config.session_hours))


def _is_trusted(remote: str | None, config: ConsoleConfig) -> bool:
    """Return whether the proxy is trusted. Only the IP address of the network connection decides, never a header."""
    try:
        address = ip_address((remote or "").partition("%")[0])
    except ValueError:
        return False  # a Unix socket has no IP address
    plain_address = getattr(address, "ipv4_mapped", None) or address
    return any(
        plain_address.version == proxy.network.version and plain_address in proxy.network
        for proxy in config.identity_headers.trusted_proxies
    )


async def _sign_in_by_headers(request: web.Request, session: ConsoleSession, token: Secret) -> SignedIn:
    """Return the person that a trusted proxy names.

    The cookie is not a session here: it only ties forms to this browser. The audit trail records one sign-in per person
    in each period of `session_hours`.
    """
    method = "identity_headers"
    if await request.app[RUNTIME].store.console_sessions.record_identity_sign_in(
        session, method=method, now=clock.now()
    ):
        log.info("console_signed_in", name=session.name, role=session.role, address=request.remote, by=method)
    if token:
        return SignedIn(session, _csrf_token(token))
    new_token = Secret(secrets.token_urlsafe(32))
    return SignedIn(session, _csrf_token(new_token), new_token)


async def posted_by_operator(request: web.Request) -> tuple[SignedIn, dict[str, str]]:
    """Return the person who sent the form, and the form's fields.

    Raises Forbidden if the person is a viewer, or if the form does not come from the person's own page.
    """
    signed_in = await require_sign_in(request)
    check_own_form(request, console_url(request))
    if not signed_in.is_operator:
        raise Forbidden("forbidden", f"{signed_in.name} is signed in as a viewer. Viewers cannot change anything.")
    fields = await read_form(request, FORM_BYTES)
    if not hmac.compare_digest(signed_in.csrf_token.encode(), fields.pop(FORM_FIELD, "").encode()):
        raise Forbidden("forbidden", "This form does not belong to your session. Load its page again.")
    return signed_in, fields


async def page_or_session(request: web.Request) -> web.StreamResponse:
    """Handle ``/console/sign-in``: for GET, show a page with one button; for POST, start the session.

    A GET alone signs nobody in, so a mail scanner that opens the link does not use the link up.
    """
    check_enabled(request)
    if request.method == hdrs.METH_POST:
        check_own_form(request, console_url(request))
        return await _sign_in_by_link(
            request, Secret((await read_form(request, FORM_BYTES)).get("link", "")[:MAX_LINK_CHARS])
        )
    link = request.query.get("link", "")[:MAX_LINK_CHARS]
    return render(request, None, _sign_in_view(request, link))


async def _sign_in_by_link(request: web.Request, link: Secret) -> web.StreamResponse:
    runtime, config = request.app[RUNTIME], generation_of(request).config.console
    token, now = Secret(secrets.token_urlsafe(32)), clock.now()
    ends_at = now + timedelta(hours=config.session_hours)
    session = await runtime.store.console_sessions.sign_in(
        digest(link.reveal()), digest(token.reveal()), ends_at=ends_at, now=now
    )
    if session is None:
        fault = "This link was already used or has expired. Run `gateway console` for a new link."
        runtime.refusal_log.warning("console_sign_in_refused", request.remote, address=request.remote)
        return render(request, None, _sign_in_view(request, fault=fault), status=403)
    log.info("console_signed_in", name=session.name, role=session.role, address=request.remote)
    response = see_other(console_path(request))
    set_session_cookie(request, response, token, ends_at - now)
    return response


async def redirect_to_identity_provider(request: web.Request) -> web.StreamResponse:
    """Handle ``GET /console/sign-in/oidc``: redirect to the identity provider, and set the cookie that the callback
    must match."""
    check_enabled(request)
    generation = generation_of(request)
    config = generation.config.console.oidc
    if config.issuer is None:
        raise NotFound("not_found", "gateway.yaml has no identity provider for the console (console.oidc).")
    pending = PendingSignIn.new()
    try:
        url = await authorization_url(generation.egress, config, pending, console_path(request, "callback"))
    except GatewayError as fault:
        return refusal_page(request, fault)
    response = see_other(url)
    _set_flow_cookie(request, response, pending.cookie, SIGN_IN_S)
    return response


async def finish_oidc_sign_in(request: web.Request) -> web.StreamResponse:
    """Handle ``GET /console/callback``: sign the person in.

    The callback works only once, and only in the browser that started the sign-in.
    """
    check_enabled(request)
    generation = generation_of(request)
    config = generation.config.console
    if config.oidc.issuer is None:
        raise NotFound("not_found", "gateway.yaml has no identity provider for the console (console.oidc).")
    pending = PendingSignIn(Secret(cookies_of(request).get(_flow_cookie_name(request), "")[:MAX_LINK_CHARS]))
    try:
        claims = await fetch_claims(
            generation.egress, config.oidc, pending, request.query, console_path(request, "callback")
        )
        role = role_of(config, claims.get(config.oidc.groups_claim))
        if role is None:
            request.app[RUNTIME].refusal_log.warning(
                "console_sign_in_refused",
                request.remote,
                reason="no_group",
                name=person_name(claims),
                address=request.remote,
            )
            raise Forbidden("forbidden", "You are in none of the groups in console.operators and console.viewers.")
        response = await _start_session(request, person_name(claims), role)
    except GatewayError as fault:
        if isinstance(fault, SignInRefused) and fault.reason:
            request.app[RUNTIME].refusal_log.warning(
                "console_sign_in_refused", request.remote, reason=fault.reason, address=request.remote, **fault.details
            )
        response = refusal_page(request, fault)
    _set_flow_cookie(request, response, Secret(""), 0)
    return response


async def _start_session(request: web.Request, name: str, role: ConsoleRole) -> web.StreamResponse:
    token, now = Secret(secrets.token_urlsafe(32)), clock.now()
    session = ConsoleSession(name, role, now + timedelta(hours=generation_of(request).config.console.session_hours))
    await request.app[RUNTIME].store.console_sessions.begin(digest(token.reveal()), session, method="oidc", now=now)
    log.info("console_signed_in", name=name, role=role, address=request.remote, by="oidc")
    response = see_other(console_path(request))
    set_session_cookie(request, response, token, session.expires_at - now)
    return response


def _flow_cookie_name(request: web.Request) -> str:
    return f"{cookie_name(request)}-begun"


def _set_flow_cookie(request: web.Request, response: web.StreamResponse, cookie: Secret, life_s: int) -> None:
    name = _flow_cookie_name(request)
    secure = name.startswith("__Host-")
    response.set_cookie(name, cookie.reveal(), max_age=life_s, path="/", secure=secure, httponly=True, samesite="Lax")


async def sign_out(request: web.Request) -> web.StreamResponse:
    """Handle the sign-out form: end the session in the browser and in the database."""
    check_enabled(request)
    check_own_form(request, console_url(request))
    if token := _session_token(request):
        await request.app[RUNTIME].store.console_sessions.end(digest(token.reveal()), now=clock.now())
    response = see_other(console_path(request, "sign-in"))
    set_session_cookie(request, response, Secret(""), timedelta(0))
    return response


def refusal_page(request: web.Request, fault: GatewayError, *, reload: bool = False) -> web.Response:
    """Return the page that shows `fault`; for Unauthorized, return the sign-in page.

    `reload`: whether the browser loads the page again every `RELOAD_S` seconds after a fault with status 503.
    """
    if isinstance(fault, Unauthorized):
        response = render(request, None, _sign_in_view(request), status=401)
        response.headers["HX-Refresh"] = "true"  # an open page that updates itself then shows the sign-in page
        return response
    titles = {
        400: "Invalid request",
        403: "Not allowed",
        404: "There is no such page",
        503: "The console is unavailable",
    }
    data: dict[str, Any] = {
        "title": titles.get(fault.status, "The request failed"),
        "message": fault.message,
        "code": fault.code,
    }
    data["again_s"] = RELOAD_S if reload and fault.status == 503 else 0
    data["do"] = (
        _DATABASE_ADVICE if fault.code == "store_unavailable" and has_shared_store(request.app[RUNTIME]) else ""
    )
    return render(request, None, View("refused.html", data), status=fault.status)


def _sign_in_view(request: web.Request, link: str = "", fault: str | None = None) -> View:
    has_oidc = generation_of(request).config.console.oidc.issuer is not None
    data = {"title": "Sign in", "link": link, "fault": fault}
    return View("sign_in.html", {**data, "oidc": console_path(request, "sign-in", "oidc") if has_oidc else None})


def set_session_cookie(request: web.Request, response: web.StreamResponse, token: Secret, life: timedelta) -> None:
    """Set the session cookie for `life`; an empty token removes the cookie."""
    name = cookie_name(request)
    response.set_cookie(
        name,
        token.reveal(),
        max_age=int(life.total_seconds()),
        path="/",
        secure=name.startswith("__Host-"),
        httponly=True,
        samesite="Lax",
    )


def cookie_name(request: web.Request) -> str:
    secure = console_url(request).startswith("https://")
    return f"{'__Host-' if secure else ''}gw-console"


def _session_token(request: web.Request) -> Secret:
    return Secret(cookies_of(request).get(cookie_name(request), ""))


def _csrf_token(token: Secret) -> str:
    return hmac.digest(token.reveal().encode(), b"console form", "sha256").hex()
