"""Makes a proxied call in this process without a socket: on the fast path, or else through the middleware chain.

The request equals the request that the server would build from the same bytes. The response is collected in memory. So
the rules, the rate, the budget, the call log and the errors of ``/proxy`` apply to the call, and the gateway needs no
second code path to a provider (ADR 61).
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

from aiohttp import HttpVersion11, hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from gateway import clock
from gateway.mcp.agent_message import AgentMessage
from gateway.middleware.facts import IN_PROCESS, REQUEST_ID, TOOL
from gateway.middleware.response_shape import ERROR_HEADER
from gateway.observe.logs import current_trace_id
from gateway.proxy.attempts import FastPathHandover
from gateway.proxy.collected_response import CollectedResponse, InProcessRequest, Room
from gateway.records.trace import current_trace

READ_BUFFER_BYTES: Final = 1 << 16


class CallerTransport(asyncio.Transport):
    """Replaces the caller's transport in the middleware chain.

    The chain uses the transport to check whether the caller is still connected, and to end the call. `cut`: whether the
    middleware chain has ended the call. The caller's own connection stays open.
    """

    def __init__(self, outer: AgentMessage) -> None:
        super().__init__()
        self._outer = outer
        self.cut = False

    def is_closing(self) -> bool:
        transport = self._outer.protocol.transport
        return self.cut or transport is None or transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return 0: no byte waits for the caller before the whole response has been collected."""
        return 0

    def write(self, _data: bytes | bytearray | memoryview) -> None:
        """Discard the bytes, because `_call_chain` takes the head from the response object."""

    def abort(self) -> None:
        self.cut = True

    def close(self) -> None:
        self.cut = True


class CallerProtocol:
    """Replaces the server's protocol for an in-process call.

    `handover`: the state with which the fast path passed the call on to the middleware chain; None if there is none.
    """

    ssl_context = None
    peername = None
    sockname = None

    def __init__(self, outer: AgentMessage, handover: FastPathHandover | None) -> None:
        self._outer = outer
        self.transport = CallerTransport(outer)
        self.handover = handover

    def take_handover(self) -> FastPathHandover | None:
        """Return the state that the fast path handed over; None if there is none.

        A second call returns None, because only the first attempt of the request can use the state.
        """
        handover, self.handover = self.handover, None
        return handover

    def discard_handover(self) -> None:
        """Close the response in `handover`, if there is one.

        The response is still there if the middleware chain ended before its first attempt.
        """
        handover = self.take_handover()
        if handover is not None:
            handover.discard()

    @property
    def stopped(self) -> bool:
        """Whether the gateway's server has closed the caller's connection because the gateway stops."""
        return bool(getattr(self._outer.protocol, "stopped", False))


class ResponseCollector(AbstractStreamWriter):
    """Collects a response's body of up to `limit` bytes.

    If the body is larger, `write` raises ConnectionResetError, as if the caller had disconnected. `room`: called with
    the size of the collected body; waits until there is enough memory. If it raises an error, `write` keeps the error
    as `fault` and raises ConnectionResetError too, because the middleware chain would report the error as a fault of
    the gateway.
    """

    def __init__(self, limit: int, room: Room) -> None:
        self.body = bytearray()
        self.too_large = False
        self.fault: Exception | None = None
        self._limit = limit
        self._room = room

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        if len(self.body) + len(chunk) > self._limit:
            self.too_large = True
            raise ConnectionResetError("the response is too large to hold in memory")
        self.body += chunk
        self.output_size += len(chunk)
        try:
            await self._room(len(self.body))
        except Exception as fault:
            self.fault = fault
            raise ConnectionResetError("there is no room for the response") from fault

    async def write_eof(self, chunk: bytes = b"") -> None:
        if chunk:
            await self.write(chunk)

    async def drain(self) -> None:
        """Do nothing, because no bytes wait to be sent."""

    def enable_compression(self, encoding: str = "deflate", strategy: int | None = None) -> None:
        """Do nothing, because the body is collected uncompressed."""

    def enable_chunking(self) -> None:
        """Do nothing, because the body is collected without framing."""

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        """Do nothing, because `_call_chain` takes the headers from the response object."""


