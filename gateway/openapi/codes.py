"""The status of each error code, and the codes that any route may return."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.errors import Code

# The response has Nango's format for webhooks: ``{"error": "Invalid webhook signature"}``.
WEBHOOK_SIGNATURE_ERRORS: Final[tuple[Code, ...]] = ("invalid_webhook_signature",)

AGENT_SESSION_ERRORS: Final[tuple[Code, ...]] = (
    "ambiguous_connections",
    "unknown_pinned_connection",
    "pinned_connection_not_matched",
    "unknown_integration",
    "unknown_tool",
    "tool_not_in_toolset",
    "unknown_meta_tool",
)

_BY_STATUS: Final[Mapping[int, tuple[Code, ...]]] = {
    400: (
        "bad_framing",
        "bad_path",
        "invalid_headers",
        "invalid_body",
        "invalid_json",
        "invalid_query_params",
        "invalid_uri_params",
        "invalid_auth_mode",
        "connection_validation_failed",
        "connection_test_failed",
        "missing_client_id",
        "missing_client_secret",
        "client_credentials_fetch_error",
        "invalid_connection",
        "unresolved_setting",
        "invalid_state",
        "not_confirmed",
        "invalid_issuer",
        "invalid_nonce",
        "authorization_refused",
        "token_request_failed",
        "address_refused",
        "base_url_override_not_allowed",
        *AGENT_SESSION_ERRORS,
    ),
    401: (
        "missing_auth_header",
        "malformed_auth_header",
        "unknown_account",
        "invalid_connect_session_token_format",
        "unknown_connect_session_token",
        *WEBHOOK_SIGNATURE_ERRORS,
    ),
    403: (
        "forbidden",
        "integration_not_allowed",
        "connect_session_used",
        "connect_session_in_use",
        "invalid_code_verifier",
    ),
    404: (
        "not_found",
        "unknown_provider_config",
        "unknown_provider_template",
        "unknown_connection",
        "session_not_found",
    ),
    405: ("method_not_allowed",),
    409: ("conflict", "connection_id_required"),
    413: ("body_too_large",),
    415: ("invalid_content_type",),
    424: ("reconnect_needed",),
    429: ("too_many_request",),
    431: ("headers_too_large",),
    500: ("generic_error_support", "credential_unreadable"),
    501: ("not_supported", "not_offered"),
    502: (
        "upstream_unreachable",
        "upstream_tls",
        "upstream_protocol",
        "page_unreadable",
        "page_too_large",
        "answer_not_shaped",
        "page_failed",
        "next_page_refused",
    ),
    503: ("busy", "not_ready", "token_endpoint_unavailable", "store_unavailable"),
    504: ("upstream_timeout",),
}
STATUS_BY_CODE: Final[Mapping[Code, int]] = MappingProxyType(
    {code: status for status, codes in _BY_STATUS.items() for code in codes}
)

COMMON_ERRORS: Final[tuple[Code | tuple[Code, int], ...]] = (
    "bad_framing",
    ("bad_framing", 505),
    "bad_path",
    "invalid_headers",
    ("invalid_headers", 417),
    "method_not_allowed",
    "headers_too_large",
    "generic_error_support",
    "not_supported",
)
KEY_ERRORS: Final[tuple[Code, ...]] = (
    "missing_auth_header",
    "malformed_auth_header",
    "unknown_account",
    "forbidden",
    "invalid_query_params",
    "invalid_body",
    "too_many_request",
    "store_unavailable",
    "credential_unreadable",
)
SESSION_ERRORS: Final[tuple[Code, ...]] = (
    "invalid_connect_session_token_format",
    "unknown_connect_session_token",
    "store_unavailable",
    "credential_unreadable",
)
JSON_BODY_ERRORS: Final[tuple[Code, ...]] = ("invalid_json", "invalid_body", "invalid_content_type", "body_too_large")
CREATE_CONNECTION_ERRORS: Final[tuple[Code, ...]] = (
    "connection_validation_failed",
    "connection_test_failed",
    "unresolved_setting",
    "address_refused",
    "unknown_provider_config",
    "unknown_provider_template",
    "upstream_unreachable",
    "upstream_tls",
    "upstream_protocol",
    "busy",
    "upstream_timeout",
)
PROXY_ERRORS: Final[tuple[Code, ...]] = (
    *CREATE_CONNECTION_ERRORS[2:4],
    "unknown_provider_config",
    "unknown_connection",
    "base_url_override_not_allowed",
    "body_too_large",
    "reconnect_needed",
    "token_endpoint_unavailable",
    "upstream_unreachable",
    "upstream_tls",
    "upstream_protocol",
    "page_unreadable",
    "page_too_large",
    "answer_not_shaped",
    "busy",
    "upstream_timeout",
)
