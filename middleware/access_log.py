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
        note(request, response, (clock.monotonic() - started) * 1000)


def note(request: web.Request, response: web.StreamResponse | None, duration_ms: float) -> None:
    """Log it, and queue it for the store. `response` None: the exchange was cut off, which is status 499."""
    environment = request.get(ENVIRONMENT)
    connection = request.get(CONNECTION)
    upstream = request.get(UPSTREAM)
    ref = connection.connection.ref if connection else None
    path = request.raw_path.partition("?")[0]
    exchange = Exchange(
        at=clock.now(),
        request_id=request[REQUEST_ID],
        environment=environment.name if environment else None,
        integration_id=ref.integration_id if ref else None,
        connection_id=ref.connection_id if ref else None,
        method=request.method,
        host=upstream.host if upstream else None,
        path=path,
        status=response.status if response is not None else 499,
        duration_ms=round(duration_ms, 3),
        bytes_in=request.content.total_bytes if request.can_read_body or request.content.total_bytes else 0,
        bytes_out=response.body_length if response is not None and response.prepared else 0,
        error_code=response.headers.get(MARK) if response is not None else None,
    )
    request.app[SERVICES].request_log.note(exchange)
    log.info(
        "request",
        request_id=exchange.request_id,
        environment=exchange.environment,
        integration=exchange.integration_id,
        connection_id=exchange.connection_id,
        method=exchange.method,
        path=path,
        status=exchange.status,
        duration_ms=exchange.duration_ms,
        error=exchange.error_code,
    )
