"""One record an exchange: who, where to, how it went. No body, no query, no secret."""

from typing import Final

from aiohttp import web
from multidict import istr

from gateway import clock
from gateway.records.exchange import Exchange
from gateway.records.timing import Timing
from gateway.services import SERVICES
from middleware.chain import Handler
from middleware.error_shape import MARK
from middleware.facts import CONNECTION, ENVIRONMENT, REQUEST_ID, TIMING, UPSTREAM

# Asked by load balancers every second; they would drown what matters.
PROBES: Final = ("/health", "/ready")
CUT_OFF: Final = 499  # nginx's word for a client that left before its answer
SERVER_TIMING: Final = istr("Server-Timing")
PATH_LIMIT: Final = 1024  # characters; who looks for a request does not need more of it


@web.middleware
async def access_log(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Starts the clock, and notes the exchange once it is over, however it ended."""
    timing = request[TIMING] = Timing(clock.monotonic())
    try:
        response = await handler(request)
    except web.HTTPException as redirect:
        _note(request, timing, redirect.status, _length(redirect), None)
        raise
    except BaseException:  # the task is cancelled: the client has gone
        _note(request, timing, CUT_OFF, 0, "client_left")
        raise
    if not response.prepared and CONNECTION in request:  # ours, in place of the provider's
        response.headers[SERVER_TIMING] = timing.told(clock.monotonic())
    error = "cut" if getattr(response, "cut", False) else response.headers.get(MARK)
    _note(request, timing, response.status, _length(response), error)
    return response


def _length(response: web.StreamResponse) -> int:
    """Bytes that went out, or will."""
    return response.body_length if response.prepared else response.content_length or 0


def _note(request: web.Request, timing: Timing, status: int, bytes_out: int, error: str | None) -> None:
    environment = request.get(ENVIRONMENT)
    opened = request.get(CONNECTION)
    upstream = request.get(UPSTREAM)
    path = (request.raw_path if upstream is None else upstream.target).partition("?")[0]
    if environment is None and error is None and path.endswith(PROBES):
        return
    ref = None if opened is None else opened.connection.ref
    now = clock.monotonic()
    services = request.app[SERVICES]
    if ref is None:
        services.metrics.request(request.method, status)
    else:
        gateway_s = timing.gateway_s or now - timing.began - timing.token_s - timing.upstream_s
        ours = error is not None and error != "cut"
        services.metrics.exchange(ref[:2], request.method, status, ours, gateway_s, timing.token_s, timing.upstream_s)
    services.request_log.note(
        Exchange(
            at=clock.now(),
            request_id=request[REQUEST_ID],
            environment="" if environment is None else environment.name,
            integration_id="" if ref is None else ref.integration_id,
            connection_id="" if ref is None else ref.connection_id,
            method=request.method,
            host="" if upstream is None else upstream.host,
            path=path[:PATH_LIMIT],
            status=status,
            duration_ms=round((now - timing.began) * 1000, 3),
            bytes_in=request.content.total_bytes,
            bytes_out=bytes_out,
            error_code=error,
        )
    )
