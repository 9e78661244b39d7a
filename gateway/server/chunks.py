"""Keeps watch over a chunked body, whose framing may be far larger than what it frames."""

from typing import Final

from aiohttp import StreamReader

# A chunk's size line and its extensions, or all trailers. Nobody sends as much; an attacker may without end.
SPARE_BYTES: Final = 16_384
# A body in chunks of one byte has five bytes of framing for each of its own.
FRAMING_PER_BYTE: Final = 8


class ChunkWatch:
    """Compares the bytes that came with those that the parser made of them."""

    __slots__ = ("_body", "_delivered", "_quiet_since", "_received")

    def __init__(self, body: StreamReader) -> None:
        self._body = body
        self._received = 0
        self._delivered = 0
        self._quiet_since = 0

    def excessive(self, piece: bytes, *, paused: bool) -> bool:
        """Whether framing has outgrown its body, now that `piece` has come. `paused`: the parser holds bytes back."""
        self._received += len(piece)
        if paused:
            return False
        if self._body.total_bytes != self._delivered:
            self._delivered = self._body.total_bytes
            self._quiet_since = self._received
        framing = self._received - self._delivered
        return (
            self._received - self._quiet_since > SPARE_BYTES
            or framing > SPARE_BYTES + FRAMING_PER_BYTE * self._delivered
        )
