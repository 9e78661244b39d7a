"""The head of an answer as it is passed on to the caller: its framing, which is ours, its lines, and the fields we add.

The head of a plain answer, made ready for the caller line by line, without being taken apart into fields.

Most lines of a provider's heads are the same in every answer (Server, Content-Type …), and most others pass as they came
or stay here, which their names alone decide. What a line means is asked of `answer_head` and `headers` once, and
remembered. Where more than a line by itself decides (references, cookies, odd framing, odd white space) the head is
not plain, and is read by them.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from multidict import istr

from gateway.http import headers
from gateway.http.answer_head import HEADER_LINES, LENGTH_DIGITS, AnswerHead, Malformed, parse_head
from gateway.http.headers import TEXT, Fields, MalformedAnswer

# ── The head of an answer that is passed on to the caller: its framing, which is ours, and its bytes.

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_CLOSE: Final = ("Connection", "close")
_CHUNKED: Final = ("Transfer-Encoding", "chunked")


class Framing(NamedTuple):
    """`fields` to be written, `chunked` coding of the body, whether there is a body at all, and another request after it."""

    fields: Fields
    chunked: bool
    bodiless: bool
    keep_alive: bool


def printable(reason: str) -> str:
    """A reason phrase with nothing in it that could end its line."""
    return _CONTROL.sub("", reason)


def framing(method: str, version: tuple[int, int], status: int, length: int | None, *, keep_alive: bool) -> Framing:
    """How the answer ends (RFC 9112 §6): no body, a length, chunks, or, for HTTP/1.0, the connection's end.

    `length` is the body's, None where it is not known.
    """
    fields: Fields = []
    chunked = False
    bodiless = method == "HEAD" or status in (204, 304)
    if bodiless:
        # A 204 has no length, while HEAD and 304 state that of the answer they stand for (RFC 9110 §8.6).
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
    """The head and the empty line after it; lone surrogates become the bytes they stand for.

    Raises ValueError if a control character would make another message of it.
    """
    lines = [f"HTTP/{version[0]}.{version[1]} {status} {reason}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in fields]
    head = f"{''.join(lines)}\r\n".encode("utf-8", "surrogateescape")
    if head.translate(None, TEXT) != b"\r\n" * (len(lines) + 1):
        raise ValueError("a control character in the head of an answer")
    return head


_MOST_LINES: Final = 1024
_LINE_BYTES: Final = 128
_PASSES, _STAYS, _TYPE, _DATE, _VARY, _LENGTH, _PLAIN_CHUNKED, _PLAIN_CLOSE, _KEEP, _ODD = range(10)
_CHOSEN: Final = {
    "content-type": _TYPE,
    "date": _DATE,
    "vary": _VARY,
    "content-length": _LENGTH,
    "transfer-encoding": _PLAIN_CHUNKED,
    "connection": _PLAIN_CLOSE,
    "keep-alive": _KEEP,
}
_TIMEOUT: Final = re.compile(rb"timeout=[0-9]{1,6}(?:, ?max=[0-9]+)?")
_PROBE: Final = "probe"
_starts: Final[dict[bytes, tuple[int, bytes]]] = {}
_lines: Final[dict[bytes, int]] = {}


class PlainHead(AnswerHead):
    """`lines`: what travels on to the caller, each without its end; `whole` makes fields of the bytes if somebody asks.

    `start`: the status line. `media_type`: the line that names it. `dated`: the provider has said when. `vary`: the line of
    that name, which is not among `lines`.
    """

    __slots__ = ("_raw", "dated", "lines", "media_type", "start", "vary")

    def __init__(self, status: int, start: bytes, raw: bytes) -> None:
        self.status = status
        self.start = start
        self.length = None
        self.chunked = False
        self.keep_s = None
        self.dated = False
        self.media_type = b""
        self.vary = b""
        self.lines: list[bytes] = []
        self._raw = raw

    def learn(self, kind: int, line: bytes) -> bool:
        """Take in a line that says more than its name; False if the head is not plain with it."""
        if kind == _LENGTH and self.length is None:
            self.length = int(line[16:])
        elif kind == _DATE:
            self.dated = True
            self.lines.append(line)
        elif kind == _TYPE and not self.media_type:
            self.media_type = line
            self.lines.append(line)
        elif kind == _VARY and not self.vary and len(line) <= _LINE_BYTES:
            self.vary = line
        elif kind == _PLAIN_CHUNKED and not self.chunked:
            self.chunked = True
        elif kind == _PLAIN_CLOSE:
            self.keep_s = 0.0
        elif kind == _KEEP:
            if self.keep_s is None:
                self.keep_s = float(line[20:].partition(b",")[0])
        else:
            return False
        return True

    def whole(self) -> AnswerHead:
        """Return the head, taken apart."""
        return parse_head(self._raw)


def plain_head(raw: bytes) -> PlainHead | None:
    """The head in `raw`, which ends before the empty line; None if it is to be read by `parse_head`."""
    lines = raw.split(b"\r\n")
    if len(lines) > HEADER_LINES:
        return None
    start = _starts.get(lines[0]) or _start(lines[0])
    if start is None:
        return None
    head = PlainHead(start[0], start[1], raw)
    passing = head.lines
    del lines[0]
    for line in lines:
        kind = _lines.get(line)
        if kind is None:
            kind = _kind(line)
        if kind == _PASSES:
            passing.append(line)
        elif kind != _STAYS and not head.learn(kind, line):
            return None
    if head.chunked and head.length is not None:
        return None
    return head


def remembered() -> int:
    """How many header lines are known."""
    return len(_lines)


def forget() -> None:
    """Forget the header lines that were learned. To be called regularly: a provider may name its users in them."""
    _lines.clear()


def _start(line: bytes) -> tuple[int, bytes] | None:
    """The status of a final answer in HTTP/1.1, and its status line as the caller gets it."""
    try:
        head = parse_head(line)
    except Malformed:
        return None
    if head.status < 200 or not line.startswith(b"HTTP/1.1 "):
        return None
    start = f"HTTP/1.1 {head.status} {printable(head.reason)}".encode("utf-8", "surrogateescape")
    if len(_starts) < _MOST_LINES and len(line) <= _LINE_BYTES:
        _starts[line] = head.status, start
    return head.status, start


def _kind(line: bytes) -> int:
    """Return the kind of a line, judged by itself."""
    name, colon, value = line.partition(b": ")
    text = name.decode("utf-8", "surrogateescape")
    if not colon or value.strip(b" \t") != value or line.translate(None, TEXT):
        return _ODD
    kind = _CHOSEN.get(text.lower())
    try:
        if kind is None:
            kind = _PASSES if headers.response_fields([(text, _PROBE)]) else _STAYS
            if headers.depends_on_value(text):
                return _ODD
    except MalformedAnswer:
        return _ODD
    if kind == _PLAIN_CLOSE:
        kind = {b"close": _PLAIN_CLOSE, b"keep-alive": _STAYS}.get(value.lower(), _ODD)
    elif (
        (kind == _KEEP and not _TIMEOUT.fullmatch(value))
        or (kind == _PLAIN_CHUNKED and value != b"chunked")
        or (kind == _LENGTH and not (value.isdigit() and len(value) <= LENGTH_DIGITS))
    ):
        return _ODD
    if len(line) <= _LINE_BYTES:
        if len(_lines) >= _MOST_LINES:
            _lines.clear()
        _lines[line] = kind
    return kind


# ── Fields that we add to a provider's answer: against harm in browsers and caches, and Server-Timing.
#
# The document gets an origin of its own and runs no script (CSP ``sandbox``), and nothing is sniffed into one. Policies of the
# provider stay: several combine to the strictest. Programs notice none of it.

VARY: Final = "Vary"
NOT_RENDERED: Final[Fields] = [("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", "sandbox")]
CALLED_BY: Final = ("Authorization", "Connection-Id", "Provider-Config-Key", "Base-Url-Override")
"""What chooses the credential and the provider besides the address: answers differ by it (RFC 9110 §12.5.5)."""


_OURS_ALONE: Final = ", ".join(CALLED_BY)


def guarded(fields: Fields, *, by_headers: bool) -> Fields:
    """`fields` of an answer, and ours. `by_headers`: the call named its connection in headers, not in its address."""
    theirs = [field for field in fields if len(field[0]) == 4 and field[0].lower() == "vary"]
    if theirs:
        fields = [field for field in fields if field not in theirs]
    if not by_headers:
        return [*fields, *theirs, *NOT_RENDERED]
    return [*fields, *NOT_RENDERED, (VARY, vary([value for _, value in theirs]) if theirs else _OURS_ALONE)]


def vary(theirs: Sequence[str]) -> str:
    """The provider's `Vary` and ours in one line, since some caches read only one; ``*`` says all there is to say."""
    names = {name.lower(): name for name in (part.strip() for value in theirs for part in value.split(",")) if name}
    if "*" in names:
        return "*"
    return ", ".join((*names.values(), *(name for name in CALLED_BY if name.lower() not in names)))


ATTEMPTS: Final = istr("Gateway-Attempts")
"""How often the call was sent to the provider."""

CONNECT_URL_FIELD: Final = istr("Gateway-Connect-Url")
"""On a 403 that asks for scopes: the link by which the end user grants them."""

# ── ``Server-Timing``: where the time of a proxied call went (W3C Server Timing, §4).

SERVER_TIMING: Final = istr("Server-Timing")


def server_timing(gateway_ms: float, token_ms: float, upstream_ms: float) -> str:
    """The field's value; milliseconds, with two places."""
    token = f"{token_ms:.2f}" if token_ms else "0"
    return f"gateway;dur={gateway_ms:.2f}, token;dur={token}, upstream;dur={upstream_ms:.2f}"
