"""A fast path request that begins in this process: its response is collected instead of sent.

Its bytes are those that a caller would send to ``/proxy``, so `FastPath.take` treats it like any other request.
"""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Final

from multidict import CIMultiDict

from gateway import clock
from gateway.egress.write_batch import WriteBatch
from gateway.http.response_head import ResponseHead
from gateway.off_loop import INLINE_BYTES
from gateway.proxy.attempts import FastPathHandover
from gateway.proxy.collected_response import CollectedResponse, Room
from gateway.server.fast_exchange import FastExchange
from gateway.server.fast_path import FastPath

LOOK_S: Final = 1.0  # how often it checks whether its caller is still connected, and whether bytes still move


class InProcessExchange(FastExchange):
    """An exchange that gives its client head and body separately, the body without framing."""

    __slots__ = ()
    _client: "InProcessClient"

    def __init__(self, client: "InProcessClient", *of_request: Any) -> None:
        super().__init__(client, *of_request)
        self._plan.request_id = client.request_id
        self._plan.tool = client.tool

    def sink_for(self, head: ResponseHead) -> FastExchange | None:
        sink = super().sink_for(head)
        if sink is not None and self._unsent:
            self._client.head = self._unsent.pop()
            self._chunked = False
        return sink

    def end_response(self) -> None:
        if self._client.too_large:
            self.cut()
        else:
            super().end_response()

    def cut(self) -> None:
        """End the exchange, because no more of the response can be held."""
        if not self._over:
            self._cut_response()


class InProcessClient:
    """The caller's end of an in-process exchange.

    `tool`: name of the MCP tool that made the call. `limit_bytes`: maximum size of the response's body. `complete`: the
    response is complete. `over`: the exchange has ended. `handover`: state from which the chain continues the request.
    `needs_room`: the exchange is paused until there is memory for more of the body.
    """

    exchange_type: ClassVar[type[FastExchange]] = InProcessExchange

    def __init__(self, request_id: str, tool: str | None, limit_bytes: int) -> None:
        self.request_id = request_id
        self.tool = tool
        self.limit_bytes = limit_bytes
        self.head = b""
        self.body = bytearray()
        self.complete = False
        self.too_large = False
        self.over = False
        self.handover: FastPathHandover | None = None
        self.exchange: InProcessExchange | None = None
        self.needs_room = False
        self._has_room = False
        self._changed = asyncio.get_running_loop().create_future()

    async def wait_for_change(self) -> None:
        """Return when the state has changed, after `LOOK_S` at the latest."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(LOOK_S, self.wake)
        try:
            await self._changed
        finally:
            timer.cancel()
            if not self.over:
                self._changed = loop.create_future()

    def wake(self) -> None:
        if not self._changed.done():
            self._changed.set_result(None)

    def _end(self) -> None:
        self.over = True
        self.wake()

    # ── what the exchange calls ──────────────────────────────────────────────────────────────────────────

    def queue_piece(self, piece: bytes, _write_batch: WriteBatch) -> None:
        """Take a piece of the body; beyond `INLINE_BYTES` pause the exchange until there is memory for more."""
        if self.too_large:
            return
        self.body += piece
        if len(self.body) > self.limit_bytes:
            self.too_large = True
            self.wake()
        elif len(self.body) > INLINE_BYTES and not self._has_room and self.exchange is not None:
            self._has_room = self.needs_room = True
            self.exchange.pause()
            self.wake()

    def response_sent(self, *, last: bool, close_requested: bool = False) -> None:  # noqa: ARG002  # FastClient's
        self.complete = not self.too_large
        self._end()

    def response_broken(self) -> None:
        self._end()

    def continue_in_chain(self, _data: bytes, handover: FastPathHandover) -> None:
        self.handover = handover
        self._end()

    def pause_upload(self) -> None:
        """Do nothing: the body has been sent in one piece."""

    def resume_upload(self) -> None:
        """Do nothing: the body has been sent in one piece."""

    def response(self) -> CollectedResponse:
        """Return the collected response; its status is 0 if no head has arrived."""
        lines = self.head.decode("utf-8", "surrogateescape").split("\r\n")
        headers = CIMultiDict[str]()
        for line in lines[1:]:
            name, colon, value = line.partition(": ")
            if colon:
                headers.add(name, value)
        status = int(lines[0][9:12]) if self.head else 0
        return CollectedResponse(status, headers, bytes(self.body), self.complete, self.too_large)


async def call(
    fast_path: FastPath,
    message: bytes,
    request_id: str,
    *,
    tool: str | None = None,
    limit_bytes: int,
    room: Room,
    has_left: Callable[[], bool],
    stopped: Callable[[], bool],
) -> CollectedResponse | FastPathHandover | None:
    """Send `message`, a whole request, and return its response.

    Return None if the chain must handle the request (nothing has happened then), or FastPathHandover if the chain must
    continue it. `room` is awaited before more than `INLINE_BYTES` are held; its errors propagate. `has_left`: whether
    the caller has disconnected; `stopped`: whether we cut it off ourselves. `tool`: name of the MCP tool that made the
    call.
    """
    client = InProcessClient(request_id, tool, limit_bytes)
    started = fast_path.take(client, message)
    if started is None:
        return None
    exchange = started[0]
    assert isinstance(exchange, InProcessExchange)
    client.exchange = exchange
    exchange.begin(started[1])
    try:
        while True:
            await client.wait_for_change()
            if client.too_large:
                exchange.cut()
            if client.over or has_left():
                break
            if client.needs_room:
                await room(len(client.body))
                client.needs_room = False
                exchange.resume()  # if it ended meanwhile, `wait_for_change` returns immediately
            else:
                exchange.enforce_time_limits(clock.monotonic())
    except BaseException:  # the agent has disconnected
        if client.handover is not None:  # the agent disconnected between the handover and the chain's start
            client.handover.record_unbegun(stopped=stopped())
            client.handover.discard()
        raise
    finally:
        if not client.over:
            client.over = True
            exchange.caller_left(stopped=stopped())
    if client.handover is not None:
        fast_path.handed_over += 1
        return client.handover
    return client.response()
