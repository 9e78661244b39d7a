"""Connect sessions: what a customer's back end allows one end user to connect, for half an hour, behind one token."""

import secrets
from datetime import timedelta
from typing import Any, Final

from gateway import clock
from gateway.errors import Unauthorized
from gateway.records.connecting import ConnectSession
from gateway.secret import digest
from gateway.store import Store

SESSION_PREFIX: Final = "nango_connect_session_"
LIFETIME: Final = timedelta(minutes=30)
TOKEN_CHARS: Final = 64


class Sessions:
    """Tokens are `SESSION_PREFIX` and 64 hex digits, the form that published SDKs look for; only digests are stored."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def open(self, environment: str, **what: Any) -> tuple[str, ConnectSession]:
        """A token, and the session behind it; `what` are the other fields of ConnectSession."""
        token = SESSION_PREFIX + secrets.token_hex(TOKEN_CHARS // 2)
        session = ConnectSession(
            digest=digest(token), environment=environment, expires_at=clock.now() + LIFETIME, **what
        )
        await self._store.sessions.add(session)
        return token, session

    async def find(self, token: str) -> ConnectSession:
        """The session behind a token. Raises Unauthorized; an expired one and an unknown one look alike."""
        body = token.removeprefix(SESSION_PREFIX)
        if body == token or len(body) != TOKEN_CHARS or not set(body) <= set("0123456789abcdef"):
            raise Unauthorized(
                "invalid_connect_session_token_format",
                "connect_session_token is missing or no connect session token. POST /connect/sessions makes one.",
            )
        session = await self._store.sessions.get(digest(token), now=clock.now())
        if session is None:
            raise Unauthorized(
                "unknown_connect_session_token",
                "This connect session is unknown or has expired. Ask the application you came from for a new link.",
            )
        return session

    async def known(self, session_digest: str) -> ConnectSession | None:
        """The session of that digest while it lives: for who asks with another right than its token."""
        return await self._store.sessions.get(session_digest, now=clock.now())

    async def end(self, session: ConnectSession) -> None:
        await self._store.sessions.delete(session.digest)


def connect_link(public_url: str, token: str) -> str:
    """What the end user opens. The token leaves the address with the first answer."""
    return f"{public_url}/connect?session_token={token}"


def poll_url(public_url: str, session: ConnectSession) -> str:
    """Where the customer's back end learns, with its key, what became of the session. Holds no token."""
    return f"{public_url}/connect/sessions/{session.digest}"
