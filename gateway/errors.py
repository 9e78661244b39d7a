"""The errors that callers get.

    GatewayError                  status, code, message, payload
    ├── InvalidRequest        400     ├── BodyTooLarge         413
    ├── Unauthorized          401     ├── UnsupportedMediaType 415
    ├── Forbidden             403     ├── ReconnectNeeded      424
    ├── NotFound              404     ├── TooManyRequests      429
    ├── MethodNotAllowed      405     ├── HeadersTooLarge      431
    ├── Conflict              409     ├── NotImplementedHere   501
    ├── ExpectationFailed     417     ├── UpstreamTimeout      504
    ├── UpstreamFailed        502     ├── Unavailable          503
    └── VersionNotSupported   505     └── CredentialUnreadable 500

``code`` is part of the API and does not change; ``message`` says what to do next and can change. Only
`gateway.middleware.response_shape` renders errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

ERROR_HEADER: Final = "Gateway-Error"
"""The header that names the error code. An error response without this header comes from the provider."""

Code = Literal[
    # the caller's key
    "missing_auth_header",
    "malformed_auth_header",
    "unknown_account",
    "invalid_connect_session_token_format",
    "unknown_connect_session_token",
    "forbidden",
    "invalid_webhook_signature",
    # the request itself
    "bad_framing",
    "bad_path",
    "invalid_headers",
    "invalid_body",
    "invalid_json",
    "invalid_query_params",
    "invalid_uri_params",
    "invalid_content_type",
    "body_too_large",
    "headers_too_large",
    "method_not_allowed",
    "too_many_request",
    "not_found",
    "not_supported",
    "not_offered",
    # what the caller named
    "unknown_provider_config",
    "unknown_provider_template",
    "unknown_connection",
    "invalid_auth_mode",
    "integration_not_allowed",
    "connect_session_used",
    "connect_session_in_use",
    "not_confirmed",
    "invalid_code_verifier",
    "connection_id_required",
    "conflict",
    # agent sessions
    "ambiguous_connections",
    "unknown_pinned_connection",
    "pinned_connection_not_matched",
    "unknown_integration",
    "unknown_tool",
    "tool_not_in_toolset",
    "unknown_meta_tool",
    "session_not_found",
    # creating a connection
    "connection_validation_failed",
    "connection_test_failed",
    "missing_client_id",
    "missing_client_secret",
    "client_credentials_fetch_error",
    "invalid_connection",
    "invalid_state",
    "invalid_issuer",
    "invalid_nonce",
    "authorization_refused",
    "token_request_failed",
    "unresolved_setting",
    # the request to the provider
    "address_refused",
    "base_url_override_not_allowed",
    "reconnect_needed",
    "upstream_unreachable",
    "upstream_tls",
    "upstream_protocol",
    "upstream_timeout",
    "page_unreadable",
    "page_too_large",
    "answer_not_shaped",
    "page_failed",
    "next_page_refused",
    # the gateway's own state
    "busy",
    "not_ready",
    "token_endpoint_unavailable",
    "store_unavailable",
    "credential_unreadable",
    "generic_error_support",
]


@dataclass(frozen=True, slots=True)
class Issue:
    """One of several faults in a request.

    `code`: which rule the request breaks. `message`: text for people. `path`: where the fault is, as the names and
    indexes that lead to the value; all of them are strings (docs/compatibility.md#errors).
    """

    code: str
    message: str
    path: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "path": list(self.path)}


MAX_ISSUES: Final = 100  # maximum number of issues in one response


def joined_issues(issues: Sequence[Issue]) -> str:
    """Return one message for several faults: the first three messages, and the number of the remaining faults."""
    shown_messages = [issue.message.removesuffix(".") for issue in issues[:3]]
    hidden_count = len(issues) - len(shown_messages)
    joined_messages = "; ".join([*shown_messages, *([f"and {hidden_count} more"] if hidden_count else [])])
    return joined_messages if joined_messages.endswith("?") else f"{joined_messages}."


class GatewayError(Exception):
    """A refusal or a failure, with the status of its response.

    - `errors`: the single faults of the request
    - `payload`: JSON for programs, without secrets; None: no payload
    - `retry_after_s`: the seconds for ``Retry-After``; None: no such header
    - `close`: whether to close the client's connection after the response, because the bytes that follow cannot be read
      safely
    """

    status: ClassVar[int] = 500

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        errors: Sequence[Issue] = (),
        payload: Mapping[str, Any] | None = None,
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.code: Code = code
        self.message = message
        self.errors = tuple(errors)
        self.payload = payload
        self.retry_after_s = retry_after_s
        self.headers = dict(headers or {})
        self.close = close

    def as_json(self) -> dict[str, Any]:
        """Return the body's ``error`` member: code, message and, if present, errors and payload."""
        members: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.errors:
            members["errors"] = [issue.as_json() for issue in self.errors[:MAX_ISSUES]]
        if self.payload is not None:
            members["payload"] = dict(self.payload)
        return members


def exc_info_of(fault: BaseException) -> BaseException | None:
    """Return `fault` for the `exc_info` of a log line; None for a GatewayError, whose text says enough."""
    return None if isinstance(fault, GatewayError) else fault


class StartRefused(Exception):
    """The gateway cannot start. The text is one line for the operator, and names the setting to change."""


class InvalidRequest(GatewayError):
    status = 400


class Unauthorized(GatewayError):
    status = 401


class Forbidden(GatewayError):
    status = 403


class NotFound(GatewayError):
    status = 404


class MethodNotAllowed(GatewayError):
    status = 405


class Conflict(GatewayError):
    status = 409


class BodyTooLarge(GatewayError):
    status = 413


class UnsupportedMediaType(GatewayError):
    status = 415


class ExpectationFailed(GatewayError):
    status = 417


class ReconnectNeeded(GatewayError):
    """The provider refuses permanently: only the end user can fix this connection, by authorizing again."""

    status = 424


class TooManyRequests(GatewayError):
    status = 429


class HeadersTooLarge(GatewayError):
    status = 431


class NotImplementedHere(GatewayError):
    status = 501


class UpstreamFailed(GatewayError):
    """The provider could not be reached, or its response cannot be used."""

    status = 502


class Unavailable(GatewayError):
    """A temporary failure of the gateway or of the token endpoint, normally with `retry_after_s`."""

    status = 503


class CredentialUnreadable(GatewayError):
    """The stored credential cannot be decrypted, because it was changed or moved in the database.

    A retry does not help: restore a backup, or ask the end user to connect again.
    """

    status = 500


class UpstreamTimeout(GatewayError):
    status = 504


class VersionNotSupported(GatewayError):
    status = 505
