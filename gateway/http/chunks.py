"""Decodes the chunked transfer coding (RFC 9112 §7.1) strictly and within limits; drops extensions and trailers."""

import re
from typing import Final

from gateway.http.headers import FRAMING, normalized_name
from gateway.http.response_head import MalformedMessage

MAX_LINE_BYTES: Final = 1024
MAX_REQUEST_LINE_BYTES: Final = 16_384  # the limit of aiohttp's parser, which the middleware chain uses
TRAILER_BYTES: Final = 16_384
# In a response, white space may precede an extension (RFC 9112 §7.1.1).
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[\t ]*;[\t\x20-\x7e\x80-\xff]*)?\r\n")
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_VALUE: Final = rb'(?:"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*+"|%b*+)' % _TOKEN
# A chunk extension in a request has a name. As in aiohttp's parser, the name can be empty only before a value.
_REQUEST_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;(?:%b++(?:=%b)?|=%b))*+\r\n" % (_TOKEN, _VALUE, _VALUE))
_TRAILER: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n")
_SIZES: Final = {form % size: size for size in range(1, 256) for form in (b"%x", b"%X")}
_SHORT_LINE_BYTES: Final = 4  # maximum length of a size line with a size in `_SIZES`, with its CR LF
_AT_SIZE, _IN_CHUNK, _AFTER_CHUNK, _IN_TRAILER = range(4)


class ChunkedDecoder:
    """Decodes a chunked body in pieces.

    `rest`: the bytes after the end of the body; None until the decoder has read the last chunk and the trailer.

    `of_request`: whether the body belongs to a request. For a request, MalformedMessage is raised in two more cases.
    The first is a chunk extension that does not follow RFC 9112 §7.1.1, as in aiohttp's parser. The second is a framing
    field in the trailer, because the next parser could apply this field (RFC 9110 §6.5.1).
    """

    __slots__ = (
        "_chunk_bytes_left",
        "_incomplete_line",
        "_max_line_bytes",
        "_of_request",
        "_size",
        "_stage",
        "_trailer_bytes",
        "rest",
    )

    def __init__(self, *, of_request: bool = False) -> None:
        self._of_request = of_request
        self._max_line_bytes, self._size = (
            (MAX_REQUEST_LINE_BYTES, _REQUEST_SIZE) if of_request else (MAX_LINE_BYTES, _SIZE)
        )
        self.rest: bytes | None = None
        self._stage = _AT_SIZE
        self._chunk_bytes_left = 0
        self._incomplete_line = b""
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of the body in `data`; empty if `data` has none. Raises MalformedMessage."""
        if self._incomplete_line:
            data, self._incomplete_line = self._incomplete_line + data, b""
        parts: list[bytes] = []
        position, size = 0, len(data)
        while position < size:
            if self._stage == _AT_SIZE:  # a shortcut: some bodies have very many short chunks
                line_end = data.find(b"\r\n", position, position + _SHORT_LINE_BYTES)
                length = _SIZES.get(data[position:line_end]) if line_end > 0 else None
                if length is not None and data[line_end + 2 + length : line_end + 4 + length] == b"\r\n":
                    parts.append(data[line_end + 2 : line_end + 2 + length])
                    position = line_end + 4 + length
                    continue
            if self._stage == _IN_CHUNK:
                part = data[position : position + self._chunk_bytes_left]
                parts.append(part)
                position += len(part)
                self._chunk_bytes_left -= len(part)
                if not self._chunk_bytes_left:
                    self._stage = _AFTER_CHUNK
                continue
            end = data.find(b"\n", position, position + self._max_line_bytes) + 1
            if not end:
                self._keep_incomplete_line(data[position:])
                break
            self._read_line(data, position, end)
            position = end
            if self.rest is not None:
                self.rest = data[position:]
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _keep_incomplete_line(self, line: bytes) -> None:
        """Keep an incomplete line for the next `feed`. Raises MalformedMessage if the line is too long."""
        if len(line) >= self._max_line_bytes or (self._stage == _AFTER_CHUNK and line != b"\r"):
            raise MalformedMessage("a line of its chunked framing has no end")
        self._incomplete_line = line

    def _read_line(self, data: bytes, position: int, end: int) -> None:
        if self._stage == _AT_SIZE:
            size_line = self._size.fullmatch(data, position, end)
            if size_line is None:
                raise MalformedMessage("a chunk has no proper size")
            self._chunk_bytes_left = int(size_line[1], 16)
            self._stage = _IN_CHUNK if self._chunk_bytes_left else _IN_TRAILER
        elif self._stage == _AFTER_CHUNK:
            if data[position:end] != b"\r\n":
                raise MalformedMessage("a chunk is longer than it says")
            self._stage = _AT_SIZE
        elif data[position:end] == b"\r\n":
            self.rest = b""
        else:
            self._trailer_bytes += end - position
            if self._trailer_bytes > TRAILER_BYTES or _TRAILER.fullmatch(data, position, end) is None:
                raise MalformedMessage("its trailer is too long or is not header lines")
            if self._of_request and normalized_name(data[position:end].partition(b":")[0].decode("ascii")) in FRAMING:
                raise MalformedMessage("its trailer frames a message")
