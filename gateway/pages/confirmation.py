"""The confirmation that no way in can skip: a person has seen for whom and for which application this account is connected,
in this browser, and clicked.

Anyone who has a link has its token, so a form that the token alone could send would prove nothing. Each browser gets a random
value in a cookie with the first page of a session; the form holds what only that value yields, for its integration. A frame
keeps no cookies: there the browser itself must say that the form came from our own page (Fetch Metadata, Origin).
"""

import hmac
import secrets
from typing import Final

from aiohttp import hdrs, web

from gateway import clock
from gateway.errors import InvalidRequest
from gateway.pages.connect_cookie import is_embedded, name_of
from gateway.pages.frame import origin_of
from gateway.records.connecting import ConnectSession, Outcome
from gateway.runtime import RUNTIME, generation_of
from gateway.secret import Secret, digest
from gateway.store.pending_authorizations import in_use

CONFIRMATION_FIELD: Final = "confirmation"
UNCONFIRMED: Final = "not_confirmed"


def is_browser(request: web.Request) -> bool:
    """Return whether a browser may have sent the request: whether it has what every browser sends.

    A browser brings a person's cookies and sign-ins along. A program sends none of it, and holds nobody's cookies.
    """
    headers = request.headers
    return (
        "text/html" in headers.get(hdrs.ACCEPT, "")
        or "Sec-Fetch-Mode" in headers
        or headers.get(hdrs.USER_AGENT, "").startswith("Mozilla/")
    )


class Browser:
    """The confirmation of one session in one browser."""

    def __init__(self, request: web.Request, session: ConnectSession) -> None:
        secure = generation_of(request).public_url.startswith("https://")
        self._name = f"{'__Host-' if secure else ''}gw-confirm-{name_of(session.digest)}"
        self._secure = secure
        self._session = session
        known = request.cookies.get(self._name, "")
        self._is_new = not known
        self._value = Secret(known or secrets.token_urlsafe(32))

    @property
    def digest(self) -> str:
        """Return the digest by which the session knows the browser that it serves."""
        return digest(self._value.reveal())

    @property
    def has_it(self) -> bool:
        """Whether this browser may use the session: the session serves any browser, or this one, or none yet."""
        return not self._session.for_one_browser or self._session.browser_digest in {None, self.digest}

    @property
    def confirmed(self) -> bool:
        """Whether somebody continued past the confirmation in this browser, as far as the session keeps that."""
        return self._session.browser_digest == self.digest

    def brings_back(self, outcome: Outcome) -> bool:
        """Return whether this browser may return to the application with the outcome.

        Under a code challenge that is proof of who connected, so an outcome of another browser is not returned.
        """
        return not self._session.bound or outcome.browser_digest == self.digest

    def confirmation(self, integration_id: str) -> str:
        """Return the confirmation that the form of this integration holds."""
        return hmac.digest(self._value.reveal().encode(), f"confirm {integration_id}".encode(), "sha256").hex()

    def confirms(self, integration_id: str, posted: str) -> bool:
        """Return whether `posted` comes from a form that was shown in this browser."""
        return not self._is_new and hmac.compare_digest(self.confirmation(integration_id), posted)

    def keep(self, answer: web.StreamResponse) -> None:
        left = max(0, int((self._session.expires_at - clock.now()).total_seconds()))
        answer.set_cookie(
            self._name,
            self._value.reveal(),
            max_age=left,
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="Lax",
        )


def check_confirmed(request: web.Request, browser: Browser, integration_id: str, posted: str) -> None:
    """Raises InvalidRequest where nobody can have seen the page that asks for it."""
    if is_embedded(request):
        own = origin_of(generation_of(request).public_url)
        shown = request.headers.get("Sec-Fetch-Site") == "same-origin" or request.headers.get(hdrs.ORIGIN) == own
    else:
        shown = browser.confirms(integration_id, posted)
    if not shown:
        raise InvalidRequest(
            UNCONFIRMED,
            "This form was not sent from its own page in this browser. Look at the page, and confirm there.",
        )


async def claim(request: web.Request, browser: Browser, session: ConnectSession) -> None:
    """Let a session for one browser serve this one from now on. Raises Forbidden where another one has it."""
    if session.for_one_browser and not await request.app[RUNTIME].store.sessions.keep_for_browser(
        session.digest, browser.digest
    ):
        raise in_use()
