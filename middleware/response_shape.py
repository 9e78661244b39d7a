"""Shapes every response of ours: the request id, CORS headers, and one format for errors."""

import os
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

import structlog
from aiohttp import hdrs, web
from multidict import CIMultiDict, istr

from gateway import errors
from gateway.errors import BodyTooLarge, GatewayError, InvalidRequest, MethodNotAllowed, NotFound, NotImplementedHere
from gateway.http.abort import abort_connection
from gateway.middleware.chain import Handler
from gateway.middleware.facts import REQUEST_ID, RULE, trace_id_of
from gateway.middleware.key_limits import add_pace_headers
from gateway.middleware.who_calls import with_referrer_policy
from gateway.records.operation import current_request_id

# ── The request id: the caller's X-Request-Id if it is fit for a log, else a new one.

LOGGABLE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
CALLER_REQUEST_ID: Final = istr("X-Request-Id")
REQUEST_ID_FIELD: Final = istr("Gateway-Request-Id")


@web.middleware
async def request_id(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set REQUEST_ID and add it to the response. A handler that streams calls `add_request_id` itself, before it
    prepares the response."""
    if REQUEST_ID not in request:  # the middlewares of an application with only the gateway have set it already
        request[REQUEST_ID] = loggable_id(request.headers.get(CALLER_REQUEST_ID)) or new_id()
    current_request_id.set(request[REQUEST_ID])
    try:
        response = await handler(request)
    except web.HTTPException as fault:  # a redirect: the only HTTPException that `error_shape` lets through
        add_request_id(fault, request)
        raise
    return response if response.prepared else add_request_id(response, request)


def loggable_id(given: str | None) -> str | None:
    """Return the caller's request id if it can be logged unchanged, else None."""
    return given if given is not None and LOGGABLE_ID.fullmatch(given) else None


def new_id() -> str:
    """Return 96 random bits in hex, unique in any log.
    They are drawn 128 at a time, since each draw is a system call."""
    if not _unused_ids:
        drawn = secrets.token_hex(12 * 128)
        _unused_ids.extend(drawn[at : at + 24] for at in range(0, len(drawn), 24))
    return _unused_ids.pop()


_unused_ids: Final[list[str]] = []
os.register_at_fork(after_in_child=_unused_ids.clear)  # otherwise two workers would return the same ids


def add_request_id(response: web.StreamResponse, request: web.BaseRequest) -> web.StreamResponse:
    """Add the request id to `response` and return it; call this before the response is prepared."""
    response.headers[REQUEST_ID_FIELD] = request[REQUEST_ID]
    return response


# ── Scripts in browsers: any origin may read our API's responses, and no origin can make a browser add credentials.
#
# A browser cannot authorize such a request by itself: without a key, which somebody gave to the script, every response
# is a 401. So the bare wildcard is safe (Fetch standard, §3.2.3). Pages for end users and operators do not have it.

CORS_HEADERS: Final = {hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*", hdrs.ACCESS_CONTROL_EXPOSE_HEADERS: "*"}
# The other headers of proxied calls are missing on purpose: a secret key does not belong in a browser
# (docs/compatibility.md#requests).
PREFLIGHT_HEADERS: Final = {
    hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*",
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, HEAD, PUT, PATCH, POST, DELETE",
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: (
        "Authorization, Content-Type, Accept, Origin, X-Requested-With, Nango-Activity-Log-Id, Nango-Is-Dry-Run, "
        "Nango-Is-Sync, Provider-Config-Key, Connection-Id, Sentry-Trace, Baggage"
    ),
    hdrs.ACCESS_CONTROL_MAX_AGE: "600",
}


@web.middleware
async def cors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Return 204 for a CORS preflight, which carries no key; let any origin read every other response, errors included.

    A handler that streams calls `add_cors_headers` itself, before it prepares the response.
    """
    if hdrs.ORIGIN not in request.headers:
        return await handler(request)
    if is_preflight(request):
        return web.Response(status=204, headers=PREFLIGHT_HEADERS)
    response = await handler(request)
    if not response.prepared:
        add_cors_headers(request, response.headers)
    return response


def is_preflight(request: web.Request) -> bool:
    """Return whether this is a CORS preflight. Any other OPTIONS is for the provider, or asks for our methods."""
    return (
        request.method == hdrs.METH_OPTIONS
        and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
        and hdrs.AUTHORIZATION not in request.headers
    )


def add_cors_headers(request: web.Request, headers: CIMultiDict[str]) -> None:
    """Add the CORS headers that let a script from another origin read the response;
    none if the request has no Origin."""
    if hdrs.ORIGIN in request.headers:
        headers.update(CORS_HEADERS)


# ── The only place where an exception becomes a response (docs/compatibility.md#errors).

MARK: Final = istr(errors.MARK)
# First path segments that the Nango SDKs call and the gateway does not offer (docs/compatibility.md#not-here).
_NOT_OFFERED: Final = frozenset({"records", "sync", "action", "scripts"})
SYNCS_NOT_OFFERED: Final = (
    "Syncs, actions and records are not offered: the gateway authorizes and proxies. Call the provider's API by "
    "/proxy, or receive its webhooks."
)
JSON_RPC_CODE: Final = -32010  # of the range that MCP leaves to implementations; the SDKs use -32000 and -32001
CHALLENGE: Final = 'Bearer realm="gateway"'  # names the kind of key that is needed (RFC 9110 §11.6.1, for 403 too)

log = structlog.get_logger(__name__)


@web.middleware
async def error_shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn exceptions into responses in our format; cut the client's connection if a response has already begun.

    Redirects pass, and so does a ConnectionError after the client has disconnected.
    """
    try:
        return await handler(request)
    except GatewayError as fault:
        shaped = fault
    except web.HTTPException as fault:
        if fault.status < 400:
            raise
        shaped = convert_http_exception(request, fault)
    except web.RequestPayloadError:
        shaped = broken_body_error()
    except Exception as fault:
        if isinstance(fault, ConnectionError) and (request.transport is None or request.transport.is_closing()):
            raise  # the client has disconnected: nobody would receive a response
        log.exception("unhandled", request_id=request[REQUEST_ID], method=request.method)
        shaped = unhandled_error(request[REQUEST_ID])
    if shaped.payload is not None and isinstance(rule := shaped.payload.get("rule"), str):
        request[RULE] = rule
    return with_referrer_policy(add_pace_headers(error_response(request, shaped), request), request)


def error_response(request: web.BaseRequest, fault: GatewayError) -> web.StreamResponse:
    """Return `fault` as a response; cut the connection if another response has begun. Needs REQUEST_ID."""
    if request.writer.output_size > 0:
        abort_connection(request.transport)
    response = refusal(fault, trace_id_of(request), json_rpc=is_from_mcp_client(request))
    if fault.close or hdrs.EXPECT in request.headers or not request.content.is_eof():
        # After a refused Expect the client may or may not send its body; the rest of any other body is not read.
        response.force_close()
    return add_request_id(response, request)


def refusal(fault: GatewayError, trace_id: str | None, *, json_rpc: bool = False) -> web.Response:
    """Return `fault` as a response, without the parts that depend on the request: request id, and Connection: close.

    `json_rpc`: the body is a JSON-RPC error, whose ``data`` has the other members of our format.
    """
    shape = fault.as_json()
    if trace_id is not None:
        shape["trace_id"] = trace_id
    body: dict[str, Any] = {"error": shape}
    if json_rpc:
        error = {"code": JSON_RPC_CODE, "message": shape.pop("message"), "data": shape}
        body = {"jsonrpc": "2.0", "id": None, "error": error}
    response = web.json_response(body, status=fault.status, headers=fault.headers)
    response.headers[MARK] = fault.code
    response.headers[hdrs.CACHE_CONTROL] = "no-store"
    if fault.retry_after_s is not None:
        response.headers[hdrs.RETRY_AFTER] = str(fault.retry_after_s)
    if fault.status in (401, 403):
        response.headers.setdefault(hdrs.WWW_AUTHENTICATE, CHALLENGE)
    return response


def is_from_mcp_client(request: web.BaseRequest) -> bool:
    """Return whether a client of MCP's Streamable HTTP has sent this message, to the agent door or to a provider's own
    MCP server: it accepts both kinds of response, and the path ends in ``/mcp`` or the revision is named.

    Such clients show an error of another status than 2xx only if it is a JSON-RPC error.
    """
    return (
        request.method == hdrs.METH_POST
        and accepts_stream(request.headers)
        and (request.path.endswith("/mcp") or "MCP-Protocol-Version" in request.headers)
    )


def accepts_stream(headers: Mapping[str, str]) -> bool:
    """Return whether the client accepts JSON and server-sent events, as MCP demands of its clients."""
    accept = headers.get(hdrs.ACCEPT, "").lower()
    return "text/event-stream" in accept and "application/json" in accept


def convert_http_exception(request: web.Request, fault: web.HTTPException) -> GatewayError:
    """Return aiohttp's own errors, from its router and body reader, as our errors.
    `fault` has a status of 400 or above."""
    if isinstance(fault, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(fault.allowed_methods))
        return MethodNotAllowed(
            "method_not_allowed",
            f"{request.method} is not possible here, only {allowed}.",
            headers={hdrs.ALLOW: allowed},
        )
    if isinstance(fault, web.HTTPNotFound):
        if request.path.partition("/")[2].partition("/")[0] in _NOT_OFFERED:
            return NotImplementedHere("not_offered", SYNCS_NOT_OFFERED)
        return NotFound(
            "not_found", "No such endpoint. A call to a provider begins with /proxy; GET /docs lists the others."
        )
    if isinstance(fault, web.HTTPRequestEntityTooLarge):
        return BodyTooLarge("body_too_large", "Bodies to this API have at most 1 MiB.", close=True)
    if fault.status >= 500:
        return unhandled_error(request[REQUEST_ID])
    return InvalidRequest("bad_framing", f"The gateway cannot read this request: {fault.reason}.", close=True)


def broken_body_error() -> GatewayError:
    return InvalidRequest("bad_framing", "The request's body is incomplete or framed wrongly.", close=True)


class UnhandledError(GatewayError):
    """A fault of ours. The response has only the request's id; the details are in the log."""

    status = 500


def unhandled_error(request_id: str) -> GatewayError:
    return UnhandledError(
        "generic_error_support",
        "The gateway failed. Its log has the details under this request id.",
        payload={"request_id": request_id},
        close=True,
    )
