"""Writes one record per request, with the caller, the target and the result.

Requests without a route are recorded too.
"""

from contextlib import suppress
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware as AiohttpMiddleware
from multidict import istr

from gateway import clock
from gateway.errors import InvalidRequest
from gateway.http import proxy_options
from gateway.http.passed_head import ATTEMPTS, SERVER_TIMING, server_timing
from gateway.middleware.chain import Handler, Middleware
from gateway.middleware.facts import (
    CALLER,
    CAPABILITY,
    CONNECTION,
    ENVIRONMENT,
    PROXY_OPTIONS,
    REQUEST_ID,
    RULE,
    TIMING,
    TOOL,
    TRACE,
    UPSTREAM,
    handover_of,
    request_trace_id,
)
from gateway.middleware.response_shape import ERROR_HEADER, error_shape
from gateway.middleware.who_calls import mask_keys, mask_secrets_in_path
from gateway.observe.logs import current_trace_id
from gateway.records.connection import ConnectionRef
from gateway.records.proxied_call import PROXY_PATH, CallTiming, ExchangeRecord
from gateway.records.trace import current_trace, logged_traceparent
from gateway.runtime import RUNTIME

# Load balancers request these paths every second. Records of these requests would hide all other records.
PROBES: Final = ("/health", "/ready")
UNLOGGED_PROBE_ERRORS: Final = (None, "not_ready")
# Recorded if the client closed the connection before the response; nginx records the same status.
CLIENT_CLOSED_STATUS: Final = 499
# Recorded if the gateway stops before the response; the client would have received this status.
STOPPED_STATUS: Final = 503
TRACEPARENT: Final = istr("traceparent")
MAX_PATH_CHARS: Final = 1024  # maximum length of a logged path in characters


