"""Logs why an authorization failed: one warning each."""

from collections.abc import Mapping
from typing import Final

import structlog

from gateway.auth.words import short
from gateway.errors import GatewayError
from gateway.logs.masking import masked_text
from gateway.oauth.token import TokenRefused, TokenUnavailable

LONGEST: Final = 300
DEEPEST: Final = 5

log = structlog.get_logger(__name__)


def log_failure(
    fault: Exception,
    *,
    environment: str,
    integration: str,
    request_id: str,
    connection_id: str | None = None,
    query: Mapping[str, str] | None = None,
) -> None:
    """`query`: of the callback, where a provider says no (RFC 6749 §4.1.2.1). A provider's words are masked and bounded."""
    told = {
        "environment": environment,
        "integration": _fit(integration),
        "connection_id": connection_id,
        "reason": fault.code if isinstance(fault, GatewayError) else "generic_error_support",
        **_said(fault, query or {}),
        "detail": _fit(fault.message) if isinstance(fault, GatewayError) else type(fault).__name__,
        "request_id": request_id,
    }
    told = {name: text for name, text in told.items() if text is not None}
    log.warning("authorization_failed", **told)


def _said(fault: Exception, query: Mapping[str, str]) -> dict[str, str | None]:
    cause = fault.__cause__
    for _ in range(DEEPEST):  # bounded, since an error that is raised from itself is its own cause
        if not isinstance(cause, GatewayError):
            break
        cause = cause.__cause__
    if isinstance(cause, TokenRefused):
        return {"provider_error": _fit(cause.code), "provider_description": _fit(cause.description)}
    if isinstance(cause, TokenUnavailable):
        return {"provider_error": None, "provider_description": _fit(cause.reason)}
    if isinstance(fault, GatewayError) and fault.code == "connection_test_failed" and fault.payload:
        status = fault.payload.get("status")
        words = fault.payload.get("provider_message")
        return {"provider_error": str(status) if status else None, "provider_description": _fit(words)}
    return {
        "provider_error": _fit(query.get("error")),
        "provider_description": _fit(query.get("error_description") or query.get("error_reason")),
    }


def _fit(words: object) -> str | None:
    """Bounded before it is searched for secrets."""
    return masked_text(short(words[:LONGEST])) if isinstance(words, str) and words else None
