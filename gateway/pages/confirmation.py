"""The confirmation that every connection needs: a click of a person on a page in this browser.

The page says for whom and for which application the account is connected. Anyone who has a link has its token, so a
form that needs only the token would prove nothing. So each browser gets a random value in a cookie, with the first page
of a session. Each form contains a value that is derived from the cookie and the integration. A page in a frame has no
cookies: there the browser's headers must show that the form came from the gateway's own page (Fetch Metadata, Origin).
"""

import hmac
import secrets
from typing import Final

from aiohttp import hdrs, web

from gateway import clock
from gateway.errors import InvalidRequest
from gateway.pages.connect_cookie import cookies_of, is_embedded, session_name
from gateway.pages.frame import origin_of
from gateway.records.connecting import ConnectSession, Outcome
from gateway.runtime import RUNTIME, generation_of
from gateway.secret import Secret, digest
from gateway.store.pending_authorizations import bound_to_other_browser_error

CONFIRMATION_FIELD: Final = "confirmation"
UNCONFIRMED: Final = "not_confirmed"


def is_browser(request: web.Request) -> bool:
    """Return whether the request can come from a browser: whether it has a header that every browser sends.

    The difference matters because a browser has the cookies and logins of a person, and a program does not.
    """
    return "text/html" in request.headers.get(hdrs.ACCEPT, "") or is_real_browser(request)


def is_real_browser(request: web.Request) -> bool:
    """Return whether the request has a header of a browser.

    A program has no such header unless it pretends to be a browser.
    """
    return "Sec-Fetch-Mode" in request.headers or request.headers.get(hdrs.USER_AGENT, "").startswith("Mozilla/")


class SessionBrowser:
    """One browser that shows the pages of a session, identified by a random value in its cookie."""

    def __init__(self, request: web.Request, session: ConnectSession) -> None:
        secure = generation_of(request).public_url.startswith("https://")
        self._name = f"{'__Host-' if secure else ''}gw-confirm-{session_name(session.digest)}"
        self._secure = secure
        self._session = session
        value = cookies_of(request).get(self._name, "")
        value = value if value.isascii() else ""  # the value that `set_cookie` sets is ASCII
        self._is_new = not value
        self._value = Secret(value or secrets.token_urlsafe(32))

    @property
    def digest(self) -> str:
        """The digest of the cookie's value. A session that belongs to one browser stores this digest."""
        return digest(self._value.reveal())

    @property
    def may_use_session(self) -> bool:
        """Whether this browser may use the session: any browser may use it, or it belongs to this browser, or it does
        not belong to a browser yet."""
        return not self._session.for_one_browser or self._session.browser_digest in {None, self.digest}

    @property
    def has_confirmed(self) -> bool:
        """Whether a person has confirmed in this browser. The confirmation binds the session to the browser."""
        return self._session.browser_digest == self.digest

    def may_return_outcome(self, outcome: Outcome) -> bool:
        """Return whether this browser may take the outcome to the application.

        If the session has a code challenge, the outcome proves who connected. So only the browser that connected may
        take the outcome to the application.
        """
        return not self._session.needs_completion or outcome.browser_digest == self.digest

    def confirmation(self, integration_id: str) -> str:
        """Return the value that the form of this integration must contain as proof of the confirmation."""
        return hmac.digest(self._value.reveal().encode(), f"confirm {integration_id}".encode(), "sha256").hex()

    def confirms(self, integration_id: str, confirmation: str) -> bool:
        """Return whether `confirmation` is the confirmation value of a form that was shown in this browser."""
        expected = self.confirmation(integration_id).encode()
        return not self._is_new and hmac.compare_digest(expected, confirmation.encode())

    def set_cookie(self, response: web.StreamResponse) -> None:
        seconds_left = max(0, int((self._session.expires_at - clock.now()).total_seconds()))
        response.set_cookie(
            self._name,
            self._value.reveal(),
            max_age=seconds_left,
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="Lax",
        )


def check_confirmed(request: web.Request, browser: SessionBrowser, integration_id: str, confirmation: str) -> None:
    """Raise InvalidRequest if the form was not sent from the confirmation page in this browser.

    `confirmation`: the confirmation value in the form.
    """
    if is_embedded(request):
        own_origin = origin_of(generation_of(request).public_url)
        from_own_page = (
            request.headers.get("Sec-Fetch-Site") == "same-origin" or request.headers.get(hdrs.ORIGIN) == own_origin
        )
    else:
        from_own_page = browser.confirms(integration_id, confirmation)
    if not from_own_page:
        raise InvalidRequest(
            UNCONFIRMED,
            "This form was not sent from its own page in this browser. Check the page, then confirm on that page.",
        )


async def claim_session(request: web.Request, browser: SessionBrowser, session: ConnectSession) -> None:
    """If only one browser may use the session, bind it to this browser.

    Raises Forbidden if the session belongs to another browser.
    """
    if session.for_one_browser and not await request.app[RUNTIME].store.sessions.keep_for_browser(
        session.digest, browser.digest
    ):
        raise bound_to_other_browser_error()