@web.middleware
async def access_log(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set TIMING, and record the request when it ends, whatever its result."""
    timing = request[TIMING] = CallTiming(clock.monotonic())
    _begin_trace(request, timing)
    try:
        response = await handler(request)
    except web.HTTPException as redirect:
        _record_exchange(request, timing, redirect.status, _length(redirect), None)
        raise
    except BaseException:  # the task is cancelled: the client disconnected, or the gateway closed the connection
        status, error = unfinished_result(stopped=_server_stopped(request))
        _record_exchange(request, timing, status, 0, error)
        raise
    if timing.proxied and not response.prepared:  # the gateway's error is sent instead of the provider's response
        timing.head_at = now = clock.monotonic()
        response.headers[SERVER_TIMING] = server_timing(*_split_ms(timing, now))
        if timing.attempts:
            response.headers[ATTEMPTS] = str(timing.attempts)
    _record_exchange(request, timing, response.status, _length(response), _error_code(request, response))
    return response


@web.middleware
async def proxied(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Mark the request as proxied, so that the call log has it even if the key's scope or rate limit refuses it."""
    request[TIMING].proxied = True
    return await handler(request)


def _begin_trace(request: web.Request, timing: CallTiming) -> None:
    """Set TRACE if the request is sampled. A request that the fast path handed over already has a trace."""
    tracing = request.app[RUNTIME].tracing
    trace = None
    if tracing is not None:
        handover = handover_of(request)
        trace = tracing.begin(request.headers.get(TRACEPARENT), timing.began) if handover is None else handover.trace
    current_trace.set(trace)  # set even if None, because requests on one connection share a context
    if trace is not None:
        request[TRACE] = trace
        resource = request.match_info.route.resource
        trace.route = None if resource is None else resource.canonical
    current_trace_id.set(request_trace_id(request))


def unfinished_result(*, stopped: bool) -> tuple[int, str]:
    """Return the status and the error code to record for a request that got no complete response.

    `stopped`: whether the gateway closed the connection, because the gateway stops; otherwise the client closed it.
    """
    return (STOPPED_STATUS, "stopped") if stopped else (CLIENT_CLOSED_STATUS, "client_left")


def _length(response: web.StreamResponse) -> int:
    """Return the number of bytes of the response body that were sent or will be sent."""
    return response.body_length if response.prepared else response.content_length or 0


def _error_code(request: web.Request, response: web.StreamResponse) -> str | None:
    if getattr(response, "cut", False):
        return "stopped" if _server_stopped(request) else "cut"
    return getattr(response, "trailer_error", None) or response.headers.get(ERROR_HEADER)


def _server_stopped(request: web.Request) -> bool:
    """Return whether the gateway's own server has cut the connection at the end of its drain."""
    return getattr(request.protocol, "stopped", False)


def logged_path(base_path: str, target: str) -> str:
    """Return the requested path for the log. A key or capability that a client put into the path by mistake is masked.

    The base path is removed, because it comes from the catalog entry and can contain a secret setting.
    """
    path = target.removeprefix(base_path).partition("?")[0]
    return mask_keys(path)[:MAX_PATH_CHARS]


def _refused_path(request: web.Request, timing: CallTiming) -> str:
    """Return the path to log for a request that failed before the gateway knew its provider URL.

    A proxied path is returned without its prefix ``/proxy`` or ``/c/<capability>``.
    """
    target = mask_secrets_in_path(request.raw_path)
    if not timing.proxied:
        return target
    if CAPABILITY in request:
        return "/" + target.partition("/c/")[2].partition("/")[2]
    return target.partition(PROXY_PATH)[2] or "/"


def _named_connection(request: web.Request, timing: CallTiming) -> ConnectionRef | None:
    """Return the connection that the request names; None if the request names no connection.

    The record has this connection even if the request failed before the connection was opened, so that a search of the
    call log by connection finds the request.
    """
    options = request.get(PROXY_OPTIONS)
    if options is None and timing.proxied:  # the request was refused before its options were read
        capability = request.get(CAPABILITY)
        with suppress(InvalidRequest):
            options = proxy_options.parse_proxy_options(
                request.headers, capability.ref[1:] if capability is not None else None
            )
    if options is None:
        return None
    integration_id, connection_id = mask_keys(options.integration_id), mask_keys(options.connection_id)
    return ConnectionRef(request[ENVIRONMENT].name, integration_id, connection_id)


def _split_ms(timing: CallTiming, now: float) -> tuple[float, float, float]:
    """Return the milliseconds spent in the gateway, on the wait for a token, and on the wait for the provider."""
    return timing.gateway_s(now) * 1000, timing.token_s * 1000, timing.upstream_s * 1000


def _key_id(request: web.Request) -> int | None:
    caller = request.get(CALLER)
    return None if caller is None or caller.key is None else caller.key.id


def _record_exchange(request: web.Request, timing: CallTiming, status: int, bytes_out: int, error: str | None) -> None:
    environment = request.get(ENVIRONMENT)
    opened = request.get(CONNECTION)
    upstream = request.get(UPSTREAM)
    base_path, target = (
        ("", _refused_path(request, timing)) if upstream is None else (upstream.base_path, upstream.target)
    )
    path = logged_path(base_path, target)
    if environment is None and error in UNLOGGED_PROBE_ERRORS and path.endswith(PROBES):
        return
    ref = opened.connection.ref if opened is not None else _named_connection(request, timing)
    now = clock.monotonic()
    gateway_ms, token_ms, upstream_ms = _split_ms(timing, now) if timing.proxied else (None, None, None)
    request.app[RUNTIME].call_queue.record(
        ExchangeRecord(
            at=clock.now(),
            request_id=request[REQUEST_ID],
            environment="" if environment is None else environment.name,
            integration_id="" if ref is None else ref.integration_id,
            connection_id="" if ref is None else ref.connection_id,
            method=request.method,
            host="" if upstream is None else upstream.host,
            path=path,
            status=status,
            duration_ms=round((now - timing.began) * 1000, 3),
            bytes_in=request.content.total_bytes,
            bytes_out=bytes_out,
            error_code=error,
            gateway_ms=gateway_ms,
            token_ms=token_ms,
            upstream_ms=upstream_ms,
            key_id=_key_id(request),
            traceparent=logged_traceparent(request.get(TRACE), request.headers.get(TRACEPARENT)),
            rule=request.get(RULE),
            attempts=timing.attempts,
            trace=request.get(TRACE),
            tool=request.get(TOOL),
            dry_run=(options := request.get(PROXY_OPTIONS)) is not None and options.dry_run,
        )
    )


# ── Requests without a route are recorded too, so that a wrong path or method can be found in the log.


def unrouted(handle_unrouted: Middleware) -> AiohttpMiddleware:
    """Return a middleware that records requests without a route, for an application with only the gateway.

    All other requests are recorded by the middleware chains of their routes. `handle_unrouted`: a middleware that is
    called for each request without a route, with the handler that refuses the request.
    """

    @web.middleware
    async def record_unrouted(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.match_info.http_exception is None:
            return await handler(request)

        async def refuse(request: web.Request) -> web.StreamResponse:
            return await handle_unrouted(request, handler)

        return await access_log(request, lambda request: error_shape(request, refuse))

    return record_unrouted
