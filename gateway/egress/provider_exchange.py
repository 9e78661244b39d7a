"""Parses responses strictly, and defines the interfaces between a connection, its owner and the proxy."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from gateway.egress.egress_errors import EgressError
from gateway.http.chunks import ChunkedDecoder
from gateway.http.headers import Fields
from gateway.http.passed_head import plain_head
from gateway.http.response_head import MAX_HEAD_BYTES, HeadTooLarge, MalformedMessage, ResponseHead, parse_head

if TYPE_CHECKING:
    from gateway.egress.provider_connection import ProviderConnection


# ── Defines a request's body and its response for the proxy.


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body.

    `pieces`: yields the bytes of the body when they arrive. `length`: the declared length in bytes; None: the body is
    sent chunked. `whole`: the complete body if it has arrived, else None. A complete body is sent together with the
    head, and `pieces` is not read.
    """

    pieces: AsyncIterator[bytes]
    length: int | None
    whole: bytes | None = None


class ProviderExchange(Protocol):
    """A response whose head has arrived.

    `length`: the declared Content-Length, or None. `headers`: the header fields with their order, duplicates and case.
    In `headers` and `reason`, bytes that are not UTF-8 are lone surrogates. `held_bytes`: number of bytes of the body
    that have arrived and that `read` has not returned yet.
    """

    status: int
    reason: str
    headers: Fields
    length: int | None
    held_bytes: int

    @property
    def peer(self) -> str | None:
        """The IP address of the provider or, if there is one, of the outbound proxy; None if unknown."""

    async def read(self) -> bytes:
        """Return bytes of the body as soon as they arrive; ``b""`` at the end of the body. Raises EgressError."""

    def switch(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]:
        """Hand the connection over to `protocol` after a 101.

        Return the transport, with reading paused, and the bytes received after the 101. From now on, the caller is
        responsible for closing the transport. Raises EgressError.
        """

    def close(self) -> None:
        """Close the response. If the response has not ended yet, its connection is closed immediately.

        A second call has no effect.
        """


# ── Reads one response after another from a connection: skips interim responses, parses heads, removes the framing.

MAX_INTERIM_RESPONSES: Final = 32
_BODILESS: Final = frozenset({204, 304})
_HEAD, _COUNTED, _CHUNKED, _UNTIL_CLOSE, _ENDED = range(5)


class ResponseListener(Protocol):
    """Receives the parts of a response without delay: its head, each piece of its body, and its end."""

    def head_arrived(self, head: ResponseHead) -> None: ...

    def body_arrived(self, piece: bytes) -> None: ...

    def response_ended(self, extra: bytes) -> None:
        """Handle the end of the response.

        `extra`: the bytes that follow the response; after a 101, they belong to the new protocol.
        """


