"""One client connection: aiohttp's protocol with our errors, a clock on the header block, and a drain of its own.

Parser errors never reach a middleware, and aiohttp would answer them as HTTP/1.0 text that echoes bytes of the request.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import structlog
from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler

from gateway.errors import GatewayError, HeadersTooLarge, InvalidRequest

if TYPE_CHECKING:
    from gateway.server.runner import GatewayServer

TOO_MANY: Final = "Too many headers"  # the parser has no class of its own for this one

log = structlog.get_logger(__name__)


class ClientProtocol(RequestHandler):
    """`head_s`: how long a connection may stay silent at first, and how long any header block may take to arrive."""

    __slots__ = ("_head_s", "_head_timer", "_server")

    def __init__(self, manager: "GatewayServer", *, head_s: float, **options: Any) -> None:
        super().__init__(manager, **options)
        self._server = manager
        self._head_s = head_s
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._head_arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        count = self._request_count
        if self._head_timer is None and not self._request_in_progress and not self._messages:
            self._expect_head()
        super().data_received(data)
        if self._request_count != count:
            self._head_arrived()

    @property
    def idle(self) -> bool:
        """No request is being handled or waits to be."""
        return not self._request_in_progress and not self._messages

    async def _handle_request(
        self,
        request: web.BaseRequest,
        start_time: float | None,
        request_handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    ) -> tuple[web.StreamResponse, bool]:
        done = await super()._handle_request(request, start_time, request_handler)
        if self._server.draining:
            self.close()
        return done

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 (the parser's own words, which may quote the request)
    ) -> web.StreamResponse:
        """A refusal in our shape, after which the connection ends; none of the request's bytes are in it."""
        if request.writer.output_size > 0:
            raise ConnectionError("the head of an answer has left already")
        if status >= 500:
            log.error("unhandled_outside_the_chain", exc_info=exc)
        return refusal(shaped(status, exc))

    def _make_error_handler(self, err_info: Any) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            request._version = HttpVersion11
            return self.handle_error(request, err_info.status, err_info.exc)

        return handler

    def _expect_head(self) -> None:
        self._head_timer = self._loop.call_later(self._head_s, self._head_is_late)

    def _head_arrived(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.idle and self.transport is not None:
            log.debug("header_block_too_slow")
            self.transport.abort()


class Fault(GatewayError):
    """What went wrong before there was a request to answer."""

    status = 500


def shaped(status: int, exc: BaseException | None) -> GatewayError:
    """The parser's complaint, or a crash outside the chain, in our words."""
    if status >= 500:
        return Fault("generic_error_support", "The gateway failed; its log has the details.")
    if isinstance(exc, LineTooLong) or TOO_MANY in str(exc):
        return HeadersTooLarge(
            "headers_too_large", "The request line and the headers are larger than this gateway takes."
        )
    return InvalidRequest("bad_framing", "This is not a well-formed HTTP/1.1 request.")


def refusal(fault: GatewayError) -> web.Response:
    response = web.Response(
        status=fault.status,
        body=json.dumps({"error": fault.as_json()}).encode(),
        content_type="application/json",
        headers={"Gateway-Error": fault.code, "Cache-Control": "no-store"},
    )
    response.force_close()
    return response
