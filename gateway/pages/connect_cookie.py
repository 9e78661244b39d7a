"""Finds the connect session of a page by a cookie, so that the URL does not contain the session's token.

Each session has its own cookie, so that two links in one browser do not interfere. The URL contains the short name of
the session, which is not secret. An embedded page cannot keep a cookie. So the script of the page sends the token with
each request, and the form that opens a window posts the token.
"""

from typing import Final
from urllib.parse import quote, urlencode

from aiohttp import hdrs, web

from gateway import clock
from gateway.authorization.connect_sessions import UNKNOWN_SESSION
from gateway.errors import Forbidden, Unauthorized
from gateway.middleware.who_calls import key_in
from gateway.pages.frame import PageWords, may_embed, origin_of
from gateway.records.connecting import ConnectSession
from gateway.runtime import RUNTIME, generation_of
from gateway.secret import digest

EMBEDDED_SESSION: Final = "embedded"
# The gateway's script in a frame sets this header to the origin of the page that sent the token to the script.
EMBEDDER_FIELD: Final = "Gateway-Embedder"
NAME_CHARS: Final = 16
_OWN_PREFIXES: Final = ("gw-", "__Host-gw-")
TOKEN_FIELD: Final = "connect_session_token"  # noqa: S105 (a field's name)


def cookies_of(request: web.BaseRequest) -> dict[str, str]:
    """Return the gateway's own cookies in a request. If a name is repeated, its last value is returned.

    Only spaces and tabs around a name are removed. Other white space belongs to the name: browsers let any host of the
    domain set a cookie whose name begins with U+2000 and then ``__Host-``.

    `request.cookies` is not used: aiohttp's parser needs up to 25 ms for a field of 16 KiB, which anybody can send.
    """
    pairs = (pair.strip(" \t").partition("=") for pair in request.headers.get(hdrs.COOKIE, "").split(";"))
    return {name: value for name, _, value in pairs if name.startswith(_OWN_PREFIXES)}


def session_name(session_digest: str) -> str:
    """Return the short name of a session in the URLs of its pages."""
    return session_digest[:NAME_CHARS]


def quoted_id(integration_id: str) -> str:
    """Return the integration's ID, quoted for the path of a page."""
    return quote(integration_id, safe="")


def is_embedded(request: web.Request) -> bool:
    return request.match_info.get("session_id") == EMBEDDED_SESSION


def first_page_url(request: web.Request, session_digest: str, words: PageWords) -> str:
    """Return the URL of the session's first page, with the chosen language and theme."""
    return page_url(request, session_digest, words)


def page_url(
    request: web.Request,
    session_digest: str,
    words: PageWords,
    subpath: str = "",
    *,
    window: bool = False,
    **query: str,
) -> str:
    """Return the URL of a page of the session, with the chosen language and theme.

    `subpath`: the path of the page below the session's first page. `window`: whether the page is shown in its own
    window although a page in a frame opened it. `query`: further query parameters.
    """
    name = EMBEDDED_SESSION if is_embedded(request) and not window else session_name(session_digest)
    path = f"{generation_of(request).public_url}/connect/s/{name}{subpath}"
    parameters = {**query, **({"lang": words.lang} if words.is_chosen else {})}
    if request.query.get("theme") in {"light", "dark"}:
        parameters["theme"] = request.query["theme"]
    return f"{path}?{urlencode(parameters)}" if parameters else path


async def session_of(request: web.Request, posted: str | None = None) -> ConnectSession:
    """Return the session that the page belongs to. Raises Unauthorized, Forbidden.

    `posted`: the session's token in the form of an embedded page; None: no form was posted.
    """
    sessions = request.app[RUNTIME].sessions
    if not is_embedded(request):
        name = request.match_info["session_id"]
        session = await sessions.find(cookies_of(request).get(cookie_name(request, name), ""))
        if session_name(session.digest) != name:
            raise Unauthorized("unknown_connect_session_token", UNKNOWN_SESSION)
        return session
    if posted:
        return await sessions.find(posted)
    session = await sessions.find(key_in(request.headers.get(hdrs.AUTHORIZATION)))
    if not may_embed(generation_of(request), session.environment, request.headers.get(EMBEDDER_FIELD, "")):
        raise Forbidden(
            "forbidden", "The origin of the page that embeds this one is not in the environment's connect_origins."
        )
    return session


def session_digest_in_cookie(request: web.Request) -> str:
    """Return the digest of the session in the URL if this browser has its cookie, even if the session has ended.

    Raises Unauthorized.
    """
    name = request.match_info["session_id"]
    cookie_digest = digest(cookies_of(request).get(cookie_name(request, name), ""))
    if session_name(cookie_digest) != name:
        raise Unauthorized("unknown_connect_session_token", UNKNOWN_SESSION)
    return cookie_digest


def set_session_cookie(request: web.Request, response: web.StreamResponse, token: str, session: ConnectSession) -> None:
    """Store the token in a cookie until the session expires. Scripts in the browser cannot read the cookie."""
    name = cookie_name(request, session_name(session.digest))
    seconds_left = max(0, int((session.expires_at - clock.now()).total_seconds()))
    secure = name.startswith("__Host-")
    response.set_cookie(name, token, max_age=seconds_left, path="/", secure=secure, httponly=True, samesite="Lax")


def holds_session(request: web.Request, session_digest: str) -> bool:
    """Return whether this browser has the session's token in a cookie."""
    token = cookies_of(request).get(cookie_name(request, session_name(session_digest)), "")
    return bool(token) and digest(token) == session_digest


def cookie_name(request: web.Request, name: str) -> str:
    secure = generation_of(request).public_url.startswith("https://")
    return f"{'__Host-' if secure else ''}gw-connect-{name}"


def check_own_form(request: web.Request, public_url: str | None = None) -> None:
    """Raise Forbidden if a page of another site sent the form.

    Browsers send the origin of the page (Fetch Metadata, Origin). `public_url`: the URL of the gateway's own pages;
    None: `server.public_url`.
    """
    own_origin = origin_of(public_url or generation_of(request).public_url)
    origin = request.headers.get(hdrs.ORIGIN)
    site = request.headers.get("Sec-Fetch-Site")
    # A page with the policy `no-referrer` sends its forms with `Origin: null`; then Sec-Fetch-Site decides.
    foreign = origin not in {None, own_origin, "null"} or (origin == "null" and site not in {None, "same-origin"})
    if foreign or site == "cross-site":
        raise Forbidden("forbidden", "This form was sent from a page of another site. Open the link itself.")
