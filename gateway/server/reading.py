"""What comes from a client: strict heads, one message after another, and a watch on bodies that are sent in chunks.

bytes ▸ _read   cuts them after each head, so that a message's faults fall on that message alone
      ▸ _feed   aiohttp's parser; what it makes of a chunked body is watched
      ▸ _admit  `check_head`, limits; from here aiohttp handles the request
"""

from typing import TYPE_CHECKING, Any, Final

import structlog
from aiohttp import StreamReader, hdrs, web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestHandler, _ErrInfo
from yarl import URL

from gateway.errors import GatewayError, InvalidRequest
from gateway.server.chunks import ChunkWatch
from gateway.server.complaint import complaint, too_large
from gateway.wire.head import check_head

if TYPE_CHECKING:
    from gateway.server.runner import GatewayServer

HEAD_END: Final = b"\r\n\r\n"
ODD_LINE: Final = "The request line has more than one space between two of its parts (RFC 9112 §3)."
CUTS: Final = 64  # so many pieces are cut from what came at once; a body full of empty lines is not worth more

log = structlog.get_logger(__name__)


class StrictReading(RequestHandler):
    """`head_since` is the loop's time at which the head that is being received began, 0.0 if none is."""

    __slots__ = (
        "_at_boundary",
        "_awaited",
        "_body",
        "_chunks",
        "_deaf",
        "_head_bytes",
        "_held",
        "_line",
        "_odd_line",
        "_server",
        "_tail",
        "_untouched",
        "head_since",
    )

    checks_heads = True  # so that `middleware.strict` need not

    def __init__(self, server: "GatewayServer", **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._body: StreamReader = EMPTY_PAYLOAD  # of the newest message
        self._chunks: ChunkWatch | None = None  # of that body, if it is chunked
        self._at_boundary = False
        self._awaited = 0  # bytes of that body, if its length was declared
        self._tail = b""  # the last three bytes of what came of a head or of chunks: an empty line may be cut in two
        self._head_bytes = 0
        self._line: bytes | None = b""  # the request line as far as it has come; None once it is over
        self._odd_line = False
        self._held = b""  # what came while too many requests waited already, or one is on the lane
        self._untouched = True  # aiohttp has got nothing yet, and may not even have begun to wait for it
        self._deaf = False  # nothing more is read as HTTP on this connection
        self.head_since = 0.0

    @property
    def idle(self) -> bool:
        """Between two requests, or before the first."""
        return self._waiter is not None and not self._messages

    def _read(self, data: bytes) -> None:
        self._untouched = False
        if self._held:
            data, self._held = self._held + data, b""
        at, cuts, size = 0, 0, len(data)
        while not self._deaf:
            if self._upgraded or self._payload_parser is not None:
                super().data_received(data[at:])
                return
            between = self._body.is_eof()
            if between and len(self._messages) >= self._max_msg_queue_size:
                self._held = data[
                    at:
                ]  # aiohttp has stopped reading and asks again, with b"", once the queue is shorter
                return
            end = size
            if self._awaited:
                end = min(size, at + self._awaited)
                self._awaited -= end - at
            elif cuts < CUTS and (between or self._chunks is not None):
                end = self._empty_line(data, at)
            cuts += 1
            self._feed(data if end - at == size else data[at:end])
            at = end
            if at >= size:
                return

    def _empty_line(self, data: bytes, at: int) -> int:
        """Where the first empty line after `at` ends, or else the data; the line may have begun in the piece before."""
        if self._tail:
            found = (self._tail + data[at : at + 3]).find(HEAD_END)
            if found >= 0:
                return at + found + 4 - len(self._tail)
        found = data.find(HEAD_END, at)
        return len(data) if found < 0 else found + 4

    def _feed(self, piece: bytes) -> None:
        body, chunks, count = self._body, self._chunks, self._request_count
        in_head = body.is_eof()
        if in_head and self._line is not None:
            self._watch_line(self._line + piece if self._line else piece)
        super().data_received(piece)
        new = self._request_count - count
        if in_head:
            self._head_bytes += len(piece)
            if new:
                self._admit(new, piece)
            elif piece:
                self._tail = (self._tail + piece[-3:])[-3:]
                self._head_goes_on()
            return
        if chunks is not None:
            if piece:
                end = self._tail + piece[-4:]
                self._at_boundary, self._tail = end.endswith(HEAD_END), end[-3:]
            if body.is_eof():
                self._chunked_body_ended(new)
                return
        if new and isinstance(self._messages[-1][0], _ErrInfo) and not body.is_eof():
            self._messages.pop()
            self._break_body("malformed")
        elif chunks is not None and chunks.excessive(piece, paused=self._reading_paused):
            self._break_body("chunk framing larger than its body")
        elif new:
            self._admit(new, piece)

    def _watch_line(self, begun: bytes) -> None:
        """The parser takes any number of spaces between the parts of a request line; others read an empty target there."""
        line, end, _ = begun.lstrip(b"\r\n").partition(b"\n")
        self._odd_line = self._odd_line or b"  " in line
        self._line = None if end else line

    def _admit(self, new: int, piece: bytes) -> None:
        """Look at the `new` messages before they are handled; the first one that is refused is the last."""
        for at in range(len(self._messages) - new, len(self._messages)):
            message, payload = self._messages[at]
            try:
                if isinstance(message, _ErrInfo):
                    raise complaint(message.exc, piece)
                if self._odd_line:
                    raise InvalidRequest("bad_framing", ODD_LINE, close=True)
                if self._head_bytes > self._server.head_bytes or len(piece) > self._server.head_bytes:
                    self._weigh(message)
                target = check_head(message.method, message.path, message.version, message.headers)
            except GatewayError as refusal:
                self._refuse(at, refusal)
                return
            if target is not message.path:
                message = message._replace(path=target, url=URL(target, encoded=True))
            if self._server.draining or message.upgrade:
                # After it the parser takes nothing for HTTP any more, whether the upgrade comes about or not.
                message = message._replace(should_close=True)
            self._messages[at] = (message, payload)
            self._body, self._chunks = payload, ChunkWatch(payload) if message.chunked else None
            self._awaited, self._tail = 0, b""
            if not payload.is_eof() and self._chunks is None and not message.upgrade:
                self._awaited = int(message.headers.get(hdrs.CONTENT_LENGTH, 0)) - payload.total_bytes
            if self._chunks is not None and payload.is_eof():
                self._at_boundary = piece.endswith(HEAD_END)
                self._chunked_body_ended(len(self._messages) - at - 1)
                break
        self._head_bytes, self.head_since = 0, 0.0
        self._line, self._odd_line = b"", False

    def _weigh(self, message: RawRequestMessage) -> None:
        """Raises HeadersTooLarge. Four bytes a line for what the parser has taken out of it."""
        size = len(message.path) + sum(len(name) + len(value) + 4 for name, value in message.raw_headers)
        if size > self._server.head_bytes:
            raise too_large()

    def _head_goes_on(self) -> None:
        if self.head_since == 0.0:
            self.head_since = self._loop.time()
        if self._head_bytes > self._server.head_bytes:
            self._request_count += 1
            self._messages.append((_ErrInfo(400, too_large(), ""), EMPTY_PAYLOAD))
            self._refuse(len(self._messages) - 1, too_large())
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    def _chunked_body_ended(self, followers: int) -> None:
        """The parser keeps the last trailer field and gives it to the next message, so the next one gets a new parser.

        That is possible only if nothing of it has been read yet; else what was read is forgotten, and the connection ends.
        """
        for _ in range(followers):
            self._messages.pop()
        self._chunks, self._tail = None, b""
        if followers == 0 and self._at_boundary and not self._upgraded:
            self._parser = self._server.new_parser(self)
        elif not self._upgraded:
            self._deaf = True
            if self.idle:
                self.force_close()

    def _break_body(self, why: str) -> None:
        """Whoever reads the body hears of it and answers; nothing on the connection can be trusted from here on."""
        log.info("body_refused", why=why)
        self._deaf = True
        self._body.set_exception(web.RequestPayloadError(why))

    def _refuse(self, at: int, refusal: GatewayError) -> None:
        """Answer `refusal` in place of message `at`, once those before it are answered, and nothing after it."""
        while len(self._messages) > at:
            self._messages.pop()
        self._messages.append((_ErrInfo(refusal.status, refusal, ""), EMPTY_PAYLOAD))
        self._deaf = True
        self.head_since = 0.0
