"""Makes a fast path request from within this process, for the MCP endpoint, and collects the response.

The request has the head that a caller would send to ``/proxy``, so `FastPath` treats it like any other request.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import ClassVar, Final, cast

from multidict import CIMultiDict

from gateway import clock
from gateway.access.caller import Caller
from gateway.egress.write_batch import WriteBatch
from gateway.http.headers import Fields
from gateway.http.passed_head import PlainHead
from gateway.http.response_head import ResponseHead
from gateway.off_loop import INLINE_BYTES
from gateway.proxy.attempts import FastPathHandover
from gateway.proxy.collected_response import CollectedResponse, InProcessRequest, Room
from gateway.server.fast_exchange import FastExchange
from gateway.server.fast_path import FastPath
from gateway.server.fast_response_head import provider_fields

# interval at which an exchange checks its time limits and whether its caller is still connected
CHECK_EVERY_S: Final = 1.0


class InProcessExchange(FastExchange):
    """An exchange that gives its client the response's head and body separately, without chunk framing."""

    __slots__ = ()
    _client: "InProcessClient"

    def _head_for_client(self, head: ResponseHead, now: float, *, decoded: bool) -> bytes:  # noqa: ARG002  # its own
        """Give the client the parsed head instead of its bytes, because the client needs only a few fields."""
        if not isinstance(head, PlainHead) or decoded:
            self._client.fields = provider_fields(head.with_fields(), self._plan, decoded=decoded)
        self._client.head = head
        return b""

    def end_response(self) -> None:
        if self._client.too_large:
            self.end_too_large()
        else:
            super().end_response()

    def end_too_large(self) -> None:
        """End the exchange, because the response is too large."""
        if not self._has_ended:
            self._cut_response()


