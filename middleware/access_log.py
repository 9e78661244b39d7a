"""One record an exchange: who, where to, how it went. No body, no query, no secret."""

from typing import Final

import structlog
from aiohttp import web

from gateway import clock
from gateway.records.exchange import Exchange
from gateway.services import SERVICES
from middleware.chain import Handler
from middleware.error_shape import MARK
from middleware.facts import CONNECTION, ENVIRONMENT, REQUEST_ID, UPSTREAM

# Asked by load balancers every second; they would drown what matters.
SILENT: Final = frozenset({"/health", "/ready"})
CUT_OFF: Final = 499  # nginx's word for a client that left before its answer

log = structlog.get_logger("access")


@web.middleware
async def access_log(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Starts the clock, and notes the exchange once it is over, however it ended."""
    if request.path in SILENT:
        return await handler(request)
    started = clock.monotonic()
    response: web.StreamResponse | None = None
    try:
        response = await handler(request)
        return response
    finally:
        _note(request, response, round((clock.monotonic() - started) * 1000, 3))


def _note(request: web.Request, response: web.StreamResponse | None, duration_ms: float) -> None:
    path = request.raw_path.partition("?")[0]
    status = response.status if response is not None else CUT_OFF
    error_code = response.headers.get(MARK) if response is not None else None
    environment = request.get(ENVIRONMENT)
    opened = request.get(CONNECTION)
    ref = opened.connection.ref if opened else None
    if ref is not None:
        upstream = request.get(UPSTREAM)
        request.app[SERVICES].request_log.note(
            Exchange(
                at=clock.now(),
                request_id=request[REQUEST_ID],
                environment=ref.environment,
                integration_id=ref.integration_id,
                connection_id=ref.connection_id,
                method=request.method,
                host=upstream.host if upstream else "",
                path=path,
                status=status,
                duration_ms=duration_ms,
                bytes_in=request.content.total_bytes,
                bytes_out=response.body_length if response is not None and response.prepared else 0,
                error_code=error_code,
            )
        )
    log.info(
        "request",
        request_id=request[REQUEST_ID],
        environment=environment.name if environment else None,
        integration=ref.integration_id if ref else None,
        connection_id=ref.connection_id if ref else None,
        method=request.method,
        path=path,
        status=status,
        duration_ms=duration_ms,
        error=error_code,
    )
