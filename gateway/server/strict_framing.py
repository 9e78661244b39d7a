"""Enforces strict framing: watches chunked bodies, translates parser errors, and finds the end of a fast path body."""

import re
from typing import Final

from aiohttp import StreamReader
from aiohttp.http_exceptions import InvalidURLError, LineTooLong

from gateway.errors import GatewayError, HeadersTooLarge, InvalidRequest, NotImplementedHere
from gateway.http.chunks import ChunkedDecoder
from gateway.http.headers import is_token
from gateway.http.request_head import (
    FORBIDDEN_TARGET_CHAR,
    repeated_field_error,
    two_framings_error,
    unknown_coding_error,
    unknown_version_error,
)
from gateway.http.response_head import MalformedMessage

# ── Watches chunked bodies, because the framing of a chunked body can be far larger than its content.

# Limit for a chunk's size line with its extensions, or for all trailers. Only an attacker sends more.
ALLOWED_FRAMING_BYTES: Final = 16_384
# Maximum number of bytes of framing for each byte of the body. A body in chunks of one byte needs five.
FRAMING_PER_BYTE: Final = 8


class ChunkWatch:
    """Compares the number of bytes received with the number of body bytes that the parser delivered."""

    __slots__ = ("_body", "_delivered", "_received", "_received_at_delivery")

    def __init__(self, body: StreamReader) -> None:
        self._body = body
        self._received = 0
        self._delivered = 0
        self._received_at_delivery = 0

    def is_excessive(self, piece: bytes, *, paused: bool) -> bool:
        """Count `piece`; return whether the framing is too large for the body so far.

        `paused`: whether the parser holds bytes back, so that the numbers cannot be compared now.
        """
        self._received += len(piece)
        if paused:
            return False
        if self._body.total_bytes != self._delivered:
            self._delivered = self._body.total_bytes
            self._received_at_delivery = self._received
        framing = self._received - self._delivered
        return (
            self._received - self._received_at_delivery > ALLOWED_FRAMING_BYTES
            or framing > ALLOWED_FRAMING_BYTES + FRAMING_PER_BYTE * self._delivered
        )


# ── Translates the parser's errors into messages of the gateway. The parser's own text is never sent, because it quotes
# the request.

TOO_MANY_HEADERS: Final = "Too many headers"  # the parser has no class of its own for this error
VERSION: Final = re.compile(r"HTTP/[0-9]\.[0-9]")
SUPPORTED_VERSIONS: Final = frozenset({"HTTP/1.0", "HTTP/1.1"})
UNKNOWN_METHOD: Final = "Unknown method. Use one of the IANA registry, in capitals, such as GET, POST or PATCH."
TWO_FRAMINGS: Final = two_framings_error().message

# Maps the prefix of a parser's error to the gateway's message, which names the fault and its fix.
BAD_FRAMING: Final = {
    "Transfer-Encoding can't be present with Content-Length": TWO_FRAMINGS,
    "Content-Length can't be present with Transfer-Encoding": TWO_FRAMINGS,
    "Duplicate Content-Length": repeated_field_error("Content-Length").message,
    "Invalid character in Content-Length": "Content-Length must be decimal digits and nothing else.",
    "Content-Length overflow": "Content-Length is too large.",
    "Invalid `Transfer-Encoding` header value": "Transfer-Encoding must be exactly 'chunked', sent once.",
    "Unexpected whitespace after header value": "A header continues in a second line (obs-fold). Send it in one line.",
    "Unexpected space after start line": "A header continues in a second line (obs-fold). Send it in one line.",
    "Invalid header token": "A header's name has an invalid character, or is not followed directly by a colon.",
    "Invalid header value char": "A header's value has a control character. Remove it.",
    "Missing expected LF after header value": "A line ends in CR alone. End each line with CR LF.",
    "Missing expected CR after header value": "A line ends in LF alone. End each line with CR LF.",
    "Expected CRLF after version": "A line ends in LF alone. End each line with CR LF.",
    "Missing 'Host' header in request": "Host is missing. HTTP/1.1 requires it.",
    "Received HTTPS traffic on an HTTP port": "This port expects plain HTTP, but TLS was sent. Use http:// here.",
}