class InProcessClient:
    """The caller of an in-process exchange, which collects the response.

    - `complete`: the response is complete
    - `has_ended`: the exchange has ended
    - `handover`: state from which the middleware chain continues the request, or None
    - `head`: head of the provider's response; None until it arrives
    - `fields`: the fields of the head that are passed on; None if all lines of a `PlainHead` are passed on
    - `exchange`: the exchange; None before it starts and after it has ended
    - `needs_room`: the exchange is paused until there is memory for more of the body
    - `on_change`: called when the exchange has ended or needs room; None while a task waits in `wait_for_end`
    """

    exchange_type: ClassVar[type[FastExchange]] = InProcessExchange

    # initial values, in the class because every call makes an object
    head: ResponseHead | None = None
    fields: Fields | None = None
    body: bytes | bytearray = b""
    complete = too_large = has_ended = needs_room = False
    handover: FastPathHandover | None = None
    exchange: InProcessExchange | None = None
    _outgoing = b""
    _has_room = False
    _changed: asyncio.Future[None] | None = None

    def __init__(self, request: InProcessRequest, on_change: Callable[[], None] | None = None) -> None:
        self.on_change = on_change
        self._request = request
        self._began = clock.monotonic()

    def start(self, fast_path: FastPath, caller: Caller | None = None) -> bool:
        """Prepare the exchange; then `begin` sends it.

        Return False, without any effect, if the middleware chain must handle the request. `caller`: as for
        `FastPath.start_call`.
        """
        started = fast_path.start_call(self, self._request, caller)
        if started is None:
            return False
        assert isinstance(started[0], InProcessExchange)
        self.exchange, self._outgoing = started[0], started[1]
        return True

    def begin(self) -> None:
        """Send the request to the provider. `on_change` can be called before this method returns."""
        assert self.exchange is not None
        self.exchange.begin(self._outgoing)

    async def wait_for_end(self, room: Room, has_left: Callable[[], bool], *, watched: bool) -> None:
        """Return when the exchange has ended or the caller has disconnected. Raises TimeoutError after the time limit.

        The time and the caller are checked at least every `CHECK_EVERY_S` seconds. `room`: awaited before more than
        `INLINE_BYTES` are held in memory. `has_left`: returns whether the caller has disconnected. `watched`: whether
        `wake` is called about once a second anyway, so that no timer is needed.
        """
        loop = asyncio.get_running_loop()
        self.on_change = None
        while (exchange := self.exchange) is not None:
            if self.too_large:
                exchange.end_too_large()
            if self.has_ended or has_left():
                break
            change = self._changed = loop.create_future()
            if self.needs_room:
                await room(len(self.body))
                self.needs_room = False
                exchange.resume()  # if the exchange ended meanwhile, `_changed` is already set
            else:
                now = clock.monotonic()
                exchange.enforce_time_limits(now)
                if now - self._began >= self._request.limit_s:
                    raise TimeoutError
            timer = None if watched else loop.call_later(CHECK_EVERY_S, self.wake)
            try:
                await change
            finally:
                if timer is not None:
                    timer.cancel()

    def leave(self, *, stopped: bool) -> None:
        """End the exchange, because its caller has disconnected.

        `stopped`: whether the gateway closed the caller's connection, because the gateway stops.
        """
        self.on_change = None
        if self.handover is not None:  # the caller disconnected before the middleware chain could begin
            self.handover.record_abandoned(stopped=stopped)
            self.handover.discard()
        if self.exchange is not None:
            exchange, self.has_ended, self.exchange = self.exchange, True, None
            exchange.caller_left(stopped=stopped)

    def wake(self) -> None:
        if self.on_change is not None:
            self.on_change()
        elif self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _end(self) -> None:
        self.has_ended, self.exchange = True, None
        self.wake()

    # ── methods that the exchange calls ─────────────────────────────────────────────────────────────────────────────

    def queue_piece(self, piece: bytes, _write_batch: WriteBatch) -> None:
        """Add a piece of the body. Above `INLINE_BYTES`, pause the exchange until there is memory for more."""
        if self.too_large:
            return
        if not self.body:
            self.body = piece  # most bodies have one piece
        elif isinstance(self.body, bytearray):
            self.body += piece
        else:
            self.body = bytearray(self.body) + piece
        if len(self.body) > self._request.limit_bytes:
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
        head, fields = self.head, self.fields
        if head is None:
            media_type = ""
        elif fields is None:
            media_type = _field_value(cast(PlainHead, head).media_type)
        else:
            media_type = next((value for name, value in fields if name.lower() == "content-type"), "")
        status = 0 if head is None else head.status
        return CollectedResponse(
            status, media_type, False, self._headers, bytes(self.body), self.complete, self.too_large
        )

    def _headers(self) -> Mapping[str, str]:
        if self.head is None:
            return {}
        if self.fields is not None:
            return CIMultiDict(self.fields)
        lines = (line.decode("utf-8", "surrogateescape") for line in cast(PlainHead, self.head).lines)
        return CIMultiDict((name, value) for name, _, value in (line.partition(": ") for line in lines))


@lru_cache(maxsize=64)
def _field_value(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape").partition(": ")[2]


async def wait_for_response(
    fast_path: FastPath,
    client: InProcessClient,
    room: Room,
    *,
    has_left: Callable[[], bool],
    stopped: Callable[[], bool],
    watch: Callable[[Callable[[], None] | None], None] | None = None,
) -> CollectedResponse | FastPathHandover:
    """Wait for the end of a call that has begun, and return its response.

    Return FastPathHandover if the middleware chain must continue the request. Raises TimeoutError after about
    `InProcessRequest.limit_s` seconds.

    - `room`: awaited before more than `INLINE_BYTES` are held in memory; its errors propagate
    - `has_left`: returns whether the caller has disconnected
    - `stopped`: returns whether the gateway closed the caller's connection
    - `watch`: gets the function to call about once a second, and None at the end; if `watch` is None, a timer calls
      that function
    """
    if watch is not None:
        watch(client.wake)
    try:
        await client.wait_for_end(room, has_left, watched=watch is not None)
    except BaseException:  # for example, the agent has disconnected
        client.leave(stopped=stopped())
        raise
    finally:
        if watch is not None:
            watch(None)
    if client.handover is not None:
        fast_path.handed_over += 1
        return client.handover
    client.leave(stopped=stopped())  # has an effect only if the caller has disconnected
    return client.response()
