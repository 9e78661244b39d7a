"""Remembers request heads of the fast path without the values that differ from call to call.

Most callers send the same header lines each time, except for three values: the id of the connection, the length of the
body, and the trace. A head is known by its lines without these values, so one known head serves all connections of an
application. The three values are checked for each request. `gateway.server.request_lines` reads a head that is not
known yet.
"""

import re
from collections.abc import Hashable
from hashlib import sha256
from typing import Final, Generic, TypeVar

from gateway.connections.opened import Placement
from gateway.http.headers import Fields
from gateway.http.request_head import request_head
from gateway.middleware.upstream import default_fields
from gateway.records.trace import TRACEPARENT
from gateway.secret import digest
from gateway.server.request_lines import LENGTH_DIGITS, TRACE, Passing, RequestLines

KNOWN_HEADS: Final = 1024  # heads that are remembered because they arrived twice
KNOWN_BYTES: Final = 2 * 1024 * 1024  # total size of the lines of the remembered heads
FORMS: Final = 8  # outgoing forms that a known head remembers, one for each set of replaced names

_CONNECTION, _LENGTH, _TRACE = range(3)
_KINDS: Final = {
    b"Connection-Id": _CONNECTION,
    b"connection-id": _CONNECTION,
    b"Content-Length": _LENGTH,
    b"content-length": _LENGTH,
    b"Traceparent": _TRACE,
    b"traceparent": _TRACE,
}
# More names than in `_KINDS`, which is faster than exactly those; `split_head` checks the name.
_LINE: Final = re.compile(rb"\r\n([CTct](?:onnection-[Ii]d|ontent-[Ll]ength|raceparent)): ([^\r]*)")
_LINE_BELOW_CAPABILITY: Final = re.compile(rb"\r\n([CTct](?:ontent-[Ll]ength|raceparent)): ([^\r]*)")
TRACE_VALUE: Final = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_TRACE_CHARS: Final = frozenset("0123456789abcdef-")
_BETWEEN: Final = b"\r\n\r\n"  # cannot occur in the header lines

SplitHead = tuple[bytes, list[bytes | None]]
"""The digest of the lines without their values, and the values: connection id, length, trace; None: no such line."""


def split_head(lines: bytes, mount: bytes | None) -> SplitHead | None:
    """Take the values out of a request's header lines; None if one of them occurs twice.

    The digest stands for the lines, because they hold a secret key and are not kept. `lines`: each begins with CRLF.
    `mount`: the path of a capability URL, which names the connection; its lines may only repeat the name.
    """
    parts = (_LINE if mount is None else _LINE_BELOW_CAPABILITY).split(lines)
    values: list[bytes | None] = [None, None, None]
    for at in range(1, len(parts), 3):
        kind = _KINDS.get(parts[at])
        if kind is None or values[kind] is not None:
            return None
        values[kind] = parts[at + 1]
    del parts[2::3]
    rest = _BETWEEN.join(parts)
    return sha256(rest if mount is None else mount + rest).digest(), values


class KnownHead:
    """The meaning of the header lines of a request below `mount`, ``/proxy`` or ``/c/<capability>``.

    `key`: the secret key, of which only `key_digest` is kept. `lines`: the lines of the request that had this head
    first; `ArrivedHead` has the values of each request. `remembered`: the head is in the memory of known heads.
    """

    __slots__ = (
        "_defaults",
        "_may_be_in_trace",
        "_names",
        "_passing",
        "_trace_varies",
        "key_digest",
        "lines",
        "mount",
        "remembered",
    )

    def __init__(self, mount: str, key: str, lines: RequestLines) -> None:
        self.mount = mount
        self.key_digest = digest(key)
        self.lines = lines
        self.remembered = False
        self._may_be_in_trace = _TRACE_CHARS.issuperset(key)
        self._trace_varies = False
        self._names: frozenset[str] | None = None
        self._passing: dict[frozenset[str], tuple[bytes, bytes | None]] = {}
        self._defaults: dict[tuple[object, ...], bytes] = {}

    @property
    def names(self) -> frozenset[str]:
        """Names of the lines to pass on; see `RequestLines.names`."""
        if self._names is None:
            self._names = self.lines.names
        return self._names

    def fits_others(self, trace: bytes | None) -> bool:
        """Return whether the head means the same for requests with other values. `trace`: the request's own.

        A line that holds the key is not passed on, so the trace must not be able to hold the key.
        """
        if trace is None:
            return True
        # The kind is another where all fields decided together, such as `Nango-Proxy-Traceparent` about this one.
        kinds = [name.kind for name, _ in self.lines.passing if name.spelled == TRACEPARENT]
        plain = TRACE_VALUE.fullmatch(trace) is not None
        self._trace_varies = kinds == [TRACE] and plain and not self._may_be_in_trace
        return self._trace_varies

    def passing(self, replaced: frozenset[str], traceparent: str | None) -> bytes:
        """Return the lines to pass on, except those with `replaced` names; each ends with CRLF.

        `traceparent`: the request's own value.
        """
        form = self._passing.get(replaced)
        if form is None:
            form = _outgoing_form(self.lines.passing, replaced, trace_varies=self._trace_varies)
            if len(self._passing) >= FORMS:
                self._passing.clear()
            self._passing[replaced] = form
        before, after = form
        return before if after is None or traceparent is None else b"%b%b%b" % (before, traceparent.encode(), after)

    def defaults(self, replaced: frozenset[str], placement: Placement, *, has_body: bool) -> bytes:
        """Return the entry's default fields that the request lacks, as lines that end with CRLF.

        Raises ValueError like `field_lines`.
        """
        of_slots = tuple(name.lower() for name, _ in placement.slots)
        known_by = (replaced, of_slots, placement.defaults, has_body)
        lines = self._defaults.get(known_by)
        if lines is None:
            present = {name.lower for name, _ in self.lines.passing if name.spelled not in replaced}
            lines = field_lines(default_fields(placement, present.union(of_slots), has_body=has_body))
            if len(self._defaults) >= FORMS:
                self._defaults.clear()
            self._defaults[known_by] = lines
        return lines


