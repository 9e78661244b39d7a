"""Signing in: a link that `gateway console` prints becomes a session, whose random token only one browser holds.

The token lies in a cookie that no script reads and no other site's page sends; the database has its digest. A form holds a
value that only the token yields, so that another site's page, which never sees the token, cannot send one.
"""

import hmac
import secrets
from datetime import timedelta
from typing import Final

import structlog
from aiohttp import hdrs, web

from gateway import clock
from gateway.console.console_page import SignedIn, View, console_path, render
from gateway.errors import Forbidden, GatewayError, NotFound, Unauthorized
from gateway.pages.connect_cookie import check_own_form
from gateway.pages.form_fields import posted
from gateway.pages.frame import see_other
from gateway.runtime import RUNTIME, generation_of
from gateway.secret import Secret, digest

LONGEST_LINK: Final = 128
FORM_FIELD: Final = "form"
FORM_BYTES: Final = 64 << 10

log = structlog.get_logger(__name__)


def check_enabled(request: web.Request) -> None:
    """Raises NotFound where there is no console."""
    if not generation_of(request).config.console.enabled:
        raise NotFound("not_found", "There is nothing at this address. GET /docs shows what there is.")


async def signed_in(request: web.Request) -> SignedIn:
    """Who asks. Raises NotFound where there is no console, Unauthorized where nobody has signed in."""
    check_enabled(request)
    token = _token(request)
    session = None
    if token:
        session = await request.app[RUNTIME].store.console_sessions.get(digest(token.reveal()), now=clock.now())
    if session is None:
        raise Unauthorized(
            "missing_auth_header", "Nobody is signed in here. `gateway console` prints a link that signs in."
        )
    return SignedIn(session, _form_value(token))


async def acting(request: web.Request) -> tuple[SignedIn, dict[str, str]]:
    """Who sends this form, and its fields. Raises Forbidden for a viewer, and for a form that is none of ours."""
    who = await signed_in(request)
    check_own_form(request)
    if not who.may_act:
        raise Forbidden("forbidden", f"{who.name} is signed in as a viewer, who changes nothing.")
    fields = await posted(request, FORM_BYTES)
    if not hmac.compare_digest(who.form.encode(), fields.pop(FORM_FIELD, "").encode()):
        raise Forbidden("forbidden", "This form is not of your session at the console. Load its page again.")
    return who, fields


async def page_or_session(request: web.Request) -> web.StreamResponse:
    """GET: a page with one button, so that a scanner of links in mails signs nobody in. POST: the session."""
    check_enabled(request)
    if request.method == hdrs.METH_POST:
        check_own_form(request)
        return await _begin(request, Secret((await posted(request, FORM_BYTES)).get("link", "")[:LONGEST_LINK]))
    link = request.query.get("link", "")[:LONGEST_LINK]
    return render(request, None, _sign_in_view(link))


async def _begin(request: web.Request, link: Secret) -> web.StreamResponse:
    runtime, config = request.app[RUNTIME], generation_of(request).config.console
    token, now = Secret(secrets.token_urlsafe(32)), clock.now()
    ends_at = now + timedelta(hours=config.session_hours)
    session = await runtime.store.console_sessions.sign_in(
        digest(link.reveal()), digest(token.reveal()), ends_at=ends_at, now=now
    )
    if session is None:
        fault = "This link was used before or has expired. `gateway console` prints a new one."
        log.warning("console_sign_in_refused", address=request.remote)
        return render(request, None, _sign_in_view(fault=fault), status=403)
    log.info("console_signed_in", name=session.name, role=session.role, address=request.remote)
    answer = see_other(console_path(request))
    seat(request, answer, token, ends_at - now)
    return answer


async def sign_out(request: web.Request) -> web.StreamResponse:
    """POST: the session is over here and in the database."""
    check_enabled(request)
    check_own_form(request)
    if token := _token(request):
        await request.app[RUNTIME].store.console_sessions.end(digest(token.reveal()))
    answer = see_other(console_path(request, "sign-in"))
    seat(request, answer, Secret(""), timedelta(0))
    return answer


def refused(request: web.Request, fault: GatewayError) -> web.Response:
    """A page for somebody who is not signed in, may not do this, or asks for what is not there."""
    if isinstance(fault, Unauthorized):
        return render(request, None, _sign_in_view(), status=401)
    titles = {404: "There is no such page", 503: "The console cannot answer now"}
    data = {"title": titles.get(fault.status, "Nothing was done"), "message": fault.message, "code": fault.code}
    return render(request, None, View("refused.html", data), status=fault.status)


def _sign_in_view(link: str = "", fault: str | None = None) -> View:
    return View("sign_in.html", {"title": "Sign in", "link": link, "fault": fault})


def seat(request: web.Request, answer: web.StreamResponse, token: Secret, life: timedelta) -> None:
    """Let this browser hold the token for so long; an empty one is forgotten."""
    name = cookie_name(request)
    answer.set_cookie(
        name,
        token.reveal(),
        max_age=int(life.total_seconds()),
        path="/",
        secure=name.startswith("__Host-"),
        httponly=True,
        samesite="Lax",
    )


def cookie_name(request: web.Request) -> str:
    secure = generation_of(request).public_url.startswith("https://")
    return f"{'__Host-' if secure else ''}gw-console"


def _token(request: web.Request) -> Secret:
    return Secret(request.cookies.get(cookie_name(request), ""))


def _form_value(token: Secret) -> str:
    return hmac.digest(token.reveal().encode(), b"console form", "sha256").hex()
