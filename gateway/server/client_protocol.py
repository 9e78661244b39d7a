"""Handles a client connection: checks request heads strictly, sends the gateway's errors, and closes cleanly.

Ordinary proxied requests go to the fast path (`FastPath.start_exchange`), and messages to the MCP endpoint go to
`McpFastPath.start_message`. All other requests go to aiohttp's parser and handler.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import structlog
from aiohttp import HttpVersion11, StreamReader, hdrs, web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.tcp_helpers import tcp_keepalive
from aiohttp.web_protocol import RequestHandler, _ErrInfo
from yarl import URL

from gateway.access.caller import Caller
from gateway.egress.write_batch import WriteBatch
from gateway.errors import GatewayError, InvalidRequest
from gateway.http.abort import abort_connection, bytes_held_up, unread_bytes
from gateway.http.request_head import check_head
from gateway.middleware.facts import CONNECTION, READ_BODY, TIMING, UPSTREAM
from gateway.part_by_part import PART_BYTES, IncrementalFeeder, is_slow_to_parse
from gateway.proxy.attempts import FastPathHandover
from gateway.proxy.collected_response import CollectedResponse, InProcessRequest, Room
from gateway.server.early_refusals import connections_full_response, response_outside_chain
from gateway.server.fast_exchange import FastExchange
from gateway.server.fast_message import FastMessage
from gateway.server.in_process_exchange import InProcessClient, wait_for_response
from gateway.server.known_heads import HEAD_END
from gateway.server.strict_framing import ChunkWatch, error_for_parser_fault, head_too_large_error

if TYPE_CHECKING:
    from gateway.server.runner import GatewayServer

EXTRA_SPACE: Final = "The request line has more than one space between two of its parts (RFC 9112 §3)."
MAX_CUTS: Final = 64  # maximum number of pieces cut from one read, so that a body full of empty lines costs little
LINGER_S: Final = 2.0  # time for a client to read the last response, even if the client still sends (RFC 9112 §9.6)
MAX_HELD_BYTES: Final = 64 * 1024
# Maximum number of requests of a connection that are read before the response to an earlier request has been sent. A
# request head needs up to 70 KiB, so aiohttp's 32 requests would need 2 MiB for each connection of any client.
MAX_QUEUED_REQUESTS: Final = 4
MAX_QUEUED_BYTES: Final = 64 * 1024  # maximum number of bytes that are queued; a longer queue is sent immediately
PARSED_UPGRADES: Final = frozenset({"tcp", "websocket"})  # the protocols after which aiohttp's parser reads no HTTP
MAX_REFUSAL_RESPONSES: Final = 64  # how many connections above the limit get a response; others are closed silently

log = structlog.get_logger(__name__)


def _parser_keeps_reading(message: RawRequestMessage, piece: bytes) -> bool:
    """Return whether the parser continues to read HTTP after this upgrade request without a body.

    The parser does so if it does not know the protocol, such as h2c, for which Java's HttpClient asks by default. But
    then it drops the bytes of `piece`, in which the request arrived, that follow the head.
    """
    protocol = message.headers.get(hdrs.UPGRADE, "").strip().lower()
    return protocol not in PARSED_UPGRADES and piece.endswith(HEAD_END) and piece.count(HEAD_END) == 1


def _release_data(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Release the bodies of a request and its response, and the credential of a proxied call, after the response was
    sent.

    Until the next request of the connection, aiohttp keeps both objects. So each idle connection would keep this data.
    """
    request._read_bytes = None
    for fact in (READ_BODY, UPSTREAM, CONNECTION):
        request.pop(fact, None)
    if isinstance(response, web.Response):
        response.body = None


