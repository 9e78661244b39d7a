"""A request's body on the fast path: where it ends in the bytes that come, and what of it is sent on."""

from typing import Final

from gateway.http.answer_head import Malformed
from gateway.http.chunks import Chunks
from gateway.server.strict_framing import FRAMING_PER_BYTE, SPARE_BYTES

LAST_CHUNK: Final = b"0\r\n\r\n"


class RequestBody:
    """`length` None: it comes in chunks, and is sent in chunks. `received`: bytes of the body so far. `ended`: all has come."""

    __slots__ = ("_chunks", "_left", "_raw_bytes", "ended", "received")

    def __init__(self, length: int | None) -> None:
        self._left = length or 0
        self._chunks = Chunks(of_request=True) if length is None else None
        self._raw_bytes = 0
        self.received = 0
        self.ended = False

    @property
    def left(self) -> int | None:
        """Bytes that are still to come; None where nobody knows."""
        return None if self._chunks is not None else self._left

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """What to send for `data`, framed, and what of `data` comes behind the body. Raises Malformed."""
        if self._chunks is not None:
            return self._unchunked(self._chunks, data)
        piece = data if len(data) <= self._left else data[: self._left]
        self._left -= len(piece)
        self.received += len(piece)
        self.ended = not self._left
        return piece, data[len(piece) :]

    def _unchunked(self, chunks: Chunks, data: bytes) -> tuple[bytes, bytes]:
        piece = chunks.feed(data)
        self._raw_bytes += len(data) - len(chunks.rest or b"")
        self.received += len(piece)
        if self._raw_bytes - self.received > SPARE_BYTES + FRAMING_PER_BYTE * self.received:
            raise Malformed("the framing of its chunks is larger than its body")
        out = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
        if chunks.rest is None:
            return out, b""
        self.ended = True
        return out + LAST_CHUNK, chunks.rest
