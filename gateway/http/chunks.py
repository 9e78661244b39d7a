"""Decodes the chunked transfer coding (RFC 9112 §7.1) strictly and within limits; drops extensions and trailers."""

import re
from typing import Final

from gateway.http.headers import FRAMING, plain
from gateway.http.response_head import Malformed

LINE_BYTES: Final = 1024
REQUEST_LINE_BYTES: Final = 16_384  # the limit of aiohttp's parser, which the chain uses
TRAILER_BYTES: Final = 16_384
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_VALUE: Final = rb'(?:"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*+"|%b*+)' % _TOKEN
# Extensions of a request's chunk have names; the chain's parser accepts an empty name only before a value.
_REQUEST_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;(?:%b++(?:=%b)?|=%b))*+\r\n" % (_TOKEN, _VALUE, _VALUE))
_TRAILER: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n")
_SIZES: Final = {form % size: size for size in range(1, 256) for form in (b"%x", b"%X")}
_SHORT: Final = 4  # length of a size line with a size of `_SIZES`, CR LF included
_AT_SIZE, _IN_CHUNK, _AFTER_CHUNK, _IN_TRAILER = range(4)


class Chunks:
    """An incremental decoder. `rest`: None until the last chunk and the trailer were fed; then the bytes after them.

    `of_request`: a chunk extension that is not RFC 9112 §7.1.1's raises Malformed, as in aiohttp's parser; so does a
    trailer with a framing field, since the next parser might obey it (RFC 9110 §6.5.1).
    """

    __slots__ = ("_held", "_left", "_line_bytes", "_of_request", "_size", "_stage", "_trailer_bytes", "rest")

    def __init__(self, *, of_request: bool = False) -> None:
        self._of_request = of_request
        self._line_bytes, self._size = (REQUEST_LINE_BYTES, _REQUEST_SIZE) if of_request else (LINE_BYTES, _SIZE)
        self.rest: bytes | None = None
        self._stage = _AT_SIZE
        self._left = 0
        self._held = b""
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Return the body bytes in `data`, possibly empty. Raises Malformed."""
        if self._held:
            data, self._held = self._held + data, b""
        parts: list[bytes] = []
        at, size = 0, len(data)
        while at < size:
            if self._stage == _AT_SIZE:  # shortcut for short, complete chunks: a body may have very many of them
                line = data.find(b"\r\n", at, at + _SHORT)
                length = _SIZES.get(data[at:line]) if line > 0 else None
                if length is not None and data[line + 2 + length : line + 4 + length] == b"\r\n":
                    parts.append(data[line + 2 : line + 2 + length])
                    at = line + 4 + length
                    continue
            if self._stage == _IN_CHUNK:
                part = data[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                if not self._left:
                    self._stage = _AFTER_CHUNK
                continue
            end = data.find(b"\n", at, at + self._line_bytes) + 1
            if not end:
                self._keep_incomplete_line(data[at:])
                break
            self._line(data, at, end)
            at = end
            if self.rest is not None:
                self.rest = data[at:]
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _keep_incomplete_line(self, piece: bytes) -> None:
        """Keep an incomplete line for the next `feed`. Raises Malformed if it is too long."""
        if len(piece) >= self._line_bytes or (self._stage == _AFTER_CHUNK and piece != b"\r"):
            raise Malformed("a line of its chunked framing has no end")
        self._held = piece

    def _line(self, data: bytes, at: int, end: int) -> None:
        if self._stage == _AT_SIZE:
            found = self._size.fullmatch(data, at, end)
            if found is None:
                raise Malformed("a chunk has no proper size")
            self._left = int(found[1], 16)
            self._stage = _IN_CHUNK if self._left else _IN_TRAILER
        elif self._stage == _AFTER_CHUNK:
            if data[at:end] != b"\r\n":
                raise Malformed("a chunk is longer than it says")
            self._stage = _AT_SIZE
        elif data[at:end] == b"\r\n":
            self.rest = b""
        else:
            self._trailer_bytes += end - at
            if self._trailer_bytes > TRAILER_BYTES or _TRAILER.fullmatch(data, at, end) is None:
                raise Malformed("its trailer is too long or is not header lines")
            if self._of_request and plain(data[at:end].partition(b":")[0].decode("ascii")) in FRAMING:
                raise Malformed("its trailer frames a message")
