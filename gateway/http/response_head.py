"""Parses the head of a response strictly: a head that two parsers could read differently is refused.

ADR 11 explains why the gateway does not use a C parser. In production mode, the available C parsers accept input that
makes request smuggling possible (obs-fold, bare LF, control bytes), or cannot parse a response to HEAD, which has no
body. This parser also takes only half the time of the C parsers.
"""

import re
from typing import Final

from gateway.http.headers import BYTES_OF_FIELDS, TOKEN, Fields, ascii_lower

MAX_HEAD_BYTES: Final = 65_536
MAX_HEADER_LINES: Final = 256
_STATUS_LINE: Final = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: (.*))?")
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})[ \r]")
_TIMEOUT: Final = re.compile(r"(?:^|[,;\s])timeout\s*=\s*\"?([0-9]{1,6})", re.ASCII)
MAX_LENGTH_DIGITS: Final = 18

_PLAIN, _LENGTH, _CODING, _CONNECTION, _KEEP_ALIVE = range(5)
_MEANINGS: Final = {
    "content-length": _LENGTH,
    "transfer-encoding": _CODING,
    "connection": _CONNECTION,
    "keep-alive": _KEEP_ALIVE,
}
_meaning_by_name: Final[dict[str, int]] = {}
_MAX_KNOWN_NAMES: Final = 512


class MalformedMessage(ValueError):
    """The bytes are not valid, unambiguous HTTP/1.1. The message names the fault and does not quote the bytes."""


class HeadTooLarge(MalformedMessage):
    """The head is larger than `MAX_HEAD_BYTES`. `status`: the status in its first line, or None."""

    def __init__(self, head_start: bytes) -> None:
        super().__init__(f"its head is larger than {MAX_HEAD_BYTES} bytes")
        status_match = _STATUS.match(head_start)
        self.status = None if status_match is None else int(status_match[1])


class ResponseHead:
    """A parsed head.

    `fields`: all header fields, unchanged. `length`: the value of Content-Length, even if no body follows; None if the
    field is missing. `chunked`: whether the body is chunked. `keep_s`: the seconds for which the sender keeps the
    connection open after this response. 0 means that the sender closes the connection; None means that the sender does
    not state a time.
    """

    __slots__ = ("chunked", "fields", "keep_s", "length", "reason", "status")

    def __init__(self, status: int, reason: str, fields: Fields) -> None:
        self.status = status
        self.reason = reason
        self.fields = fields
        self.length: int | None = None
        self.chunked = False
        self.keep_s: float | None = None

    def with_fields(self) -> "ResponseHead":
        """Return a head that has `fields`. A subclass (`passed_head.PlainHead`) parses the fields only here."""
        return self


def parse_head(raw: bytes) -> ResponseHead:
    """Parse the head in `raw` (RFC 9112 §4, §5, §6.3). Raises MalformedMessage.

    `raw` ends before the empty line.
    """
    lines = raw.decode("utf-8", "surrogateescape").split("\r\n")
    if raw.translate(None, BYTES_OF_FIELDS) != b"\r\n" * (len(lines) - 1):
        raise MalformedMessage("it contains a control character, or a line that does not end in CR LF")
    if len(lines) > MAX_HEADER_LINES + 1:
        raise MalformedMessage(f"it has more than {MAX_HEADER_LINES} header lines")
    status_line = _STATUS_LINE.fullmatch(lines[0])
    if status_line is None:
        raise MalformedMessage("its first line is not a status line")
    fields: Fields = []
    framing_fields: list[tuple[int, str]] = []
    for line in lines[1:]:
        name, _, value = line.partition(":")
        field = (name, value.strip(" \t"))
        fields.append(field)
        meaning = _meaning_by_name.get(name)
        if meaning is None:
            meaning = _meaning(name, line)
        if meaning:
            framing_fields.append((meaning, field[1]))
    head = ResponseHead(int(status_line[2]), status_line[3] or "", fields)
    version_1_0 = status_line[1] == "0"
    if framing_fields:
        _set_framing(head, framing_fields, version_1_0=version_1_0)
    elif version_1_0:
        head.keep_s = 0.0
    return head


def _meaning(name: str, line: str) -> int:
    """Return what a header field with this name means for the framing.

    Caches up to `_MAX_KNOWN_NAMES` names. Raises MalformedMessage if the name is invalid.
    """
    if len(name) == len(line) or TOKEN.fullmatch(name) is None:
        raise MalformedMessage("a header line has no proper name (RFC 9112 §5)")
    meaning = _MEANINGS.get(name.lower(), _PLAIN)
    if len(_meaning_by_name) < _MAX_KNOWN_NAMES and len(name) <= 64:
        _meaning_by_name[name] = meaning
    return meaning


def _set_framing(head: ResponseHead, framing_fields: list[tuple[int, str]], *, version_1_0: bool) -> None:
    """Set where the body ends and how long the connection stays open (RFC 9112 §6.3, §9.3). Raises MalformedMessage."""
    lengths: set[str] = set()
    codings: list[str] = []
    options: set[str] = set()
    for meaning, value in framing_fields:
        if meaning == _LENGTH:
            lengths.add(value)
        elif meaning == _CONNECTION:
            options.update([option.strip() for option in value.lower().split(",")])
        elif meaning == _CODING:
            codings.append(ascii_lower(value))
    _set_body_end(head, lengths, codings, version_1_0=version_1_0)
    if "close" in options or (version_1_0 and "keep-alive" not in options):
        head.keep_s = 0.0
        return
    for meaning, value in framing_fields:
        if meaning == _KEEP_ALIVE and (match := _TIMEOUT.search(value.lower())):
            head.keep_s = float(match[1])


def _set_body_end(head: ResponseHead, lengths: set[str], codings: list[str], *, version_1_0: bool) -> None:
    if codings:
        if lengths or version_1_0:
            raise MalformedMessage("it is framed in two ways")
        if codings != ["chunked"]:
            raise MalformedMessage("its transfer coding is not exactly 'chunked'")
        head.chunked = True
    elif lengths:
        length = lengths.pop()
        if lengths or not (length.isascii() and length.isdigit()) or len(length) > MAX_LENGTH_DIGITS:
            raise MalformedMessage("its Content-Length is not a valid number, or there are several")
        head.length = int(length)
