"""Shapes every answer of ours: the name of the exchange, leave for scripts of other origins, and errors in one shape."""

import os
import re
import secrets
from typing import Final

import structlog
from aiohttp import hdrs, web
from multidict import CIMultiDict, istr

from gateway import errors
from gateway.errors import BodyTooLarge, GatewayError, InvalidRequest, MethodNotAllowed, NotFound, NotImplementedHere
from gateway.http.abort import cut
from gateway.middleware.chain import Handler
from gateway.middleware.facts import REQUEST_ID, RULE, trace_id_of
from gateway.middleware.key_limits import paced
from gateway.middleware.who_calls import unreferred
from gateway.records.operation import request_in_hand

# ── Names the exchange: the caller's X-Request-Id if it is fit to be logged, else one of ours.

FIT: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
GIVEN: Final = istr("X-Request-Id")
REQUEST_ID_FIELD: Final = istr("Gateway-Request-Id")


@web.middleware
async def request_id(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set REQUEST_ID, and put it on the answer; one that is streamed gets it where it is prepared, by `named`."""
    if REQUEST_ID not in request:  # an application that is ours altogether has been here already
        request[REQUEST_ID] = fit(request.headers.get(GIVEN)) or new_id()
    request_in_hand.set(request[REQUEST_ID])
    try:
        response = await handler(request)
    except web.HTTPException as fault:  # a redirect: the only one that `error_shape` lets through
        named(fault, request)
        raise
    return response if response.prepared else named(response, request)


def fit(given: str | None) -> str | None:
    """The caller's own name for the exchange, if it can be logged as it is."""
    return given if given is not None and FIT.fullmatch(given) else None


def new_id() -> str:
    """96 random bits in hex: enough to be alone in any log. Drawn by the hundred, since each draw asks the kernel."""
    if not _drawn:
        drawn = secrets.token_hex(12 * 128)
        _drawn.extend(drawn[at : at + 24] for at in range(0, len(drawn), 24))
    return _drawn.pop()


_drawn: Final[list[str]] = []
os.register_at_fork(after_in_child=_drawn.clear)  # otherwise two workers would give the same names


def named(response: web.StreamResponse, request: web.BaseRequest) -> web.StreamResponse:
    """`response`, carrying the exchange's name; to be called before it is prepared."""
    response.headers[REQUEST_ID_FIELD] = request[REQUEST_ID]
    return response


# ── Scripts in browsers: any origin may read what our API answers, and none may have a browser add credentials to it.
#
# There is no ambient authority: without the key, which a script must have been given, every answer is a 401. So the
# bare wildcard is all there is (Fetch standard, §3.2.3). Pages for end users and operators stay without it.

READABLE: Final = {hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: "*", hdrs.ACCESS_CONTROL_EXPOSE_HEADERS: "*"}
# Without the other headers of proxied calls: a secret key does not belong in a browser (docs/compatibility.md#requests).
PREFLIGHT: Final = {
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
    """204 for a CORS preflight, which carries no key; any other answer, errors too, may be read from any origin.

    One that is streamed is made so where it is prepared, by `readable`.
    """
    if hdrs.ORIGIN not in request.headers:
        return await handler(request)
    if is_preflight(request):
        return web.Response(status=204, headers=PREFLIGHT)
    response = await handler(request)
    if not response.prepared:
        readable(request, response.headers)
    return response


def is_preflight(request: web.Request) -> bool:
    """Any other OPTIONS is the provider's, or asks us which methods there are."""
    return (
        request.method == hdrs.METH_OPTIONS
        and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
        and hdrs.AUTHORIZATION not in request.headers
    )


def readable(request: web.Request, headers: CIMultiDict[str]) -> None:
    """Let a script that asked from another origin read the answer with these headers."""
    if hdrs.ORIGIN in request.headers:
        headers.update(READABLE)


# ── The only place where an exception becomes a response (docs/compatibility.md#errors).

MARK: Final = istr(errors.MARK)
# The first segment of what the SDKs of Nango call and the gateway lacks (docs/compatibility.md#not-here).
_NOT_OFFERED: Final = frozenset({"records", "sync", "action", "scripts"})
SYNCS_NOT_OFFERED: Final = (
    "Syncs, actions and records are not offered: the gateway authorizes and proxies. Call the provider's API by /proxy, or "
    "receive its webhooks."
)
CHALLENGE: Final = 'Bearer realm="gateway"'  # which key would do (RFC 9110 §11.6.1, for 403 too)

log = structlog.get_logger(__name__)


@web.middleware
async def error_shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers in our shape for what was raised; what cannot be answered any more cuts the client's connection."""
    try:
        return await handler(request)
    except GatewayError as fault:
        shaped = fault
    except web.HTTPException as fault:
        if fault.status < 400:
            raise
        shaped = of_http(request, fault)
    except web.RequestPayloadError:
        shaped = broken_body()
    except Exception as fault:
        if isinstance(fault, ConnectionError) and (request.transport is None or request.transport.is_closing()):
            raise  # the client has gone: there is nobody to answer
        log.exception("unhandled", request_id=request[REQUEST_ID], method=request.method)
        shaped = unhandled(request[REQUEST_ID])
    if shaped.payload is not None and isinstance(rule := shaped.payload.get("rule"), str):
        request[RULE] = rule
    return unreferred(paced(answer(request, shaped), request), request)


def answer(request: web.BaseRequest, fault: GatewayError) -> web.StreamResponse:
    """`fault` as a response, or a cut connection where another answer has begun to leave. Needs REQUEST_ID."""
    if request.writer.output_size > 0:
        cut(request.transport)
    response = refusal(fault, trace_id_of(request))
    if fault.close or hdrs.EXPECT in request.headers or not request.content.is_eof():
        # After a refused Expect the client may send its body or not; the rest of any other body is not read.
        response.force_close()
    return named(response, request)


def refusal(fault: GatewayError, trace_id: str | None) -> web.Response:
    """`fault` as a response, without what is of its request: the request's id, and whether the connection ends."""
    shape = fault.as_json()
    if trace_id is not None:
        shape["trace_id"] = trace_id
    response = web.json_response({"error": shape}, status=fault.status, headers=fault.headers)
    response.headers[MARK] = fault.code
    response.headers[hdrs.CACHE_CONTROL] = "no-store"
    if fault.retry_after_s is not None:
        response.headers[hdrs.RETRY_AFTER] = str(fault.retry_after_s)
    if fault.status in (401, 403):
        response.headers.setdefault(hdrs.WWW_AUTHENTICATE, CHALLENGE)
    return response


def of_http(request: web.Request, fault: web.HTTPException) -> GatewayError:
    """aiohttp's own refusals, of its router and its body reader, in our words."""
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
        return unhandled(request[REQUEST_ID])
    return InvalidRequest("bad_framing", f"This request cannot be taken: {fault.reason}.", close=True)


def broken_body() -> GatewayError:
    return InvalidRequest("bad_framing", "The request's body broke off or was framed wrongly.", close=True)


class Unhandled(GatewayError):
    """A fault of ours; it reveals the request's id and nothing else."""

    status = 500


def unhandled(request_id: str) -> GatewayError:
    return Unhandled(
        "generic_error_support",
        "The gateway failed. Its log has the details under this request id.",
        payload={"request_id": request_id},
        close=True,
    )
