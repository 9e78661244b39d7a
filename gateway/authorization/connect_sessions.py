"""Connect sessions: what an application allows one end user to connect, and which settings the user may choose."""

import math
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from gateway import clock
from gateway.access.refusals import rule_and_fix
from gateway.access.window_counter import WindowCounter
from gateway.catalog.provider import Provider
from gateway.connections.settings import accepted_settings, without_protected_settings
from gateway.errors import Forbidden, TooManyRequests, Unauthorized
from gateway.generation import CurrentGeneration
from gateway.oauth.authorize import scope_list
from gateway.records.connecting import ConnectSession
from gateway.secret import digest
from gateway.store import Store
from gateway.store.pending_authorizations import session_used_up_error

# ── Permissions of a connect session: its integrations, and the settings that its end user may choose.


def connection_settings(
    session: ConnectSession, provider: Provider, integration_id: str, typed_settings: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...] | None]:
    """Return the settings of a new connection, and the scopes that the application fixed for it (None if it fixed
    none).

    The end user's setting names are changed to the spelling of the catalog entry. Otherwise another spelling of a name
    could override a setting that the application fixed.
    """
    session_settings = dict(session.defaults.get(integration_id, {}).get("connection_config") or {})
    scopes = session_settings.pop("oauth_scopes_override", None)
    end_user_settings = without_protected_settings(provider, accepted_settings(provider, typed_settings, ("params",)))
    config = {**end_user_settings, **accepted_settings(provider, session_settings, ("connection_config",))}
    return config, scope_list(scopes) if scopes else None


def check_offered(session: ConnectSession, integration_id: str) -> None:
    """Raise Forbidden if the session does not allow this integration."""
    if session.allowed_integrations and integration_id not in session.allowed_integrations:
        raise Forbidden(
            "integration_not_allowed",
            f"This connect session does not offer '{integration_id}', only {', '.join(session.allowed_integrations)}.",
        )


def check_connection_limit(session: ConnectSession) -> None:
    """Raise Forbidden if the session has already made its maximum number of connections. Check this before the browser
    is redirected to a provider."""
    if session.is_used_up:
        raise session_used_up_error(session.max_connections)


SESSION_PREFIX: Final = "nango_connect_session_"
LIFETIME: Final = timedelta(minutes=30)
MIN_LIFETIME: Final = timedelta(minutes=1)
MAX_LIFETIME: Final = timedelta(days=7)
MAX_CONNECTIONS: Final = 1000
TOKEN_CHARS: Final = 64
UNKNOWN_SESSION: Final = (
    "This connect session is unknown or has expired. Ask the application you came from for a new link."
)


WINDOW_S: Final = 60.0


class ConnectSessions:
    """Creates and finds connect sessions. A token is `SESSION_PREFIX` followed by 64 hex digits, as the Nango SDKs
    expect. Only the token's digest is stored.

    The section ``connect`` of gateway.yaml limits each key in two ways. `sessions_open` limits the sessions that are
    open at the same time, on all nodes together. `sessions_per_minute` limits the new sessions in each worker.
    """

    def __init__(self, store: Store, current: CurrentGeneration) -> None:
        self._store = store
        self._current = current
        self._created_counts: WindowCounter[tuple[str, str]] = WindowCounter(WINDOW_S)  # counts by environment and key

    async def open(
        self,
        environment: str,
        key_id: str,
        *,
        lifetime: timedelta = LIFETIME,
        for_provider_response: bool = False,
        **fields: Any,
    ) -> tuple[str, ConnectSession]:
        """Create a session, and return its token and the session. `fields`: the other fields of ConnectSession.
        `for_provider_response`: whether a provider's response caused the session. Such sessions may use only half of the
        key's limits, so that a provider cannot use up the limits. Raises TooManyRequests if the key has reached a limit.
        """
        limits = self._current.generation.config.connect
        divisor = 2 if for_provider_response else 1
        self._count_new_session(environment, key_id, -(-limits.sessions_per_minute // divisor))
        token = SESSION_PREFIX + secrets.token_hex(TOKEN_CHARS // 2)
        session = ConnectSession(
            digest=digest(token), environment=environment, key_id=key_id, expires_at=clock.now() + lifetime, **fields
        )
        limit = -(-limits.sessions_open // divisor)
        first_ends_at = await self._store.sessions.add(session, max_open=limit)
        if first_ends_at is not None:
            wait_s = max(1, math.ceil((first_ends_at - clock.now()).total_seconds()))
            raise _limit_error(
                "sessions_open",
                f"Too many open connect sessions of {_key_text(key_id)}: the limit is {limit} (connect.sessions_open).",
                f"End one with DELETE /connect/session, or try again in {wait_s} s.",
                limit,
                wait_s,
            )
        return token, session

    def _count_new_session(self, environment: str, key_id: str, limit: int) -> None:
        self._created_counts.restart_if_over()
        if self._created_counts[environment, key_id] >= limit:
            wait_s = self._created_counts.left_s
            raise _limit_error(
                "sessions_per_minute",
                f"Too many new connect sessions of {_key_text(key_id)}: the limit is {limit} a minute "
                "(connect.sessions_per_minute).",
                f"Try again in {wait_s} s.",
                limit,
                wait_s,
            )
        self._created_counts.add((environment, key_id))

    async def find(self, token: str) -> ConnectSession:
        """Return the session of a token. Raises Unauthorized, with the same error for an expired and for an unknown
        token."""
        body = token.removeprefix(SESSION_PREFIX)
        if body == token or len(body) != TOKEN_CHARS or not set(body) <= set("0123456789abcdef"):
            raise Unauthorized(
                "invalid_connect_session_token_format",
                "connect_session_token is missing or has the wrong format. Create one with POST /connect/sessions.",
            )
        session = await self._store.sessions.get(digest(token), now=clock.now())
        if session is None:
            raise Unauthorized(
                "unknown_connect_session_token",
                UNKNOWN_SESSION,
            )
        return session

    async def find_by_digest(self, session_digest: str) -> ConnectSession | None:
        """Return the session with this digest, or None if the session is unknown or has expired. The caller must be
        authorized in another way, because this method does not check the session's token."""
        return await self._store.sessions.get(session_digest, now=clock.now())

    async def end(self, session: ConnectSession) -> None:
        await self._store.sessions.delete(session.digest)


def _key_text(key_id: str) -> str:
    return "this key" if key_id else "all keys of this environment in gateway.yaml together"


def _limit_error(rule: str, problem: str, fix: str, limit: int, wait_s: int) -> TooManyRequests:
    return TooManyRequests(
        "too_many_request",
        f"{problem} {fix}",
        payload={"limit": limit, **rule_and_fix(rule, fix, "the gateway's operator")},
        retry_after_s=wait_s,
    )


def connect_link(public_url: str, token: str) -> str:
    """Return the link that the end user opens. The gateway redirects the browser immediately to a URL without the
    token."""
    return f"{public_url}/connect?session_token={token}"


def poll_url(public_url: str, session: ConnectSession) -> str:
    """Return the URL at which the application reads the session's result with its secret key. The URL does not contain
    the session's token."""
    return f"{public_url}/connect/sessions/{session.digest}"
