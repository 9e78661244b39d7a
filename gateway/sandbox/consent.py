"""The authorization request and its pages: login, consent, and the redirect back to the application."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from aiohttp import web

from gateway.sandbox import pages
from gateway.sandbox.accounts import ACCOUNTS, DemoAccount, authenticate, unknown_scopes
from gateway.sandbox.faults import Handler
from gateway.sandbox.issued_grants import LOGIN_TTL_S, digest
from gateway.sandbox.state import SANDBOX, SandboxClient
from gateway.sandbox.tracker import SITES

# ── Parses an authorization request (RFC 6749 §4.1.1, with PKCE, RFC 7636 §4.3) and its redirect URI. No I/O.

_PARAMETERS = (
    "client_id",
    "redirect_uri",
    "response_type",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
)
_DEFAULT_SCOPE = "read:sandbox-user"


class NoSafeRedirect(Exception):
    """The client or the redirect_uri is unknown, so the user sees the error on a page (RFC 6749 §4.1.2.1).

    A redirect could lead to a site that is not the application.
    """


class RefusedRequest(Exception):
    """The request is refused, but its client and redirect_uri are valid. So the error is sent to `redirect`."""

    def __init__(self, redirect: "Redirect", error: str, description: str) -> None:
        super().__init__(description)
        self.redirect = redirect
        self.error = error


@dataclass(frozen=True, slots=True)
class Redirect:
    """The redirect back to the application."""

    uri: str
    state: str | None
    issuer: str

    def url(self, **response: str) -> str:
        """Return the redirect URI with the response in its query.

        The query also contains `iss`, which protects against mix-up attacks (RFC 9207 §2).
        """
        state = {} if self.state is None else {"state": self.state}
        separator = "&" if urlsplit(self.uri).query else "?"
        return f"{self.uri}{separator}{urlencode({**response, **state, 'iss': self.issuer})}"

    @property
    def origin(self) -> str:
        parts = urlsplit(self.uri)
        return f"{parts.scheme}://{parts.netloc}"


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A valid authorization request. The user can now be asked for consent."""

    client: SandboxClient
    redirect: Redirect
    scopes: list[str]
    challenge: str


def parse_request(query: str, clients: Mapping[str, SandboxClient], issuer: str) -> AuthorizationRequest:
    """Return the authorization request in a query string. Raises NoSafeRedirect, RefusedRequest."""
    pairs = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name in _PARAMETERS]
    parameters, redirect = dict(pairs), None
    repeated = {name for name, _ in pairs if sum(other_name == name for other_name, _ in pairs) > 1}
    client = clients.get(parameters.get("client_id", ""))
    if client is None or "client_id" in repeated:
        raise NoSafeRedirect(f"The application {parameters.get('client_id')!r} is not registered here.")
    if parameters.get("redirect_uri") not in client.redirect_uris or "redirect_uri" in repeated:
        raise NoSafeRedirect(
            f"{parameters.get('redirect_uri')!r} is not a redirect URI of {client.name}; "
            f"registered exactly: {', '.join(client.redirect_uris)}."
        )
    redirect = Redirect(parameters["redirect_uri"], None if "state" in repeated else parameters.get("state"), issuer)
    if repeated:
        raise RefusedRequest(redirect, "invalid_request", f"Sent more than once: {', '.join(sorted(repeated))}.")
    if parameters.get("response_type") != "code":
        raise RefusedRequest(redirect, "unsupported_response_type", "response_type must be code.")
    if not parameters.get("code_challenge") or parameters.get("code_challenge_method") != "S256":
        raise RefusedRequest(
            redirect, "invalid_request", "PKCE is required here: code_challenge, and S256 as its method."
        )
    scopes = list(dict.fromkeys(parameters.get("scope", "").split())) or [_DEFAULT_SCOPE]
    if unknown_scopes(scopes):
        raise RefusedRequest(redirect, "invalid_scope", f"Unknown scopes: {' '.join(unknown_scopes(scopes))}")
    return AuthorizationRequest(client, redirect, scopes, parameters["code_challenge"])