class ResponseReader:
    """Reads responses, and reports each response to `listener`.

    `has_begun`: whether a byte has arrived after the last call of `expect`. `until_close`: whether the body ends only
    when the connection closes.
    """

    __slots__ = (
        "_body_bytes_left",
        "_chunked_decoder",
        "_incomplete_head",
        "_interim",
        "_listener",
        "_may_switch",
        "_plain",
        "_stage",
        "_without_body",
        "has_begun",
    )

    def __init__(self, listener: ResponseListener) -> None:
        self._listener = listener
        self._stage = _ENDED
        self._incomplete_head = b""
        self._body_bytes_left = self._interim = 0
        self._chunked_decoder: ChunkedDecoder | None = None
        self._without_body = self._may_switch = self._plain = self.has_begun = False

    @property
    def until_close(self) -> bool:
        return self._stage == _UNTIL_CLOSE

    def is_unframed_body(self, size: int) -> bool:
        """Return whether the next `size` bytes are part of a body without framing, so that none of them is parsed."""
        return self._stage == _UNTIL_CLOSE or (self._stage == _COUNTED and self._body_bytes_left >= size)

    def expect(self, *, without_body: bool, may_switch: bool, plain: bool = False) -> None:
        """Prepare for the response to a request.

        `without_body`: whether the response has no body, even if its head declares a length (RFC 9110 §9.3.2).
        `may_switch`: whether a 101 is allowed. `plain`: whether to parse an ordinary head with the faster `plain_head`.
        """
        self._stage = _HEAD
        self._interim = 0
        self._without_body = without_body
        self._may_switch = may_switch
        self._plain = plain
        self.has_begun = False

    def feed(self, data: bytes) -> None:
        """Read bytes of the expected response. Raises MalformedMessage; do not call it again after that."""
        stage = self._stage
        if stage == _COUNTED:
            self._read_counted_body(data)
        elif stage == _HEAD:
            self._read_heads(data)
        elif stage == _CHUNKED:
            self._read_chunked_body(data)
        else:
            self._listener.body_arrived(data)

    def _read_heads(self, data: bytes) -> None:
        """Skip interim responses (RFC 9110 §15.2). After the final head, begin to read the body."""
        self.has_begun = True
        if self._incomplete_head:
            data, self._incomplete_head = self._incomplete_head + data, b""
        while data:
            end = data.find(b"\r\n\r\n")
            if end > MAX_HEAD_BYTES or (end < 0 and len(data) > MAX_HEAD_BYTES):
                raise HeadTooLarge(data)
            if end < 0:
                self._keep_incomplete_head(data)
                return
            head_bytes = data[:end]
            head = (plain_head(head_bytes) if self._plain else None) or parse_head(head_bytes)
            data = data[end + 4 :]
            if head.status >= 200 or head.status == 101:
                self._begin(head, data)
                return
            self._interim += 1
            if self._interim > MAX_INTERIM_RESPONSES:
                raise MalformedMessage(f"more than {MAX_INTERIM_RESPONSES} interim responses precede it")

    def _keep_incomplete_head(self, head_start: bytes) -> None:
        """Keep the beginning of a head for the next `feed`.

        Raises MalformedMessage if these bytes cannot be the beginning of a valid head.
        """
        if head_start.count(b"\n") != head_start.count(b"\r\n"):
            raise MalformedMessage("a line of its head does not end in CR LF")
        if not b"HTTP/1.".startswith(head_start[:7]):
            raise MalformedMessage("its first line is not a status line")
        self._incomplete_head = head_start

    def _begin(self, head: ResponseHead, first_body_bytes: bytes) -> None:
        if head.status == 101 and not self._may_switch:
            raise MalformedMessage("it switches protocols without a request to do so")
        self._listener.head_arrived(head)
        length = head.length
        if self._without_body or head.status in _BODILESS or head.status == 101 or length == 0:
            self._end(first_body_bytes)
            return
        if length is not None:
            if length == len(first_body_bytes):  # the body arrived together with the head, as for most small responses
                self._listener.body_arrived(first_body_bytes)
                self._end(b"")
                return
            self._stage, self._body_bytes_left = _COUNTED, length
        elif head.chunked:
            self._stage, self._chunked_decoder = _CHUNKED, ChunkedDecoder()
        else:
            self._stage = _UNTIL_CLOSE
        if first_body_bytes:
            self.feed(first_body_bytes)

    def _read_counted_body(self, data: bytes) -> None:
        bytes_left = self._body_bytes_left = self._body_bytes_left - len(data)
        self._listener.body_arrived(data if bytes_left >= 0 else data[:bytes_left])
        if bytes_left <= 0:
            self._end(data[bytes_left:] if bytes_left else b"")

    def _read_chunked_body(self, data: bytes) -> None:
        chunks = self._chunked_decoder
        assert chunks is not None
        if body := chunks.feed(data):
            self._listener.body_arrived(body)
        if chunks.rest is not None:
            self._chunked_decoder = None
            self._end(chunks.rest)

    def _end(self, extra: bytes) -> None:
        self._stage = _ENDED
        self._listener.response_ended(extra)


# ── Keeps the unread bytes of a response that is being received.


class Source(Protocol):
    """The connection of a response; implemented by `ProviderConnection`."""

    @property
    def peer(self) -> str | None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None: ...

    def switch(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]: ...


