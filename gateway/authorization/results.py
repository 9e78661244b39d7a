"""The possible results of an authorization: a connection, a choice for the end user, or a failure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from gateway.auth.context import AuthContext
from gateway.auth.mode import GrantingMode
from gateway.catalog.provider import Provider
from gateway.errors import Forbidden, GatewayError, InvalidRequest, UpstreamFailed
from gateway.records.connecting import ConnectSession, Flow, PendingAuthorization, PendingConnection, Site
from gateway.records.connection import Connection
from gateway.secret import Secret

# ── Successful results: a connection, or a choice that the end user must still make.

LIFETIME: Final = timedelta(minutes=10)  # lifetime of a flow


@dataclass(frozen=True, slots=True)
class CallbackRequest:
    """The ID and the query of a callback request, for the log."""

    request_id: str = ""
    query: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class SiteChoice:
    """The end user must choose a site. `token`: identifies the choice in the page's form. The cookie shows that the
    same browser sends the form."""

    token: str
    sites: tuple[Site, ...]
    provider: Provider
    integration_id: str
    session_digest: str
    cookie_name: str
    cookie_value: Secret
    lang: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectedResult:
    """A connection that was just stored or is pending, and the digest of its session."""

    connection: Connection | PendingConnection
    session_digest: str
    lang: str | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the application must still complete the connection."""
        return isinstance(self.connection, PendingConnection)


@dataclass(frozen=True, slots=True)
class ReturnedFlow:
    """A flow after its browser has returned from the provider. The flow cannot be used again."""

    flow: Flow
    mode: GrantingMode
    context: AuthContext
    pending: PendingAuthorization = field(repr=False)


# ── Failures of an authorization, as shown on the page and sent to the browser's WebSocket.

# Maps the gateway's error codes to the error types of the Nango SDKs (docs/compatibility.md#authorization).
ERROR_TYPES: Final[Mapping[str, str]] = {
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
    """A failed authorization, with the data about the flow that is safe to show.

    `is_from_provider`: whether the browser that started the flow returned with the flow's `state`. If so, the query
    comes from the provider. `is_state_used`: whether the `state` is used up.
    """

    is_from_provider: bool = False
    is_state_used: bool = False
    environment: str | None = None
    integration_id: str | None = None
    session_digest: str | None = None
    error_type: str | None = None


def error_type(fault: GatewayError) -> str:
    """Return the error type that is sent to the browser's WebSocket and used in the page's message."""
    if isinstance(fault, CallbackFailed) and fault.error_type is not None:
        return fault.error_type
    return ERROR_TYPES.get(fault.code, "unknown_err")


def failed_callback(
    flow: Flow, fault: InvalidRequest | Forbidden | UpstreamFailed, kind: str | None = None
) -> CallbackFailed:
    """Return `fault` as a CallbackFailed with the data of this flow."""
    failure = CallbackFailed(
        fault.code, fault.message, errors=fault.errors, payload=fault.payload, retry_after_s=fault.retry_after_s
    )
    failure.integration_id, failure.session_digest = flow.integration_id, flow.session_digest
    failure.environment, failure.is_from_provider = flow.environment, kind != "state_cookie_err"
    failure.error_type = kind or (fault.error_type if isinstance(fault, CallbackFailed) else None)
    return failure


def reconnect_mismatch_error(session: ConnectSession, integration_id: str) -> InvalidRequest | None:
    """Return an error if the session reconnects a connection of another integration. Otherwise return None."""
    if session.integration_id is None or session.integration_id == integration_id:
        return None
    return InvalidRequest(
        "integration_not_allowed",
        f"This connect session can only reconnect a connection of '{session.integration_id}'.",
    )
