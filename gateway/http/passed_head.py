"""Builds the head of a response to the caller: the gateway's framing, the provider's lines, and additional fields.

A plain head is converted line by line, without being parsed into fields. Most lines are the same in every response
(Server, Content-Type …). For most other lines, the name alone decides whether the line passes. So `response_head` and
`headers` decide about each line once, and the decision is cached.

A head is not plain if a decision depends on more than the line's name (references, cookies, unusual framing or white
space). `response_head` and `headers` parse such a head in full.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from multidict import istr

from gateway.http import headers
from gateway.http.headers import BYTES_OF_FIELDS, Fields, MalformedResponse
from gateway.http.response_head import MAX_HEADER_LINES, MAX_LENGTH_DIGITS, MalformedMessage, ResponseHead, parse_head

# ── Chooses the framing of the response to the caller, and writes its head as bytes.

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_CLOSE: Final = ("Connection", "close")
_CHUNKED: Final = ("Transfer-Encoding", "chunked")


class Framing(NamedTuple):
    """The framing of a response.

    `fields`: the framing fields to write. `chunked`: whether the body is sent in chunks. `bodiless`: whether the
    response has no body. `keep_alive`: whether the connection stays open after the response.
    """

    fields: Fields
    chunked: bool
    bodiless: bool
    keep_alive: bool


def printable(reason: str) -> str:
    """Return the reason phrase without control characters, which could end its line."""
    return _CONTROL.sub("", reason)


def framing(method: str, version: tuple[int, int], status: int, length: int | None, *, keep_alive: bool) -> Framing:
    """Choose the framing (RFC 9112 §6): no body, a length, chunks or, for HTTP/1.0, the end of the connection.

    `method`, `version`: the method and the HTTP version of the caller's request. `length`: the length of the body in
    bytes; None if unknown.
    """
    fields: Fields = []
    chunked = False
    bodiless = method == "HEAD" or status in (204, 304)
    if bodiless:
        # A 204 has no length; a 304 and responses to HEAD state the length of the full response (RFC 9110 §8.6).
        if length is not None and status != 204:
            fields.append(("Content-Length", str(length)))
    elif length is not None:
        fields.append(("Content-Length", str(length)))
    elif version >= (1, 1):
        chunked = True
        fields.append(_CHUNKED)
    else:
        keep_alive = False
    if not keep_alive:
        fields.append(_CLOSE)
    elif version < (1, 1):
        fields.append(("Connection", "keep-alive"))
    return Framing(fields, chunked, bodiless, keep_alive)


def head_bytes(version: tuple[int, int], status: int, reason: str, fields: Fields) -> bytes:
    """Return the head with the empty line after it, as bytes.

    Each lone surrogate becomes the byte from which it was decoded. Raises ValueError if a control character would
    change the message.
    """
    lines = [f"HTTP/{version[0]}.{version[1]} {status} {reason}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in fields]
    head = f"{''.join(lines)}\r\n".encode("utf-8", "surrogateescape")
    if head.translate(None, BYTES_OF_FIELDS) != b"\r\n" * (len(lines) + 1):
        raise ValueError("a control character in the head of a response")
    return head


_MAX_LINES: Final = 1024
_LINE_BYTES: Final = 128
_PASSES, _DROPPED, _TYPE, _DATE, _VARY, _LENGTH, _CODING = range(7)
_PLAIN_CHUNKED, _PLAIN_CLOSE, _KEEP_ALIVE, _NOT_PLAIN = range(7, 11)
_KIND_BY_NAME: Final = {
    "content-type": _TYPE,
    "date": _DATE,
    "vary": _VARY,
    "content-length": _LENGTH,
    "content-encoding": _CODING,
    "transfer-encoding": _PLAIN_CHUNKED,
    "connection": _PLAIN_CLOSE,
    "keep-alive": _KEEP_ALIVE,
}
_TIMEOUT: Final = re.compile(rb"timeout=[0-9]{1,6}(?:, ?max=[0-9]+)?")
_PROBE: Final = "probe"
_status_by_line: Final[dict[bytes, tuple[int, bytes]]] = {}
_kind_by_line: Final[dict[bytes, int]] = {}


class PlainHead(ResponseHead):
    """A head of plain lines, not parsed into fields.

    `status_line`: the status line for the caller. `lines`: the header lines for the caller, without line ends.
    `media_type`: the Content-Type line; empty if there is none. `has_date`: whether the provider sent the header Date.
    `has_coding`: whether the provider sent Content-Encoding. `vary`: the Vary line, which `lines` does not contain;
    empty if there is none.
    """

    __slots__ = ("_raw", "has_coding", "has_date", "lines", "media_type", "status_line", "vary")

    def __init__(self, status: int, status_line: bytes, raw: bytes) -> None:
        self.status = status
        self.status_line = status_line
        self.length = None
        self.chunked = False
        self.keep_s = None
        self.has_date = self.has_coding = False
        self.media_type = b""
        self.vary = b""
        self.lines: list[bytes] = []
        self._raw = raw

    def apply_line(self, kind: int, line: bytes) -> bool:
        """Store a line with a value that the gateway reads. Return False if a head with this line is not plain.

        `kind`: the result of `_kind` for the line.
        """
        if kind == _LENGTH and self.length is None:
            self.length = int(line[16:])
        elif kind == _DATE:
            self.has_date = True
            self.lines.append(line)
        elif kind == _TYPE and not self.media_type:
            self.media_type = line
            self.lines.append(line)
        elif kind == _VARY and not self.vary and len(line) <= _LINE_BYTES:
            self.vary = line
        elif kind == _CODING:
            self.has_coding = True
            self.lines.append(line)
        elif kind == _PLAIN_CHUNKED and not self.chunked:
            self.chunked = True
        elif kind == _PLAIN_CLOSE:
            self.keep_s = 0.0
        elif kind == _KEEP_ALIVE:
            if self.keep_s is None:
                self.keep_s = float(line[20:].partition(b",")[0])
        else:
            return False
        return True

    def with_fields(self) -> ResponseHead:
        """Return the same head parsed into fields."""
        return parse_head(self._raw)


def plain_head(raw: bytes) -> PlainHead | None:
    """Parse the head in `raw`; return None if it is not plain, so that `parse_head` must parse it.

    `raw` ends before the empty line.
    """
    lines = raw.split(b"\r\n")
    if len(lines) > MAX_HEADER_LINES:
        return None
    parsed_status = _status_by_line.get(lines[0]) or _status_line(lines[0])
    if parsed_status is None:
        return None
    head = PlainHead(parsed_status[0], parsed_status[1], raw)
    kept_lines = head.lines
    del lines[0]
    for line in lines:
        kind = _kind_by_line.get(line)
        if kind is None:
            kind = _kind(line)
        if kind == _PASSES:
            kept_lines.append(line)
        elif kind != _DROPPED and not head.apply_line(kind, line):
            return None
    if head.chunked and head.length is not None:
        return None
    return head


def cached_line_count() -> int:
    """Return how many header lines are cached."""
    return len(_kind_by_line)


def clear_cache() -> None:
    """Clear the cache of header lines. Call this regularly, because header lines can contain personal data."""
    _kind_by_line.clear()


def _status_line(line: bytes) -> tuple[int, bytes] | None:
    """Return the status, and the status line for the caller.

    Return None if the line does not begin a final response in HTTP/1.1.
    """
    try:
        head = parse_head(line)
    except MalformedMessage:
        return None
    if head.status < 200 or not line.startswith(b"HTTP/1.1 "):
        return None
    status_line = f"HTTP/1.1 {head.status} {printable(head.reason)}".encode("utf-8", "surrogateescape")
    if len(_status_by_line) < _MAX_LINES and len(line) <= _LINE_BYTES:
        _status_by_line[line] = head.status, status_line
    return head.status, status_line


def _kind(line: bytes) -> int:
    """Return how a line is handled (`_PASSES`, `_DROPPED` …). Caches the result for short lines."""
    name, colon, value = line.partition(b": ")
    field_name = name.decode("utf-8", "surrogateescape")
    if not colon or value.strip(b" \t") != value or line.translate(None, BYTES_OF_FIELDS):
        return _NOT_PLAIN
    kind = _KIND_BY_NAME.get(field_name.lower()) if field_name.isascii() else None
    try:
        if kind is None:
            kind = _PASSES if headers.response_fields([(field_name, _PROBE)]) else _DROPPED
            if headers.depends_on_value(field_name):
                return _NOT_PLAIN
    except MalformedResponse:
        return _NOT_PLAIN
    if kind == _PLAIN_CLOSE:
        kind = {b"close": _PLAIN_CLOSE, b"keep-alive": _DROPPED}.get(value.lower(), _NOT_PLAIN)
    elif (
        (kind == _KEEP_ALIVE and not _TIMEOUT.fullmatch(value))
        or (kind == _PLAIN_CHUNKED and value != b"chunked")
        or (kind == _LENGTH and not (value.isdigit() and len(value) <= MAX_LENGTH_DIGITS))
    ):
        return _NOT_PLAIN
    if len(line) <= _LINE_BYTES:
        if len(_kind_by_line) >= _MAX_LINES:
            _kind_by_line.clear()
        _kind_by_line[line] = kind
    return kind


# ── Adds fields to a provider's response: protection in browsers and caches, and Server-Timing.
#
# With the CSP directive ``sandbox``, a browser gives the document an opaque origin and runs no script. With
# ``nosniff``, a browser does not guess the media type. The provider's own policies pass too, and browsers apply all
# policies. Clients that are not browsers ignore ``sandbox`` and ``nosniff``.

VARY: Final = "Vary"
NOT_RENDERED: Final[Fields] = [("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", "sandbox")]
CONNECTION_SELECTING_HEADERS: Final = ("Authorization", "Connection-Id", "Provider-Config-Key", "Base-Url-Override")
"""The request headers that select the credential and the provider. A response depends on these headers, so Vary names
them (RFC 9110 §12.5.5)."""


_GATEWAY_VARY: Final = ", ".join(CONNECTION_SELECTING_HEADERS)


def with_protection_fields(fields: Fields, *, connection_in_headers: bool) -> Fields:
    """Return the `fields` of a response with `NOT_RENDERED` and Vary added.

    `connection_in_headers`: whether request headers name the connection. If the URL names the connection, Vary stays
    as the provider sent it.
    """
    provider_values = [field for field in fields if len(field[0]) == 4 and field[0].lower() == "vary"]
    if provider_values:
        fields = [field for field in fields if field not in provider_values]
    if not connection_in_headers:
        return [*fields, *provider_values, *NOT_RENDERED]
    return [
        *fields,
        *NOT_RENDERED,
        (VARY, vary([value for _, value in provider_values]) if provider_values else _GATEWAY_VARY),
    ]


def vary(provider_values: Sequence[str]) -> str:
    """Return the provider's and the gateway's `Vary` as one value, because some caches read only one line.

    If the provider sent ``*``, return only ``*``.
    """
    names = {
        name.lower(): name for name in (part.strip() for value in provider_values for part in value.split(",")) if name
    }
    if "*" in names:
        return "*"
    return ", ".join((*names.values(), *(name for name in CONNECTION_SELECTING_HEADERS if name.lower() not in names)))


ATTEMPTS: Final = istr("Gateway-Attempts")
"""The number of times that the call was sent to the provider."""

CONNECT_URL_FIELD: Final = istr("Gateway-Connect-Url")
"""In a 403 for missing scopes: the link at which the end user grants the scopes."""

# ── ``Server-Timing`` shows how long each part of a proxied call took (W3C Server Timing, §4).

SERVER_TIMING: Final = istr("Server-Timing")


def server_timing(gateway_ms: float, token_ms: float, upstream_ms: float) -> str:
    """Return the value of ``Server-Timing``, with the milliseconds of each part."""
    token = f"{token_ms:.2f}" if token_ms else "0"
    return f"gateway;dur={gateway_ms:.2f}, token;dur={token}, upstream;dur={upstream_ms:.2f}"