async def call_in_process(outer: AgentMessage, call: InProcessRequest, room: Room) -> CollectedResponse:
    """Make `call` on behalf of the caller of `outer`, and return the response.

    `room`: awaited each time the body grows; errors of `room` end the call. If the caller disconnects, the call ends
    like any proxied call. Raises TimeoutError after about `call.limit_s` seconds.
    """
    outer.called = True
    began = clock.monotonic()
    call_on_fast_path = getattr(outer.protocol, "call_in_process", None)
    fast_path_result: CollectedResponse | FastPathHandover | None = None
    if call_on_fast_path is not None:
        fast_path_result = await call_on_fast_path(call, room)
    if isinstance(fast_path_result, CollectedResponse):
        return fast_path_result
    async with asyncio.timeout(call.limit_s - (clock.monotonic() - began)):
        return await _call_chain(outer, call, fast_path_result, room)


async def _call_chain(
    outer: AgentMessage, call: InProcessRequest, handover: FastPathHandover | None, room: Room
) -> CollectedResponse:
    """Make the call through the middleware chain.

    `handover`: the state of a call that the fast path has begun and the chain continues; None for a new call.
    """
    protocol, collector = CallerProtocol(outer, handover), ResponseCollector(call.limit_bytes, room)
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    message, payload = _request_message(call.method, call.mount + call.target, call.fields()), _payload(call.body, loop)
    request = web.Request(message, payload, cast(Any, protocol), collector, task, loop, remote=outer.remote)
    match_info = await outer.app.router.resolve(request)
    match_info.add_app(outer.app)
    match_info.freeze()
    request._match_info = match_info
    request[REQUEST_ID], request[IN_PROCESS] = outer.request_id, True
    if call.tool is not None:
        request[TOOL] = call.tool
    trace, trace_id = current_trace.get(None), current_trace_id.get(None)
    try:
        response = await match_info.handler(request)
    finally:
        protocol.discard_handover()
        current_trace.set(trace)  # restores the trace of the outer request
        current_trace_id.set(trace_id)
    if collector.fault is not None:
        raise collector.fault
    headers = response.headers
    media_type, by_gateway = headers.get(hdrs.CONTENT_TYPE, ""), ERROR_HEADER in headers
    if not response.prepared:
        content = response.body if isinstance(response, web.Response) else b""
        body = content if isinstance(content, bytes) else b""
        return CollectedResponse(response.status, media_type, by_gateway, lambda: headers, body)
    complete = not getattr(response, "cut", False) and not protocol.transport.cut
    body = bytes(collector.body)
    return CollectedResponse(
        response.status, media_type, by_gateway, lambda: headers, body, complete, collector.too_large
    )


def _request_message(method: str, target: str, fields: Mapping[str, str]) -> RawRequestMessage:
    """Return the request's head in the form that aiohttp's parser produces."""
    headers = CIMultiDict(fields)
    raw_headers = tuple((name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers.items())
    url = URL(target, encoded=True)
    return RawRequestMessage(
        method, target, HttpVersion11, CIMultiDictProxy(headers), raw_headers, False, None, False, False, url
    )


def _payload(body: bytes | None, loop: asyncio.AbstractEventLoop) -> StreamReader:
    """Return a reader that already contains the whole body."""
    if not body:
        return EMPTY_PAYLOAD
    # With more than twice its limit, the reader would pause its protocol, but this protocol has no transport to pause.
    payload = StreamReader(BaseProtocol(loop), max(READ_BUFFER_BYTES, len(body)), loop=loop)
    payload.feed_data(body)
    payload.feed_eof()
    return payload
