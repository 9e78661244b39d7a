"""Shapes the gateway's responses: adds the request id and CORS headers, and gives all errors one format."""

import os
import re
import secrets
from typing import Any, Final

import structlog
from aiohttp import hdrs, web
from multidict import CIMultiDict, MultiMapping, istr

from gateway import errors
from gateway.errors import BodyTooLarge, GatewayError, InvalidRequest, MethodNotAllowed, NotFound, NotImplementedHere
from gateway.http.abort import abort_connection
from gateway.middleware.chain import Handler
from gateway.middleware.facts import REQUEST_ID, RULE, request_trace_id
from gateway.middleware.key_limits import add_rate_limit_headers
from gateway.middleware.who_calls import mask_keys, with_referrer_policy
from gateway.records.operation import current_request_id

# ── The request id: the caller's X-Request-Id if it can be logged unchanged, else a new id.

LOGGABLE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
CALLER_REQUEST_ID: Final = istr("X-Request-Id")
REQUEST_ID_FIELD: Final = istr("Gateway-Request-Id")


@web.middleware
async def request_id(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set REQUEST_ID and add it to the response.

    A handler that streams its response calls `add_request_id` itself, before it prepares the response.
    """
    if REQUEST_ID not in request:  # in an application with only the gateway, an earlier middleware has set the id
        request[REQUEST_ID] = loggable_id(request.headers.get(CALLER_REQUEST_ID)) or new_id()
    current_request_id.set(request[REQUEST_ID])
    try:
        response = await handler(request)
    except web.HTTPException as fault:  # a redirect: `error_shape` converts every other HTTPException
        add_request_id(fault, request)
        raise
    return response if response.prepared else add_request_id(response, request)


def loggable_id(value: str | None) -> str | None:
    """Return the caller's request id if it can be logged unchanged, else None.

    An id that contains a minted key or a capability is not logged.
    """
    if value is None or LOGGABLE_ID.fullmatch(value) is None or mask_keys(value) != value:
        return None
    return value


def new_id() -> str:
    """Return a new request id: 96 random bits in hex.

    Ids are made 128 at a time, because reading random bits is a system call.
    """
    if not _unused_ids:
        random_hex = secrets.token_hex(12 * 128)
        _unused_ids.extend(random_hex[start : start + 24] for start in range(0, len(random_hex), 24))
    return _unused_ids.pop()


_unused_ids: Final[list[str]] = []
os.register_at_fork(after_in_child=_unused_ids.clear)  # otherwise two workers would use the same ids


def add_request_id(response: web.StreamResponse, request: web.BaseRequest) -> web.StreamResponse:
    """Add the request id to `response`, and return `response`. Call this function before the response is prepared."""
    response.headers[REQUEST_ID_FIELD] = request[REQUEST_ID]
    return response


# ── CORS: scripts from any origin may read the responses of the gateway's API.
#
# This permission is safe (Fetch standard, §3.2.3), because a browser never adds a key by itself. A script must already
# have a key; without a key, every response is a 401. Pages for end users and operators do not send these headers.

CORS_HEADERS: Final = {hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*", hdrs.ACCESS_CONTROL_EXPOSE_HEADERS: "*"}
# Other request headers of proxied calls are missing on purpose. Proxied calls need a secret key, and a secret key must
# not be used in a browser (docs/compatibility.md#requests).
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
    """Respond to a CORS preflight with 204, without checking a key. Let any origin read all other responses, including errors.

    A handler that streams its response calls `add_cors_headers` itself, before it prepares the response.
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
    """Return whether the request is a CORS preflight.

    Any other OPTIONS request is meant for the provider, or asks which methods an endpoint of the gateway has.
    """
    return (
        request.method == hdrs.METH_OPTIONS
        and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
        and hdrs.AUTHORIZATION not in request.headers
    )


def add_cors_headers(request: web.Request, headers: CIMultiDict[str]) -> None:
    """Add the CORS headers that let a script from another origin read the response.

    Add nothing if the request has no Origin.
    """
    if hdrs.ORIGIN in request.headers:
        headers.update(CORS_HEADERS)


# ── The only place where an exception becomes a response (docs/compatibility.md#errors).

ERROR_HEADER: Final = istr(errors.ERROR_HEADER)
# Endpoints that the Nango SDKs call, but that the gateway does not have (docs/compatibility.md#not-available-here).
_SYNC_PATHS: Final = re.compile(
    r"/(?:records|sync|action|scripts|functions)(?:/.*)?|/integrations/[^/]+/functions(?:/.*)?|/providers/[^/]+/templates"
)
SYNCS_NOT_OFFERED: Final = (
    "Syncs, actions and records are not offered: the gateway authorizes and proxies. Call the provider's API by "
    "/proxy, or receive its webhooks."
)
_QUICKSTART_PATH: Final = "/integrations/quickstart"
QUICKSTART_NOT_OFFERED: Final = (
    "OAuth apps of Nango are not offered. Register your own app at the provider, and send its client ID and secret to "
    "POST /integrations."
)
JSON_RPC_CODE: Final = -32010  # from the range that MCP reserves for implementations; MCP SDKs use -32000 and -32001
CHALLENGE: Final = 'Bearer realm="gateway"'  # tells the client to send a bearer key (RFC 9110 §11.6.1), also with 403

log = structlog.get_logger(__name__)


@web.middleware
async def error_shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn exceptions into responses in the gateway's format; cut the client's connection if a response has already
    begun.

    Redirects are raised again, and so is a ConnectionError after the client has disconnected.
    """
    try:
        return await handler(request)
    except GatewayError as fault:
        error = fault
    except web.HTTPException as fault:
        if fault.status < 400:
            raise
        error = convert_http_exception(request, fault)
    except web.RequestPayloadError:
        error = broken_body_error()
    except Exception as fault:
        if isinstance(fault, ConnectionError) and (request.transport is None or request.transport.is_closing()):
            raise  # the client has disconnected: nobody would receive a response
        log.exception("unhandled", request_id=request[REQUEST_ID], method=request.method)
        error = unhandled_error(request[REQUEST_ID])
    if error.payload is not None and isinstance(rule := error.payload.get("rule"), str):
        request[RULE] = rule
    return with_referrer_policy(add_rate_limit_headers(error_response(request, error), request), request)


def has_begun_response(request: web.BaseRequest) -> bool:
    """Return whether a response was begun: bytes of it were sent, or its head waits for the first piece of the body."""
    writer = request.writer
    return writer.output_size > 0 or bool(getattr(writer, "_headers_buf", None))


def error_response(request: web.BaseRequest, fault: GatewayError) -> web.StreamResponse:
    """Return `fault` as a response; cut the client's connection if another response has already begun.

    REQUEST_ID must be set.
    """
    if has_begun_response(request):
        abort_connection(request.transport)
    response = refusal_response(fault, request_trace_id(request), json_rpc=is_from_mcp_client(request))
    if fault.close or hdrs.EXPECT in request.headers or not request.content.is_eof():
        # The connection is closed because the gateway does not read the rest of the body. After a refused Expect, the
        # client can still decide to send its body.
        response.force_close()
    return add_request_id(response, request)


def refusal_response(fault: GatewayError, trace_id: str | None, *, json_rpc: bool = False) -> web.Response:
    """Return `fault` as a response, without the request id and without Connection: close, which depend on the request.

    `trace_id`: the trace id for the body; None: no trace id. `json_rpc`: whether the body is a JSON-RPC error. The
    member ``data`` of a JSON-RPC error contains all members of the gateway's format except the message.
    """
    error = fault.as_json()
    if trace_id is not None:
        error["trace_id"] = trace_id
    body: dict[str, Any] = {"error": error}
    if json_rpc:
        json_rpc_error = {"code": JSON_RPC_CODE, "message": error.pop("message"), "data": error}
        body = {"jsonrpc": "2.0", "id": None, "error": json_rpc_error}
    response = web.json_response(body, status=fault.status, headers=fault.headers)
    response.headers[ERROR_HEADER] = fault.code
    response.headers[hdrs.CACHE_CONTROL] = "no-store"
    if fault.retry_after_s is not None:
        response.headers[hdrs.RETRY_AFTER] = str(fault.retry_after_s)
    if fault.status in (401, 403):
        response.headers.setdefault(hdrs.WWW_AUTHENTICATE, CHALLENGE)
    return response


def is_from_mcp_client(request: web.BaseRequest) -> bool:
    """Return whether the request comes from a client of MCP's Streamable HTTP transport.

    Such a client accepts JSON and server-sent events. The path of the request ends in ``/mcp``, or a header names the
    MCP revision. The request goes to the MCP endpoint or to a provider's own MCP server. These clients show an error with
    a status other than 2xx only if the body is a JSON-RPC error.
    """
    return (
        request.method == hdrs.METH_POST
        and accepts_stream(accept_of(request.headers))
        and (request.path.endswith("/mcp") or "MCP-Protocol-Version" in request.headers)
    )


def accept_of(headers: MultiMapping[str]) -> str | None:
    """Return the value of Accept; None if the client did not send it. Several such fields are one list (RFC 9110 §5.3)."""
    return ", ".join(headers.getall(hdrs.ACCEPT, ())) or None


def accepts_stream(accept: str | None) -> bool:
    """Return whether the client accepts JSON and server-sent events, which MCP requires of its clients.

    `accept`: the value of the header Accept; None if the client did not send the header.
    """
    lower = (accept or "").lower()
    return "text/event-stream" in lower and "application/json" in lower


def convert_http_exception(request: web.Request, fault: web.HTTPException) -> GatewayError:
    """Convert an error of aiohttp's router or body reader into one of the gateway's errors.

    `fault`: the error of aiohttp, with a status of 400 or above.
    """
    if isinstance(fault, web.HTTPMethodNotAllowed):
        if (request.method, request.path) == (hdrs.METH_POST, _QUICKSTART_PATH):
            return NotImplementedHere("not_offered", QUICKSTART_NOT_OFFERED)
        allowed = ", ".join(sorted(fault.allowed_methods))
        return MethodNotAllowed(
            "method_not_allowed",
            f"This endpoint does not support {request.method}, only {allowed}.",
            headers={hdrs.ALLOW: allowed},
        )
    if isinstance(fault, web.HTTPNotFound):
        if _SYNC_PATHS.fullmatch(request.path):
            return NotImplementedHere("not_offered", SYNCS_NOT_OFFERED)
        return NotFound(
            "not_found", "No such endpoint. Calls to a provider begin with /proxy/; GET /docs lists all endpoints."
        )
    if isinstance(fault, web.HTTPRequestEntityTooLarge):
        return BodyTooLarge("body_too_large", "The body is too large. This endpoint accepts at most 1 MiB.", close=True)
    if fault.status >= 500:
        return unhandled_error(request[REQUEST_ID])
    return InvalidRequest("bad_framing", f"The gateway cannot read this request: {fault.reason}.", close=True)


def broken_body_error() -> GatewayError:
    return InvalidRequest("bad_framing", "The request's body is incomplete or framed wrongly.", close=True)


class UnhandledError(GatewayError):
    """An unexpected fault in the gateway. The response contains only the request id; the log has the details."""

    status = 500


def unhandled_error(request_id: str) -> GatewayError:
    return UnhandledError(
        "generic_error_support",
        "The gateway failed. Its log has the details under this request id.",
        payload={"request_id": request_id},
        close=True,
    )