class ClientProtocol(RequestHandler):
    """A client's connection.

    `head_since`: when the connection began to wait for a request head, in the loop's time; 0.0 if it does not wait. The
    wait for the first head begins with the connection. The wait for a later head begins with the first byte of the
    head; in a drain it begins at the end of the previous response. `handover`: state of a request that the middleware
    chain takes over from the fast path, or None. `stopped`: whether the server has closed the connection, because the
    server stops and cannot wait longer.
    """

    __slots__ = (
        "_at_boundary",
        "_body",
        "_body_left",
        "_chunks",
        "_client_closed",
        "_discards_input",
        "_fast_exchange",
        "_handler_started",
        "_has_extra_space",
        "_head_bytes",
        "_held_input",
        "_incremental_feeder",
        "_is_new",
        "_paused_by_held_input",
        "_queued",
        "_refused",
        "_request_line",
        "_server",
        "_tail",
        "_unread",
        "_unread_since",
        "_upload_paused",
        "handover",
        "head_since",
        "stopped",
    )

    exchange_type: ClassVar = FastExchange
    checks_heads = True  # so that `gateway.middleware.request_message` skips its own check

    def __init__(self, server: "GatewayServer", **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._max_msg_queue_size, self._msg_queue_resume_size = MAX_QUEUED_REQUESTS, MAX_QUEUED_REQUESTS // 2
        self._body: StreamReader = EMPTY_PAYLOAD  # the body of the newest message
        self._chunks: ChunkWatch | None = None  # watches that body; None if it is not chunked
        self._at_boundary = False  # whether the last bytes of that chunked body are an empty line
        self._body_left = 0  # bytes of that body still to come, if its length was declared
        self._tail = b""  # last three bytes of a head or of chunks, because a read can end within an empty line
        self._head_bytes = 0
        self._request_line: bytes | None = b""  # received part of the request line; None after the line is complete
        self._has_extra_space = False
        self._held_input = b""  # bytes that wait, because too many requests are queued or a request is on the fast path
        self._handler_started = False  # whether aiohttp's handler waits for messages; only the chain needs it
        self._is_new = True  # whether `enforce_time_limits` has not been called yet
        self._discards_input = False  # whether the bytes that follow are discarded
        self.head_since = 0.0
        # Not None while the client gets time to read the last response. Done when the client has disconnected.
        self._client_closed: asyncio.Future[None] | None = None
        self._queued = b""  # bytes of a fast path response, sent at the end of this event loop iteration
        self._incremental_feeder: IncrementalFeeder | None = None  # splits input that is expensive to parse
        self._paused_by_held_input = False  # whether reading is paused, because enough bytes are held
        self._fast_exchange: FastExchange | FastMessage | None = None  # a request on the fast path
        self.handover: FastPathHandover | None = None  # set if the middleware chain takes over a request
        self._upload_paused = False  # whether reading is paused, because the provider takes no more bytes
        self._refused = False  # whether `GatewayServer.refused_connections` counts this connection
        self._unread = 0  # bytes of responses that the client had not read at the last check
        self._unread_since = 0.0  # when that number last changed (the loop's time)
        self.stopped = False

    @property
    def idle(self) -> bool:
        """Whether the connection is between two requests, or before the first request."""
        return self._waits_for_message and self._client_closed is None and not self.on_fast_path

    @property
    def _waits_for_message(self) -> bool:
        return (self._waiter is not None or not self._handler_started) and not self._messages

    @property
    def held_bytes(self) -> int:
        """Number of bytes from the client that wait until the response to an earlier request has been sent."""
        return len(self._held_input)

    @property
    def queued_requests(self) -> int:
        """Number of requests that are read, but not handled yet."""
        return len(self._messages)

    @property
    def on_fast_path(self) -> bool:
        """Whether a request of this connection is on the fast path."""
        return self._fast_exchange is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request. Unlike aiohttp's method, start no task and no timer, and set no socket option.

        The event loop has already set TCP_NODELAY. `enforce_time_limits` replaces the timer and sets SO_KEEPALIVE.
        """
        self.transport = cast("asyncio.Transport", transport)  # uvloop's class does not derive from it
        self._server.connection_made(self, self.transport)
        self.head_since = self._loop.time()
        self._next_keepalive_close_time = self.head_since + self._keepalive_timeout
        if self._server.full:
            self._refuse_connection()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._refused:
            self._server.refused_connections -= 1
        if self._incremental_feeder is not None:
            self._incremental_feeder.stop()
            self._incremental_feeder = None
        if self._fast_exchange is not None:
            self._fast_exchange.caller_left(stopped=self.stopped)
            self._fast_exchange = None
        self._record_abandoned()
        self._discard_handover()
        if self._client_closed is not None and not self._client_closed.done():
            self._client_closed.set_result(None)
        super().connection_lost(exc)

    def eof_received(self) -> None:
        if self._incremental_feeder is not None:
            feeder, self._incremental_feeder = self._incremental_feeder, None
            self._feed_received(feeder.stop())
        self.send_queued()  # before `super()` closes the transport
        super().eof_received()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._fast_exchange is not None:
            self._fast_exchange.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._fast_exchange is not None:
            self._fast_exchange.resume()

    # ── limits: the number of connections, and clients that send or read slowly ───────────────────────────────────────

    def _refuse_connection(self) -> None:
        """Refuse a connection above `server.limits.connections`: send an error and close, without reading anything."""
        server = self._server
        server.count_refused_connection()
        if server.refused_connections >= MAX_REFUSAL_RESPONSES:
            self._discards_input = True
            self.force_close()
            return
        self._refused = True
        server.refused_connections += 1
        assert self.transport is not None
        self.head_since = 0.0
        self.transport.write(connections_full_response())
        self._end_orderly()

    def enforce_time_limits(self, now: float, *, late_if_before: float) -> None:
        """Close the connection if it exceeds a time limit. The server calls this about once a second.

        Both times are the loop's. `late_if_before`: a request head is late if the wait for it began before this time.
        """
        is_new, self._is_new = self._is_new, False
        if is_new:
            self._probe_client()
        if self._fast_exchange is not None:
            if isinstance(self._fast_exchange, FastExchange) and self._client_has_read(now):
                self._fast_exchange.moved_at = now
            self._fast_exchange.enforce_time_limits(now)
        elif self.transport is not None and (self._unread or self.transport.get_write_buffer_size()):
            self._cut_if_unread(now)
        elif (
            (0.0 < self.head_since < late_if_before or now >= self._next_keepalive_close_time)
            and self.idle
            and not is_new  # if the process was blocked, the bytes of a new connection are not read yet
        ):
            self.force_close()

    def _probe_client(self) -> None:
        """Let the kernel check that the client still exists. Connections that soon close do without this."""
        if self.transport is not None and not self.transport.is_closing():
            with suppress(OSError):  # the client has just reset the connection
                tcp_keepalive(self.transport)

    def _client_has_read(self, now: float) -> bool:
        """Return whether a fast path response waits for a slow client that has read since the last check."""
        if self.transport is None:
            return False
        unread_before, unread = self._unread, bytes_held_up(self.transport)
        if unread != unread_before:
            self._unread, self._unread_since = unread, now
        return 0 < unread < unread_before

    def _cut_if_unread(self, now: float) -> None:
        """Close the connection if the client reads nothing of a response for too long.

        Proxied responses are excluded, because their exchange has its own time limits, and so are WebSockets.
        """
        assert self.transport is not None
        unread = unread_bytes(self.transport)
        if unread != self._unread or self._has_own_limits:
            self._unread, self._unread_since = unread, now
        elif now - self._unread_since >= self._server.answer_idle_s:
            abort_connection(self.transport)

    @property
    def _has_own_limits(self) -> bool:
        """Whether the current request is a proxied call or a WebSocket. After its end, the client's limits apply."""
        current = self._current_request
        return current is not None and (self._upgraded or UPSTREAM in current)

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that the connection keeps while it waits for its client.

        It waits for the rest of a request head, or for the client to read a response of the gateway itself. The limits
        of the exchange apply to proxied responses.
        """
        if self.transport is None or self.on_fast_path:
            return 0
        if self.idle:
            return self._head_bytes
        if not self._unread or self._has_own_limits:
            return 0
        heads = [message.raw_headers for message, _ in self._messages if isinstance(message, RawRequestMessage)]
        queued = sum(len(name) + len(value) for head in heads for name, value in head)
        return self.transport.get_write_buffer_size() + len(self._held_input) + self._head_bytes + queued

    @property
    def waiting_since(self) -> float:
        """Since when the connection has waited for its client, in the loop's time."""
        return self.head_since if self.idle else self._unread_since

    # ── bytes from the client ─────────────────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        if self._incremental_feeder is not None and data:
            self._incremental_feeder.add(data)
        elif (
            len(data) > PART_BYTES
            and not self._upgraded
            and self.transport is not None
            and not (self._fast_exchange is not None and self._fast_exchange.is_unframed_body(len(data)))
            and is_slow_to_parse(data)
        ):
            self._incremental_feeder = IncrementalFeeder(data, self._feed_received, self._all_parts_fed, self.transport)
        else:
            self._feed_received(data)

    def _all_parts_fed(self) -> None:
        self._incremental_feeder = None
        if not (self._reading_paused or self._buffer_paused or self._paused_by_held_input or self._upload_paused):
            self._resume_transport_reading()

    def _resume_transport_reading(self) -> None:
        if self._incremental_feeder is None:
            super()._resume_transport_reading()

    def _feed_received(self, data: bytes) -> None:
        exchange = self._fast_exchange
        if exchange is not None:
            if exchange.waits_for_caller:
                data = exchange.feed_request(data)
                if self._fast_exchange is None and data:  # the response was sent before the end of the request's body
                    self._feed_received(data)
                    return
            if data:
                self._hold(data)
            return
        if self._queued:
            self.send_queued()  # send these bytes before any bytes that `data` causes
        fast_path = self._server.fast_path
        if fast_path is not None and data and self._waits_for_message and self._between_messages:
            started = fast_path.start_exchange(self, data) or fast_path.mcp_fast_path.start_message(self, data)
            if started is not None:
                self._fast_exchange, first_bytes, following_bytes = started
                self.head_since = 0.0
                self._fast_exchange.begin(first_bytes)
                if following_bytes:
                    self._hold(following_bytes)
                return
        self._read(data)

    @property
    def _between_messages(self) -> bool:
        """Whether the connection is between two messages, and no bytes are held and no close is announced."""
        return not (
            self._held_input
            or self._head_bytes
            or self._discards_input
            or self._upgraded
            or self._paused
            or self._close
            or self._force_close
            or self._server.draining
            or not self._body.is_eof()
        )

    def _hold(self, data: bytes) -> None:
        """Keep bytes that follow a fast path request until the response has been sent.

        Pause reading if more than `MAX_HELD_BYTES` are kept.
        """
        self._held_input += data
        if self.held_bytes > MAX_HELD_BYTES and self.transport is not None:
            self.transport.pause_reading()
            self._paused_by_held_input = True

    def _feed_held_input(self) -> None:
        held_input, self._held_input = self._held_input, b""
        self._resume_after_hold()
        if self._incremental_feeder is None:
            self.data_received(held_input)
        else:
            self._incremental_feeder.put_back(held_input)

    def _resume_after_hold(self) -> None:
        if self._paused_by_held_input and self.transport is not None:
            self._paused_by_held_input = False
            self._resume_transport_reading()

    # ── bytes for aiohttp's parser ────────────────────────────────────────────────────────────────────────────────────

    # Checks heads strictly, lets aiohttp handle one message after another, and watches chunked bodies.
    #
    # bytes ▸ _read   cuts the bytes after each head, so that a fault affects only its own message
    #       ▸ _feed   passes the bytes to aiohttp's parser, and watches chunked bodies
    #       ▸ _admit  checks the head (`check_head`) and the limits; afterwards aiohttp handles the request

    def _read(self, data: bytes) -> None:
        if not self._handler_started and self.transport is not None and not self._discards_input:
            self._handler_started = True
            self._task_handler = self._server.context.run(self._loop.create_task, self.start())
        if self._held_input:
            data, self._held_input = self._held_input + data, b""
        position, cuts, size = 0, 0, len(data)
        while not self._discards_input:
            if self._upgraded or self._payload_parser is not None:
                super().data_received(data[position:])
                return
            between_messages = self._body.is_eof()
            if between_messages and self.queued_requests >= MAX_QUEUED_REQUESTS:
                # aiohttp has paused reading, and calls again with b"" as soon as the queue is shorter.
                self._held_input = data[position:]
                return
            end = size
            if self._body_left:
                end = min(size, position + self._body_left)
                self._body_left -= end - position
            elif cuts < MAX_CUTS and (between_messages or self._chunks is not None):
                end = self._end_of_empty_line(data, position)
            cuts += 1
            self._feed(data if end - position == size else data[position:end])
            position = end
            if position >= size:
                return

    def _end_of_empty_line(self, data: bytes, start: int) -> int:
        """Return where the first empty line after `start` ends; the length of `data` if there is no empty line.

        The empty line can begin in data that was received earlier.
        """
        if self._tail:
            position = (self._tail + data[start : start + 3]).find(HEAD_END)
            if position >= 0:
                return start + position + 4 - len(self._tail)
        position = data.find(HEAD_END, start)
        return len(data) if position < 0 else position + 4

    def _feed(self, piece: bytes) -> None:
        body, chunks, count_before = self._body, self._chunks, self._request_count
        in_head = body.is_eof()
        if in_head and self._request_line is not None:
            self._check_request_line(self._request_line + piece if self._request_line else piece)
        super().data_received(piece)
        new_messages = self._request_count - count_before
        if in_head:
            self._head_bytes += len(piece)
            if new_messages:
                self._admit(new_messages, piece)
            elif piece:
                self._tail = (self._tail + piece[-3:])[-3:]
                self._head_continues()
            return
        if chunks is not None:
            if piece:
                tail = self._tail + piece[-4:]
                self._at_boundary, self._tail = tail.endswith(HEAD_END), tail[-3:]
            if body.is_eof():
                self._chunked_body_ended(new_messages)
                return
        if new_messages and isinstance(self._messages[-1][0], _ErrInfo) and not body.is_eof():
            self._messages.pop()
            self._break_body("malformed")
        elif chunks is not None and chunks.is_excessive(piece, paused=self._reading_paused):
            self._break_body("chunk framing larger than its body")
        elif new_messages:
            self._admit(new_messages, piece)

    def _check_request_line(self, received_bytes: bytes) -> None:
        """Detect double spaces in the request line. The parser accepts them, but other servers read an empty target."""
        line, line_end, _ = received_bytes.lstrip(b"\r\n").partition(b"\n")
        self._has_extra_space = self._has_extra_space or b"  " in line
        self._request_line = None if line_end else line

    def _admit(self, new_messages: int, piece: bytes) -> None:
        """Check the last `new_messages` messages before they are handled.

        Nothing is read after the first refused message.
        """
        for index in range(len(self._messages) - new_messages, len(self._messages)):
            message, payload = self._messages[index]
            try:
                if isinstance(message, _ErrInfo):
                    raise error_for_parser_fault(message.exc, piece)
                if self._has_extra_space:
                    raise InvalidRequest("bad_framing", EXTRA_SPACE, close=True)
                if self._head_bytes > self._server.head_bytes or len(piece) > self._server.head_bytes:
                    self._check_size(message)
                target = check_head(message.method, message.path, message.version, message.headers)
            except GatewayError as refusal:
                self._refuse(index, refusal)
                return
            if target is not message.path:
                message = message._replace(path=target, url=URL(target, encoded=True))
            if message.upgrade and payload.is_eof() and _parser_keeps_reading(message, piece):
                message = message._replace(upgrade=False)
            if self._server.draining or message.upgrade:
                message = message._replace(should_close=True)
            self._messages[index] = (message, payload)
            self._body, self._chunks = payload, ChunkWatch(payload) if message.chunked else None
            self._body_left, self._tail = 0, b""
            if not payload.is_eof() and self._chunks is None and not message.upgrade:
                self._body_left = int(message.headers.get(hdrs.CONTENT_LENGTH, 0)) - payload.total_bytes
            if self._chunks is not None and payload.is_eof():
                self._at_boundary = piece.endswith(HEAD_END)
                self._chunked_body_ended(len(self._messages) - index - 1)
                break
        self._head_bytes, self.head_since = 0, 0.0
        self._request_line, self._has_extra_space = b"", False

    def _check_size(self, message: RawRequestMessage) -> None:
        """Raise HeadersTooLarge if the head is too large.

        Each line counts four bytes more, for the colon, the space and the line end, which the parser has removed.
        """
        size = len(message.path) + sum(len(name) + len(value) + 4 for name, value in message.raw_headers)
        if size > self._server.head_bytes:
            raise head_too_large_error()

    def _head_continues(self) -> None:
        if self.head_since == 0.0:
            self.head_since = self._loop.time()
        if self._head_bytes > self._server.head_bytes:
            self._request_count += 1
            self._messages.append((_ErrInfo(400, head_too_large_error(), ""), EMPTY_PAYLOAD))
            self._refuse(len(self._messages) - 1, head_too_large_error())
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    def _chunked_body_ended(self, followers: int) -> None:
        """Use a new parser for the next message, because the old parser would add the last trailer field to it.

        If the old parser has already read a part of the next message, drop that message and close the connection.
        `followers`: number of messages that were read after the body.
        """
        for _ in range(followers):
            self._messages.pop()
        self._chunks, self._tail = None, b""
        if followers == 0 and self._at_boundary and not self._upgraded:
            self._parser = self._server.new_parser(self)
        elif not self._upgraded:
            self._discards_input = True
            if self.idle:
                self.force_close()

    def _break_body(self, reason: str) -> None:
        """Raise an error in the body's reader, which sends the error response. Read nothing more from the client."""
        log.info("body_refused", why=reason)
        self._discards_input = True
        self._body.set_exception(web.RequestPayloadError(reason))

    def _refuse(self, index: int, refusal: GatewayError) -> None:
        """Send `refusal` in place of message `index`, after the responses to earlier messages.

        Later messages are not read.
        """
        while len(self._messages) > index:
            self._messages.pop()
        self._messages.append((_ErrInfo(refusal.status, refusal, ""), EMPTY_PAYLOAD))
        self._discards_input = True
        self.head_since = 0.0

    # ── the fast path ─────────────────────────────────────────────────────────────────────────────────────────────────

    def queue_piece(self, piece: bytes, write_batch: WriteBatch) -> None:
        """Queue part of a response. All queued parts of all connections are sent at the end of this event loop
        iteration, or earlier if this connection has more than `MAX_QUEUED_BYTES`."""
        if self._queued:
            self._queued += piece
            if len(self._queued) > MAX_QUEUED_BYTES:
                self.send_queued()
        else:
            self._queued = piece
            write_batch.add(self.send_queued)

    def send_queued(self) -> None:
        """Send the queued bytes. Call it before anything closes the connection or sends more bytes."""
        queued, self._queued = self._queued, b""
        if queued and self.transport is not None and not self.transport.is_closing():
            self.transport.write(queued)

    def pause_upload(self) -> None:
        """Pause reading the body of the fast path request, because the provider takes no more bytes."""
        if self.transport is not None and not self._upload_paused:
            self._upload_paused = True
            self.transport.pause_reading()

    def resume_upload(self) -> None:
        if self._upload_paused:
            self._upload_paused = False
            if not self._paused_by_held_input:
                self._resume_transport_reading()

    def response_sent(self, *, last: bool, close_requested: bool = False) -> None:
        """Continue with the next request, because the response to the fast path request has been sent.

        `last`: the response announced that the connection closes, so close it. `close_requested`: the request announced
        the close and has arrived completely.
        """
        self._fast_exchange = None
        self.resume_upload()
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if last:
            if close_requested and not self._held_input:
                self.force_close()  # no bytes follow that would reset the connection (RFC 9112 §9.6)
            else:
                self._end_orderly()
            return
        if self._server.draining:
            # The response's head was sent before the stop and announced no close, so a request can follow.
            self.head_since = self._loop.time()
        if self._held_input:
            self._feed_held_input()

    def response_broken(self) -> None:
        """Close the connection after a fast path response broke off.

        The caller must see that the response is incomplete.
        """
        self._fast_exchange = None
        self.send_queued()
        abort_connection(self.transport, reset=False)  # without a reset, the framing shows that bytes are missing

    def continue_in_chain(self, data: bytes, handover: FastPathHandover) -> None:
        """Let the middleware chain continue with the fast path request.

        `data`: the bytes of the request received so far; only its head if `handover.body_kept` is False.
        """
        self._fast_exchange = None
        self.handover = handover
        if self._server.fast_path is not None:
            self._server.fast_path.handed_over += 1
        held_input, self._held_input = self._held_input, b""
        self._resume_after_hold()  # call this first, because aiohttp can pause reading again when it gets the bytes
        self.resume_upload()
        if handover.body_kept:
            self._read(data + held_input)
        else:
            self._read(data)
            self._discards_input = True  # the parser does not get the body, so it cannot find the next message

    def hand_back(self, data: bytes) -> None:
        """Let the middleware chain handle a message to the MCP endpoint.

        `data`: the bytes of the message received so far.
        """
        self._fast_exchange = None
        held_input, self._held_input = self._held_input, b""
        self._resume_after_hold()
        self._read(data + held_input)

    def start_call(
        self, request: InProcessRequest, on_change: Callable[[], None], caller: Caller | None
    ) -> InProcessClient | None:
        """Prepare a call on the fast path for a message; `begin` sends it.

        Return None, without any effect, if the middleware chain must handle the call. `on_change`: called when the call
        has ended or must wait for memory. `caller`: as for `FastPath.start_call`.
        """
        fast_path, call = self._server.fast_path, InProcessClient(request, on_change)
        return call if fast_path is not None and call.start(fast_path, caller) else None

    async def call_in_process(
        self, request: InProcessRequest, room: Room
    ) -> CollectedResponse | FastPathHandover | None:
        """Make a call on the fast path for the current request, and return the response.

        Return None if the middleware chain must handle the call, or FastPathHandover if the chain must continue it. A
        call that the message has begun (`start_call`) is not sent again.
        """
        fast_path, message = self._server.fast_path, self._fast_exchange
        if fast_path is None:
            return None
        call = message.detach_call() if isinstance(message, FastMessage) else None
        if not isinstance(call, InProcessClient):
            call = InProcessClient(request)
            if not call.start(fast_path):
                return None
            call.begin()
        return await wait_for_response(
            fast_path,
            call,
            room,
            has_left=lambda: self.transport is None or self.transport.is_closing(),
            stopped=lambda: self.stopped,
            watch=message.watch if isinstance(message, FastMessage) else None,
        )

    def take_handover(self) -> FastPathHandover | None:
        """Return the state that the fast path handed over, and forget it, because only the first attempt uses it."""
        handover, self.handover = self.handover, None
        return handover

    def _record_abandoned(self) -> None:
        """Record a request that was handed over, if the caller disconnects before the middleware chain has begun."""
        current = self._current_request
        if self.handover is not None and (current is None or TIMING not in current):
            self.handover.record_abandoned(stopped=self.stopped)

    def _discard_handover(self) -> None:
        handover = self.take_handover()
        if handover is not None:
            handover.discard()

    # ── the end of a response, and of the connection ──────────────────────────────────────────────────────────────────

    def announce_close(self) -> None:
        """Send ``Connection: close`` with the response in progress, unless its head has been sent already."""
        if self._fast_exchange is not None:
            self._fast_exchange.announce_close()
        current = self._current_request
        if current is not None:
            current._message = current._message._replace(should_close=True)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        self._discard_handover()
        if self._discards_input or self._server.draining or not request.content.is_eof():
            resp, reset = await self._finish_last(request, resp, start_time)
        else:
            resp, reset = await super().finish_response(request, resp, start_time)
        _release_data(request, resp)
        return resp, reset

    async def _finish_last(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Finish a response when the server stops, or when a part of the request's body is unread.

        Such a response is usually the last response of its connection.
        """
        if (
            isinstance(resp, web.StreamResponse)
            and not self._messages
            and (self._discards_input or self._server.draining)
        ):
            if resp.prepared and resp.keep_alive and not self._discards_input:
                # The response's head was sent before the stop and announced no close, so a request can follow.
                self.head_since = self._loop.time()
            else:
                resp.force_close()
        elif isinstance(resp, web.StreamResponse) and not resp.prepared and not request.content.is_eof():
            resp.force_close()  # the rest of the body is not needed, and aiohttp would wait for it
        resp, reset = await super().finish_response(request, resp, start_time)
        if not reset and not resp.keep_alive and (self._discards_input or not request.content.is_eof()):
            await self._half_close()
        return resp, reset

    def _process_keepalive(self) -> None:
        if self._fast_exchange is not None:
            self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        super()._process_keepalive()

    def force_close(self) -> None:
        self.send_queued()
        transport = self.transport
        super().force_close()  # forgets the transport, so `enforce_time_limits` no longer checks whether the client reads
        if transport is not None and transport.get_write_buffer_size():
            self._loop.call_soon(self._cut_closing, transport, 0)  # uvloop writes at the end of this iteration

    def _cut_closing(self, transport: asyncio.WriteTransport, unread_before: int) -> None:
        """Cut a closing connection if the client reads nothing of its last response for `answer_idle_s`."""
        if not transport.get_write_buffer_size():
            return  # the system has all bytes, so the connection is closed
        unread = unread_bytes(transport)
        if unread == unread_before:
            abort_connection(transport)
        else:
            self._loop.call_later(self._server.answer_idle_s, self._cut_closing, transport, unread)

    def _end_orderly(self) -> None:
        """Send EOF, and close the connection after `LINGER_S`, so that the client has time to read the response.

        Unlike `_half_close`, this needs no task.
        """
        self.send_queued()
        self._discards_input = True
        self._held_input = b""
        self._resume_after_hold()
        if self.transport is not None and self.transport.can_write_eof():
            self.transport.write_eof()
            self._client_closed = self._loop.create_future()
            self._loop.call_later(LINGER_S, self.force_close)
        else:
            self.force_close()

    async def _half_close(self) -> None:
        """Send EOF, and give the client time to read the response.

        An immediate close would reset the connection if bytes of the client are unread.
        """
        self._discards_input = True
        self._lingering_time = 0.0  # so that aiohttp does not wait for the rest of the body
        transport = self.transport
        if transport is None or not transport.can_write_eof():
            return
        transport.write_eof()
        self._reading_paused = self._buffer_paused = False
        self._resume_transport_reading()
        self._client_closed = self._loop.create_future()
        await asyncio.wait([self._client_closed], timeout=LINGER_S)

    # ── errors outside the middleware chain ───────────────────────────────────────────────────────────────────────────

    # Parser errors never reach a middleware. Without these methods, aiohttp would send HTTP/1.0 error texts that quote
    # the request.

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,  # noqa: ARG002 (aiohttp's argument; the exception says more)
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 (the parser's own words, which quote the request)
    ) -> web.StreamResponse:
        """Return the response for a refusal, or for an exception that the middleware chain did not handle.

        Raises ConnectionError if the client has disconnected. Closes the connection and raises ConnectionError if part
        of a response has been sent.
        """
        if isinstance(exc, ConnectionError) and (self.transport is None or self.transport.is_closing()):
            raise exc
        response = response_outside_chain(self._server.app, request, exc)
        if response is None:
            abort_connection(self.transport)
            raise ConnectionError("part of a response has been sent")
        return response

    def _make_error_handler(self, err_info: _ErrInfo) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            request._version = HttpVersion11  # for an unreadable request, aiohttp sets HTTP/1.0
            return self.handle_error(request, err_info.status, err_info.exc)

        return handler

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log the exception, except errors of a broken body, because the reader of the body has reported them."""
        if not isinstance(kw.get("exc_info"), web.RequestPayloadError):
            super().log_exception(*args, **kw)
