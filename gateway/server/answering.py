"""What goes to a client: refusals in our shape, and an orderly end of the connection.

Parser errors never reach a middleware; aiohttp would answer them as HTTP/1.0 text that echoes bytes of the request.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiohttp import HttpVersion11, web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.web_protocol import _ErrInfo

from gateway import clock
from gateway.errors import GatewayError, Unavailable
from gateway.records.exchange import Exchange
from gateway.server.reading import StrictReading
from gateway.services import SERVICES
from gateway.wire.cut import cut
from middleware.access_log import PATH_LIMIT
from middleware.capability import masked
from middleware.error_shape import MARK, answer, unhandled
from middleware.facts import REQUEST_ID
from middleware.request_id import HEADER, new_id

if TYPE_CHECKING:
    from gateway.server.runner import GatewayServer

LINGER_S: Final = 2.0  # how long a client may take to read a last answer while it still sends (RFC 9112 §9.6)

log = structlog.get_logger(__name__)


def crowded() -> bytes:
    """The answer to a connection that is one too many, whatever it would have asked for."""
    fault = Unavailable("busy", "As many connections are open here as server.limits.connections allows. Try again.")
    body = json.dumps({"error": fault.as_json()}).encode()
    lines = (
        "HTTP/1.1 503 Service Unavailable",
        "Content-Type: application/json; charset=utf-8",
        f"Content-Length: {len(body)}",
        f"{MARK}: {fault.code}",
        f"{HEADER}: {new_id()}",
        "Cache-Control: no-store",
        "Retry-After: 1",
        "Connection: close",
        f"Date: {rfc822_formatted_time()}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


class Answering(StrictReading):
    """The last answer of a connection is followed by a half-close, so that the client can read it."""

    __slots__ = ("_gone",)

    def __init__(self, server: "GatewayServer", **options: Any) -> None:
        super().__init__(server, **options)
        self._gone: asyncio.Future[None] | None = None  # set while the client is given time to read

    @property
    def idle(self) -> bool:
        return super().idle and self._gone is None

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        super().connection_lost(exc)

    def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> Coroutine[Any, Any, tuple[web.StreamResponse, bool]]:
        if self._deaf or self._server.draining or not request.content.is_eof():
            return self._finish_last(request, resp, start_time)
        return super().finish_response(request, resp, start_time)

    async def _finish_last(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """The answer may be the connection's last: because we stop, or because of what is left of the request's body."""
        if isinstance(resp, web.StreamResponse) and not self._messages and (self._deaf or self._server.draining):
            if resp.prepared and resp.keep_alive and not self._deaf:
                self.head_since = self._loop.time()  # its head left before the stop: a next one may be on its way
            else:
                resp.force_close()
        elif isinstance(resp, web.StreamResponse) and not resp.prepared and not request.content.is_eof():
            resp.force_close()  # nobody wants the rest of the body, and aiohttp would wait for it
        resp, reset = await super().finish_response(request, resp, start_time)
        if not reset and not resp.keep_alive and (self._deaf or not request.content.is_eof()):
            await self._half_close()
        return resp, reset

    async def _half_close(self) -> None:
        """Say that nothing follows, and let the client read it: closing with bytes unread would reset the connection."""
        self._deaf = True
        self._lingering_time = 0.0  # of aiohttp, which would wait for the body and say nothing
        transport = self.transport
        if transport is None or not transport.can_write_eof():
            return
        transport.write_eof()
        self._reading_paused = self._buffer_paused = False
        self._resume_transport_reading()
        self._gone = self._loop.create_future()
        await asyncio.wait([self._gone], timeout=LINGER_S)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,  # noqa: ARG002 (of aiohttp; what was raised says more)
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 (the parser's own words, which quote the request)
    ) -> web.StreamResponse:
        """A refusal, or what escaped the chain, in our shape; an answer that has begun is cut."""
        if REQUEST_ID not in request:
            request[REQUEST_ID] = new_id()
        fault = exc if isinstance(exc, GatewayError) else unhandled(request[REQUEST_ID])
        if fault is exc:
            log.info("refused", request_id=request[REQUEST_ID], status=fault.status, error=fault.code)
        else:
            log.error("unhandled_outside_the_chain", request_id=request[REQUEST_ID], exc_info=exc)
        if request.writer.output_size > 0:
            cut(self.transport)
            raise ConnectionError("an answer has begun to leave")
        response = answer(request, fault)
        response.force_close()
        if fault is exc:
            self._note(request, fault, response)
        return response

    def _note(self, request: web.BaseRequest, refusal: GatewayError, response: web.StreamResponse) -> None:
        """Into the request log and the metrics: no chain has seen it. What could not be read has no method and no path."""
        services = self._server.app.get(SERVICES)
        if services is None:  # a host's application, which has ours somewhere below
            return
        known = request.method != "UNKNOWN"  # of aiohttp's stand-in
        services.request_log.note(
            Exchange(
                at=clock.now(),
                request_id=request[REQUEST_ID],
                environment="",
                integration_id="",
                connection_id="",
                method=request.method if known else "",
                host="",
                path=masked(request.raw_path).partition("?")[0][:PATH_LIMIT] if known else "",
                status=refusal.status,
                duration_ms=0.0,
                bytes_in=0,
                bytes_out=response.content_length or 0,
                error_code=refusal.code,
            )
        )

    def _make_error_handler(self, err_info: _ErrInfo) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            request._version = HttpVersion11  # the stand-in for a request that nobody could read claims 1.0
            return self.handle_error(request, err_info.status, err_info.exc)

        return handler

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """A broken body has been told of already, by whoever read it."""
        if not isinstance(kw.get("exc_info"), web.RequestPayloadError):
            super().log_exception(*args, **kw)
