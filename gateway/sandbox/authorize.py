"""The pages a person walks through: log in, consent or refuse, and back to the application with a code."""

import hmac

from aiohttp import web

from gateway.sandbox import authorization_request, pages
from gateway.sandbox.accounts import ACCOUNTS, Account, authenticate
from gateway.sandbox.authorization_request import AuthorizationRequest, NotToBeAnswered, RefusedRequest
from gateway.sandbox.grants import LOGIN_TTL_S, digest
from gateway.sandbox.state import SANDBOX
from gateway.sandbox.tracker import SITES
from gateway.sandbox.trouble import Handler

COOKIE = "sandbox_login"


async def authorize(request: web.Request) -> web.Response:
    """GET /oauth/authorize: the login page, or for who is logged in the consent page."""
    query = request.rel_url.raw_query_string
    wanted = _read(request, query)
    account = _who(request)
    if account is None:
        return pages.login(query, form_target=wanted.redirect.origin)
    return pages.consent(
        query,
        form_target=wanted.redirect.origin,
        csrf=_csrf(request),
        application=wanted.client.name,
        account=account,
        sites=[SITES[cloud_id].name for cloud_id in account.sites],
        scopes=wanted.scopes,
    )


async def log_in(request: web.Request) -> web.Response:
    """POST /oauth/login: sets the cookie and goes on to the consent page."""
    form = await request.post()
    query = str(form.get("query", ""))
    wanted = _read(request, query)
    account = authenticate(str(form.get("email", "")), str(form.get("password", "")))
    if account is None:
        return pages.login(query, form_target=wanted.redirect.origin, failed=True)
    response = _onward(query)
    token = request.app[SANDBOX].memory.grants.log_in(account.account_id)
    response.set_cookie(COOKIE, token, max_age=LOGIN_TTL_S, path="/oauth", httponly=True, samesite="Lax")
    return response


async def log_out(request: web.Request) -> web.Response:
    """POST /oauth/logout: another account, please."""
    query = str((await request.post()).get("query", ""))
    _read(request, query)
    request.app[SANDBOX].memory.grants.log_out(request.cookies.get(COOKIE, ""))
    response = _onward(query)
    response.del_cookie(COOKIE, path="/oauth")
    return response


async def decide(request: web.Request) -> web.Response:
    """POST /oauth/consent: back to the application, with a code or with access_denied (RFC 6749 §4.1.2)."""
    form = await request.post()
    wanted = _read(request, str(form.get("query", "")))
    account = _who(request)
    if account is None or not hmac.compare_digest(str(form.get("csrf", "")).encode(), _csrf(request).encode()):
        return pages.refusal("This page was open for too long, or in another browser. Go back and start again.")
    if form.get("decision") != "allow":
        back = wanted.redirect.to(error="access_denied", error_description="The user did not allow it.")
    else:
        code = request.app[SANDBOX].memory.grants.issue_code(
            client_id=wanted.client.client_id,
            redirect_uri=wanted.redirect.uri,
            challenge=wanted.challenge,
            account_id=account.account_id,
            scopes=wanted.scopes,
        )
        back = wanted.redirect.to(code=code)
    return _see_other(back)


@web.middleware
async def refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A request that cannot be granted is told to the person or, where that is safe, to the application."""
    try:
        return await handler(request)
    except NotToBeAnswered as refused:
        return pages.refusal(str(refused))
    except RefusedRequest as refused:
        return _see_other(refused.redirect.to(error=refused.error, error_description=str(refused)))


def _read(request: web.Request, query: str) -> AuthorizationRequest:
    sandbox = request.app[SANDBOX]
    return authorization_request.read(query, sandbox.clients, sandbox.issuer)


def _who(request: web.Request) -> Account | None:
    account_id = request.app[SANDBOX].memory.grants.logged_in(request.cookies.get(COOKIE, ""))
    return ACCOUNTS.get(account_id) if account_id else None


def _csrf(request: web.Request) -> str:
    """Only who holds the login cookie can derive it, and the page does not give the cookie away."""
    return digest("consent " + request.cookies.get(COOKIE, ""))


def _onward(query: str) -> web.Response:
    return _see_other(f"/oauth/authorize?{query}")


def _see_other(address: str) -> web.Response:
    return web.Response(status=303, headers={"Location": address, "Cache-Control": "no-store"})