def _outgoing_form(passing: Passing, replaced: frozenset[str], *, trace_varies: bool) -> tuple[bytes, bytes | None]:
    """Return the lines before and after the value of ``traceparent``; all of them and None if it does not vary or is
    replaced."""
    before, after = b"", None
    for name, line in passing:
        if name.spelled in replaced:
            continue
        if trace_varies and name.spelled == TRACEPARENT:
            before, after = b"%b%b: " % (before, line.partition(b": ")[0]), b"\r\n"
        elif after is None:
            before = b"%b%b\r\n" % (before, line)
        else:
            after = b"%b%b\r\n" % (after, line)
    return before, after


def field_lines(fields: "tuple[tuple[str, str], ...] | Fields") -> bytes:
    """Return the fields as lines that end with CRLF. Raises ValueError if a value could end its line."""
    if not fields:
        return b""
    return request_head("GET", "/", "h", fields).split(b"\r\n", 2)[2][:-2]


class ArrivedHead:
    """The head of one request.

    `length`: the declared length of the body, None if none is declared. `traceparent`: its value, None if not sent.
    `framing`: the framing line of the outgoing request, empty if the head declares no body.
    """

    __slots__ = ("connection_id", "framing", "has_body", "known", "length", "traceparent")

    def __init__(self, known: KnownHead, connection_id: str, length: int | None, traceparent: str | None) -> None:
        self.known = known
        self.connection_id = connection_id
        self.length = length
        self.traceparent = traceparent
        if known.lines.chunked:
            self.has_body, self.framing = True, b"Transfer-Encoding: chunked\r\n"
        elif length is None:
            self.has_body, self.framing = False, b""
        else:
            self.has_body, self.framing = length > 0, b"Content-Length: %d\r\n" % length


T = TypeVar("T")


class HeadMemory(Generic[T]):
    """Remembers heads, by an id that stands for their lines. They may be secret, so call `forget` regularly.

    `known`: the remembered heads. `get`: as of this dict.
    """

    def __init__(self) -> None:
        self.known: dict[Hashable, T] = {}
        self._bytes = 0
        self._seen: set[Hashable] = set()
        self.get = self.known.get

    def __len__(self) -> int:
        return len(self.known)

    def arrives_again(self, head_id: Hashable) -> bool:
        """Return whether a head arrives for the second time: one that never repeats would only replace others."""
        if head_id in self._seen:
            return True
        if len(self._seen) >= KNOWN_HEADS:
            self._seen.clear()
        self._seen.add(head_id)
        return False

    def keep(self, head_id: Hashable, known: T, size: int) -> None:
        """Remember a head whose lines have `size` bytes."""
        self._bytes += size
        if len(self.known) >= KNOWN_HEADS or self._bytes > KNOWN_BYTES:
            self.known.clear()
            self._bytes = size
        self.known[head_id] = known

    def forget(self) -> None:
        self.known.clear()
        self._bytes = 0
        self._seen.clear()


def plain_values(values: list[bytes | None]) -> bool:
    """Return whether length and trace, as `split_head` returns them, can be used without reading the head's lines."""
    _, length, trace = values
    if length is not None and not (length.isdigit() and len(length) <= LENGTH_DIGITS):
        return False
    return trace is None or TRACE_VALUE.fullmatch(trace) is not None


class KnownHeads:
    """The memory of known heads of proxied requests."""

    def __init__(self) -> None:
        self._memory: HeadMemory[KnownHead] = HeadMemory()
        self.forget = self._memory.forget

    def __len__(self) -> int:
        return len(self._memory)

    def find(self, lines: bytes, mount: bytes | None) -> ArrivedHead | None:
        """Return the head if it is known and its values are plain, else None: it must be read.

        `lines`, `mount`: as for `split_head`.
        """
        split = split_head(lines, mount)
        known = None if split is None else self._memory.get(split[0])
        if split is None or known is None or not plain_values(split[1]):
            return None
        connection, length, trace = split[1]
        read = known.lines
        return ArrivedHead(
            known,
            # Its characters are not checked: an id that no stored connection has opens nothing.
            read.options.connection_id if connection is None else connection.strip(b" \t").decode("latin-1"),
            read.length if length is None else int(length),
            read.traceparent if trace is None else trace.decode("ascii"),
        )

    def remember(self, lines: bytes, mount: bytes | None, known: KnownHead) -> None:
        """Remember a head when it arrives for the second time."""
        split = split_head(lines, mount)
        if split is None or not self._memory.arrives_again(split[0]) or not known.fits_others(split[1][_TRACE]):
            return
        known.remembered = True
        self._memory.keep(split[0], known, len(lines))