def error_for_parser_fault(fault: BaseException, piece: bytes) -> GatewayError:
    """Return the error for the caller that fits the parser's `fault` best.

    `piece`: the bytes that the parser received last, which often include the request line.
    """
    if isinstance(fault, LineTooLong) or TOO_MANY_HEADERS in str(fault):
        return head_too_large_error()
    method, target, version = _request_line(piece)
    if isinstance(fault, InvalidURLError) or (VERSION.fullmatch(version) and FORBIDDEN_TARGET_CHAR.search(target)):
        return InvalidRequest(
            "bad_path",
            "Invalid request target. It must begin with '/', and all but visible ASCII must be percent-encoded.",
            close=True,
        )
    if VERSION.fullmatch(version) and version not in SUPPORTED_VERSIONS:
        return unknown_version_error()
    if "method" in str(fault).lower() and is_token(method) and version in SUPPORTED_VERSIONS:
        return NotImplementedHere("not_supported", UNKNOWN_METHOD, close=True)
    reason = _reason(fault)
    if reason.startswith("Request has invalid `Transfer-Encoding`"):  # Transfer-Encoding does not end in "chunked"
        return unknown_coding_error()
    message = next((message for prefix, message in BAD_FRAMING.items() if reason.startswith(prefix)), None)
    return malformed_request_error() if message is None else InvalidRequest("bad_framing", message, close=True)


def _reason(fault: BaseException) -> str:
    """Return the parser's own sentence, without the bytes of the request that it quotes."""
    lines = (line.strip() for line in str(getattr(fault, "message", fault)).splitlines())
    return next((line for line in lines if line and line not in {"Bad status line:", "400, message:"}), "")


def malformed_request_error() -> GatewayError:
    return InvalidRequest("bad_framing", "This is not a well-formed HTTP/1.1 request.", close=True)


def head_too_large_error() -> GatewayError:
    return HeadersTooLarge(
        "headers_too_large",
        "The request line and the headers are too large. The limits are 32 KiB in total, 16 KiB each, and 256 lines.",
        close=True,
    )


def _request_line(piece: bytes) -> tuple[str, str, str]:
    """Return method, target and version of the request line in `piece`. The target can contain spaces."""
    line = piece.lstrip(b"\r\n").partition(b"\n")[0].removesuffix(b"\r").decode("latin-1")
    method, _, rest = line.partition(" ")
    target, _, version = rest.rpartition(" ")
    return method, target, version


# ── Finds the end of a request's body on the fast path, and returns the bytes to send to the provider.

LAST_CHUNK: Final = b"0\r\n\r\n"


class RequestBodyFraming:
    """Finds the end of a request's body, and frames the body for the provider.

    `length`: the declared length in bytes; None if the body arrives chunked and is sent chunked. `received`: number of
    bytes of the body so far, without framing. `ended`: whether the whole body has arrived.
    """

    __slots__ = ("_body_bytes_left", "_chunks", "_raw_bytes", "ended", "received")

    def __init__(self, length: int | None) -> None:
        self._body_bytes_left = length or 0
        self._chunks = ChunkedDecoder(of_request=True) if length is None else None
        self._raw_bytes = 0
        self.received = 0
        self.ended = False

    @property
    def left_bytes(self) -> int | None:
        """Number of bytes of the body that have not arrived yet; None if unknown."""
        return None if self._chunks is not None else self._body_bytes_left

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the framed bytes to send for `data`, and the bytes of `data` that follow the body.

        Raises MalformedMessage.
        """
        if self._chunks is not None:
            return self._feed_chunks(self._chunks, data)
        piece = data if len(data) <= self._body_bytes_left else data[: self._body_bytes_left]
        self._body_bytes_left -= len(piece)
        self.received += len(piece)
        self.ended = not self._body_bytes_left
        return piece, data[len(piece) :]

    def _feed_chunks(self, chunks: ChunkedDecoder, data: bytes) -> tuple[bytes, bytes]:
        piece = chunks.feed(data)
        self._raw_bytes += len(data) - len(chunks.rest or b"")
        self.received += len(piece)
        if self._raw_bytes - self.received > ALLOWED_FRAMING_BYTES + FRAMING_PER_BYTE * self.received:
            raise MalformedMessage("the framing of its chunks is larger than its body")
        framed_piece = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
        if chunks.rest is None:
            return framed_piece, b""
        self.ended = True
        return framed_piece + LAST_CHUNK, chunks.rest
