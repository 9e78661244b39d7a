"""Makes the error for the caller if there is no response to pass on."""

from datetime import timedelta
from typing import Final

from aiohttp import web

from gateway import clock
from gateway.egress.egress_errors import CallNotAttempted, EgressError, EgressErrorKind
from gateway.errors import Code, GatewayError, InvalidRequest, Unavailable, UpstreamFailed, UpstreamTimeout
from gateway.middleware.facts import IN_PROCESS, PROXY_OPTIONS, UPSTREAM
from gateway.middleware.response_shape import broken_body_error
from gateway.proxy.caller_body import CallerBody
from gateway.proxy.exchange_watch import ExchangeTimeout
from gateway.runtime import generation_of

_CODES: Final[dict[EgressErrorKind, tuple[type[GatewayError], Code]]] = {
    "refused": (InvalidRequest, "address_refused"),
    "unreachable": (UpstreamFailed, "upstream_unreachable"),
    "tls": (UpstreamFailed, "upstream_tls"),
    "timeout": (UpstreamTimeout, "upstream_timeout"),
    "protocol": (UpstreamFailed, "upstream_protocol"),
    "too_large": (UpstreamFailed, "upstream_protocol"),
    "busy": (Unavailable, "busy"),
}


def error_for_caller(fault: Exception, request: web.Request, upload: CallerBody) -> GatewayError:
    """Return the error for the caller.

    If a part of the request's body is unread, the error closes the connection. Otherwise the server would read the rest
    of the body as a request.
    """
    close = not request.content.is_eof()
    if isinstance(upload.fault, GatewayError):
        return upload.fault
    if upload.fault is not None:
        return broken_body_error()
    if isinstance(fault, ExchangeTimeout):
        return _timeout_error(fault, request, upload, close=close)
    if isinstance(fault, CallNotAttempted):
        return _not_attempted(fault, close=close)
    if isinstance(fault, EgressError):
        error_class, code = _CODES[fault.kind]
        return error_class(code, fault.message + _next_step(fault, request), close=close)
    return UpstreamFailed(
        "upstream_protocol", f"Invalid response from {request[UPSTREAM].origin}: {fault}.", close=close
    )


def _next_step(fault: EgressError, request: web.Request) -> str:
    """Return advice for the caller if no connection to the provider's host could be opened; else an empty string."""
    host_at_fault = fault.kind == "unreachable" and not fault.sent and request[UPSTREAM].host in fault.message
    if not host_at_fault:
        return ""
    return f" Retry later, or check the hosts of integration '{request[PROXY_OPTIONS].integration_id}' with `gateway doctor`."


def _timeout_error(fault: ExchangeTimeout, request: web.Request, upload: CallerBody, *, close: bool) -> GatewayError:
    origin = request[UPSTREAM].origin
    if fault.total:
        return UpstreamTimeout(
            "upstream_timeout",
            f"The call to {origin} did not finish within {fault.limit_s:g} s (egress.timeouts.total_s).",
            close=close,
        )
    if upload.waits_for_caller:
        return InvalidRequest(
            "invalid_body", f"The request body stalled: no byte arrived for {fault.limit_s:g} s.", close=True
        )
    began = upload.exchange is not None  # then Gateway-Timeout is not the limit
    advice = "" if began or IN_PROCESS in request else _longer_timeout(fault, request)
    message = f"{origin} did not respond within {fault.limit_s:g} s.{advice}"
    return UpstreamTimeout("upstream_timeout", message, close=close)


def _longer_timeout(fault: ExchangeTimeout, request: web.Request) -> str:
    """Return advice for a caller that can send header fields; a tool of an agent has no argument for the timeout."""
    max_s = generation_of(request).egress.timeouts.max_first_byte_s
    if fault.limit_s >= max_s:
        return " To wait longer, raise egress.timeouts.max_first_byte_s."
    return f" To wait longer, send Gateway-Timeout with more seconds, up to {max_s:g}."


def _not_attempted(fault: CallNotAttempted, *, close: bool) -> GatewayError:
    retry_at = clock.now() + timedelta(seconds=fault.retry_after_s)
    payload = {"reason": fault.reason, "retry_at": retry_at.isoformat(timespec="milliseconds")}
    return Unavailable("busy", fault.message, payload=payload, retry_after_s=fault.retry_after_s, close=close)