COOKIE = "sandbox_login"


async def authorize(request: web.Request) -> web.Response:
    """Handle ``GET /oauth/authorize``: show the login page, or the consent page if the user is logged in."""
    query = request.rel_url.raw_query_string
    authorization = _authorization_request(request, query)
    account = _logged_in_account(request)
    if account is None:
        return pages.login(query, form_target=authorization.redirect.origin)
    return pages.consent(
        query,
        form_target=authorization.redirect.origin,
        csrf=_csrf(request),
        application=authorization.client.name,
        account=account,
        sites=[SITES[cloud_id].name for cloud_id in account.sites],
        scopes=authorization.scopes,
    )


async def log_in(request: web.Request) -> web.Response:
    """Handle ``POST /oauth/login``: set the login cookie, and redirect to the consent page."""
    form = await request.post()
    query = str(form.get("query", ""))
    authorization = _authorization_request(request, query)
    account = authenticate(str(form.get("email", "")), str(form.get("password", "")))
    if account is None:
        return pages.login(query, form_target=authorization.redirect.origin, failed=True)
    response = _continue_authorization(query)
    token = request.app[SANDBOX].memory.grants.log_in(account.account_id)
    response.set_cookie(COOKIE, token, max_age=LOGIN_TTL_S, path="/oauth", httponly=True, samesite="Lax")
    return response


async def log_out(request: web.Request) -> web.Response:
    """Handle ``POST /oauth/logout``: log the user out, and redirect to the login page to choose another account."""
    query = str((await request.post()).get("query", ""))
    _authorization_request(request, query)
    request.app[SANDBOX].memory.grants.log_out(request.cookies.get(COOKIE, ""))
    response = _continue_authorization(query)
    response.del_cookie(COOKIE, path="/oauth")
    return response


async def decide(request: web.Request) -> web.Response:
    """Handle ``POST /oauth/consent``: redirect to the application with a code or access_denied (RFC 6749 §4.1.2)."""
    form = await request.post()
    authorization = _authorization_request(request, str(form.get("query", "")))
    account = _logged_in_account(request)
    if account is None or not hmac.compare_digest(str(form.get("csrf", "")).encode(), _csrf(request).encode()):
        return pages.refusal(
            "Your login has expired, or this page was opened in another browser. Go back and start again."
        )
    if form.get("decision") != "allow":
        return_url = authorization.redirect.url(error="access_denied", error_description="The user did not allow it.")
    else:
        code = request.app[SANDBOX].memory.grants.issue_code(
            client_id=authorization.client.client_id,
            redirect_uri=authorization.redirect.uri,
            challenge=authorization.challenge,
            account_id=account.account_id,
            scopes=authorization.scopes,
        )
        return_url = authorization.redirect.url(code=code)
    return _see_other(return_url)


@web.middleware
async def refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Send the error of an authorization request to the application if the redirect is safe; else show the error."""
    try:
        return await handler(request)
    except NoSafeRedirect as fault:
        return pages.refusal(str(fault))
    except RefusedRequest as fault:
        return _see_other(fault.redirect.url(error=fault.error, error_description=str(fault)))


def _authorization_request(request: web.Request, query: str) -> AuthorizationRequest:
    sandbox = request.app[SANDBOX]
    return parse_request(query, sandbox.clients, sandbox.issuer)


def _logged_in_account(request: web.Request) -> DemoAccount | None:
    account_id = request.app[SANDBOX].memory.grants.logged_in_account(request.cookies.get(COOKIE, ""))
    return ACCOUNTS.get(account_id) if account_id else None


def _csrf(request: web.Request) -> str:
    """Return the CSRF token of the form. The token is derived from the login cookie, which other sites cannot read."""
    return digest("consent " + request.cookies.get(COOKIE, ""))


def _continue_authorization(query: str) -> web.Response:
    return _see_other(f"/oauth/authorize?{query}")


def _see_other(url: str) -> web.Response:
    return web.Response(status=303, headers={"Location": url, "Cache-Control": "no-store"})
