"""How an authorization ends: with a connection, with a choice yet to be made, or with a failure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from gateway.auth.context import Context
from gateway.auth.mode import GrantingMode
from gateway.catalog.provider import Provider
from gateway.errors import Forbidden, GatewayError, InvalidRequest
from gateway.records.connecting import ConnectSession, Flow, PendingAuthorization, PendingConnection, Site
from gateway.records.connection import Connection
from gateway.secret import Secret

# ── How an authorization ends: with a connection, or with a choice that the end user has yet to make.

LIFETIME: Final = timedelta(minutes=10)  # how long a flow lives


@dataclass(frozen=True, slots=True)
class Back:
    """The request by which a browser came back, for the log."""

    request_id: str = ""
    query: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """The end user is to choose a site. `token` goes into the page's form, the cookie shows that it is the same browser."""

    token: str
    sites: tuple[Site, ...]
    provider: Provider
    integration_id: str
    session_digest: str
    cookie_name: str
    cookie_value: Secret
    lang: str | None = None


@dataclass(frozen=True, slots=True)
class Arrived:
    """A connection that was just made, or is pending, and whose session it was."""

    connection: Connection | PendingConnection
    session_digest: str
    lang: str | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the application has yet to complete the connection."""
        return isinstance(self.connection, PendingConnection)


@dataclass(frozen=True, slots=True)
class Returned:
    """A flow that its own browser has come back to, used up by that."""

    flow: Flow
    mode: GrantingMode
    context: Context
    pending: PendingAuthorization = field(repr=False)


# ── What went wrong with an authorization: for the page, with the integration it was for, and for the browser's
# WebSocket.

# Our codes ▸ the types that published clients know (docs/compatibility.md#authorization).
TYPES: Final[Mapping[str, str]] = {
    "authorization_refused": "callback_err",
    "connect_session_used": "provider_config_err",
    "connection_test_failed": "connection_test_failed",
    "connection_validation_failed": "connection_validation_failed",
    "integration_not_allowed": "provider_config_err",
    "invalid_auth_mode": "auth_mode_err",
    "invalid_connection": "connection_not_found",
    "invalid_issuer": "callback_err",
    "invalid_nonce": "callback_err",
    "invalid_query_params": "url_param_err",
    "invalid_state": "state_err",
    "reconnect_needed": "token_err",
    "token_request_failed": "token_err",
    "unknown_provider_config": "unknown_config_key",
    "unresolved_setting": "url_param_err",
    "upstream_unreachable": "token_err",
}


class CallbackFailed(InvalidRequest):
    """An authorization that led to nothing; knows what it was for, as far as that is safe to show.

    `proven`: the browser that began it came back with its state, so that the query is the provider's. `spent`: its state is
    good no more.
    """

    proven: bool = False
    spent: bool = False
    environment: str | None = None
    integration_id: str | None = None
    session_digest: str | None = None
    error_type: str | None = None


def error_type(fault: GatewayError) -> str:
    """Return the type of the error as the browser's WebSocket and the page's message name it."""
    if isinstance(fault, CallbackFailed) and fault.error_type is not None:
        return fault.error_type
    return TYPES.get(fault.code, "unknown_err")


def about(flow: Flow, fault: InvalidRequest | Forbidden, kind: str | None = None) -> CallbackFailed:
    """`fault`, which ends this flow."""
    failed = CallbackFailed(fault.code, fault.message, errors=fault.errors, payload=fault.payload)
    failed.integration_id, failed.session_digest = flow.integration_id, flow.session_digest
    failed.environment, failed.proven = flow.environment, kind != "state_cookie_err"
    failed.error_type = kind or (fault.error_type if isinstance(fault, CallbackFailed) else None)
    return failed


def not_for_reconnect(session: ConnectSession, integration_id: str) -> InvalidRequest | None:
    """Why this integration cannot be connected under a session that reconnects a connection of another one."""
    if session.integration_id is None or session.integration_id == integration_id:
        return None
    return InvalidRequest(
        "integration_not_allowed",
        f"This connect session reconnects a connection of '{session.integration_id}', and no other.",
    )
