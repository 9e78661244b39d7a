"""Errors that the middleware chain does not see: for a connection above the limit, and for a request that cannot be read.

All responses have the gateway's error format. A refused request is recorded in the call log and the metrics; a refused
connection is only counted (`GatewayServer.count_refused_connection`).
"""

import json

import structlog
from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time

from gateway import clock
from gateway.errors import GatewayError, Unavailable
from gateway.middleware.access_log import MAX_PATH_CHARS
from gateway.middleware.facts import REQUEST_ID
from gateway.middleware.response_shape import (
    ERROR_HEADER,
    REQUEST_ID_FIELD,
    error_response,
    has_begun_response,
    new_id,
    unhandled_error,
)
from gateway.middleware.who_calls import mask_secrets_in_path
from gateway.records.proxied_call import ExchangeRecord
from gateway.runtime import RUNTIME

log = structlog.get_logger(__name__)


def connections_full_response() -> bytes:
    """Return the response to a connection above `server.limits.connections`. The gateway does not read the request."""
    fault = Unavailable("busy", "Too many open connections (server.limits.connections). Try again.")
    body = json.dumps({"error": fault.as_json()}).encode()
    lines = (
        "HTTP/1.1 503 Service Unavailable",
        "Content-Type: application/json; charset=utf-8",
        f"Content-Length: {len(body)}",
        f"{ERROR_HEADER}: {fault.code}",
        f"{REQUEST_ID_FIELD}: {new_id()}",
        "Cache-Control: no-store",
        "Retry-After: 1",
        "Connection: close",
        f"Date: {rfc822_formatted_time()}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def response_outside_chain(
    app: web.Application, request: web.BaseRequest, exc: BaseException | None
) -> web.StreamResponse | None:
    """Return the response for a refusal, or for an exception that the middleware chain did not handle, and log it.

    Return None if part of a response has been sent already.
    """
    if REQUEST_ID not in request:
        request[REQUEST_ID] = new_id()
    fault = exc if isinstance(exc, GatewayError) else unhandled_error(request[REQUEST_ID])
    if fault is exc:
        log.info("refused", request_id=request[REQUEST_ID], status=fault.status, error=fault.code)
    else:
        log.error("unhandled_outside_the_chain", request_id=request[REQUEST_ID], exc_info=exc)
    if has_begun_response(request):
        return None
    response = error_response(request, fault)
    response.force_close()
    if fault is exc:
        _record_refusal(app, request, fault, response)
    return response


def _record_refusal(
    app: web.Application, request: web.BaseRequest, refusal: GatewayError, response: web.StreamResponse
) -> None:
    """Record the refusal in the call log and the metrics, for an unreadable request without method and path."""
    runtime = app.get(RUNTIME)
    if runtime is None:  # the gateway is mounted below another application
        return
    is_readable = request.method != "UNKNOWN"  # aiohttp's method for an unreadable request
    runtime.call_queue.record(
        ExchangeRecord(
            at=clock.now(),
            request_id=request[REQUEST_ID],
            environment="",
            integration_id="",
            connection_id="",
            method=request.method if is_readable else "",
            host="",
            path=mask_secrets_in_path(request.raw_path).partition("?")[0][:MAX_PATH_CHARS] if is_readable else "",
            status=refusal.status,
            duration_ms=0.0,
            bytes_in=0,
            bytes_out=response.content_length or 0,
            error_code=refusal.code,
        )
    )
