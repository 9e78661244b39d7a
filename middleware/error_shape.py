"""The only place where an exception becomes a response (docs/compatibility.md#errors)."""

from typing import Final

import structlog
from aiohttp import hdrs, web
from multidict import istr

from gateway.errors import BodyTooLarge, GatewayError, InvalidRequest, MethodNotAllowed, NotFound
from gateway.http.abort import cut
from gateway.middleware.chain import Handler
from gateway.middleware.facts import REQUEST_ID, RULE, trace_id_of
from gateway.middleware.key_limits import paced
from gateway.middleware.request_id import named
from gateway.middleware.who_calls import unreferred

MARK: Final = istr("Gateway-Error")
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
        return NotFound("not_found", "No such endpoint. See GET /docs.")
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