class ProviderResponse:
    """A `ProviderExchange` that keeps the bytes of the body until they are read.

    Only the connection calls `feed`, `end` and `fail`, possibly before the first `read`. `held_bytes`: number of unread
    bytes. `source`: the connection; None as soon as the connection can serve another request or is closed.
    """

    __slots__ = (
        "_connection",
        "_ended",
        "_fault",
        "_pieces",
        "_reader",
        "headers",
        "held_bytes",
        "length",
        "reason",
        "source",
        "status",
    )

    def __init__(self, head: ResponseHead, source: Source) -> None:
        self.status = head.status
        self.reason = head.reason
        self.headers = head.fields
        self.length = head.length
        self.source: Source | None = source
        self._connection = source
        self.held_bytes = 0
        self._pieces: list[bytes] = []
        self._ended = False
        self._fault: EgressError | None = None
        self._reader: asyncio.Future[None] | None = None

    @property
    def peer(self) -> str | None:
        """The IP address of the provider or, if there is one, of the outbound proxy; None if unknown."""
        return self._connection.peer

    async def read(self) -> bytes:
        while not self._pieces:
            if self._fault is not None:
                raise self._fault
            if self._ended:
                return b""
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        pieces = self._pieces
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.held_bytes = 0
        if self.source is not None:
            self.source.resume_reading()
        return piece

    def close(self) -> None:
        if self.source is not None:
            self.source.abort()
            self.source = None
        if not self._ended:
            self._pieces.clear()
            self.fail(EgressError("protocol", "The exchange was closed before its end."))

    def switch(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]:
        """Hand the connection over to `protocol`. Raises EgressError if this is not a 101 response."""
        source, self.source = self.source, None
        if self.status != 101 or source is None:
            raise EgressError("protocol", "The exchange did not switch protocols.")
        return source.switch(protocol)

    @property
    def fault(self) -> EgressError | None:
        return self._fault

    def feed(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.held_bytes += len(piece)
        self._wake()

    def end(self) -> None:
        """Mark the response as complete."""
        self._ended = True
        self._wake()

    def fail(self, fault: EgressError) -> None:
        """Raise `fault` in `read` after the bytes received so far have been read."""
        if not self._ended and self._fault is None:
            self._fault = fault
            self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


# ── Defines the objects that a connection to a provider calls.


class Owner(Protocol):
    """Owns connections, and keeps a connection between two requests; implemented by `Pool`."""

    def release(self, connection: "ProviderConnection", keep_s: float | None) -> None:
        """Take back a connection that is free for the next request.

        `keep_s`: for how many seconds the provider keeps the connection open; None if the provider did not say.
        """

    def first_exchange_ended(self, connection: "ProviderConnection") -> None:
        """Handle the end of the connection's first exchange."""

    def connection_closed(self, connection: "ProviderConnection") -> None:
        """Handle the close of the connection."""


class ConnectionLost(Exception):
    """The connection ended before the first byte of a response.

    `sent`: whether a byte of the request may have reached the provider.
    """

    def __init__(self, *, sent: bool = True) -> None:
        super().__init__()
        self.sent = sent


class UploadListener(Protocol):
    """Writes a body to the provider piece by piece. The connection calls these methods to pause and resume the body."""

    def pause_upload(self) -> None: ...

    def resume_upload(self) -> None: ...


class ResponseSink(Protocol):
    """Receives the body of a response: `feed` for each piece, then `end`, or `fail` if the response breaks off.

    `held_bytes`: number of bytes that the sink has received but not passed on yet. Above a limit, the connection stops
    reading.
    """

    held_bytes: int

    def feed(self, piece: bytes) -> None: ...

    def end(self) -> None: ...

    def fail(self, fault: EgressError) -> None: ...


class ResponseReceiver(Protocol):
    """Waits for a response without a task.

    The connection calls `sink_for` and then `on_response`, or only `on_failure`. If `sink_for` returns None, the
    connection makes a `ProviderResponse` and passes it to `on_response`.
    """

    def sink_for(self, head: ResponseHead) -> ResponseSink | None: ...

    def on_response(self, response: ProviderResponse | None) -> None:
        """Called after the sink has received all bytes that arrived together with the head.

        `response`: the response if `sink_for` returned None; otherwise None.
        """

    def on_failure(self, fault: Exception) -> None:
        """Called when no head can arrive any more. `fault`: ConnectionLost or EgressError."""
