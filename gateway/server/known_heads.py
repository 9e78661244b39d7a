"""Remembers request heads of the fast path without the values that differ from call to call.

Most callers send the same header lines each time, except for a few values, such as the connection's id, the body's
length, the trace, an idempotency key or a request id. The memory ignores these values, so one remembered head serves
all calls of an application. For each request, the values are checked and put into the outgoing lines, or given to the
MCP endpoint (`gateway.server.fast_message`). `gateway.server.request_lines` reads a head that is not remembered yet.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from hashlib import sha256
from typing import Final, Generic, NamedTuple, TypeVar

from gateway.connections.opened import Placement
from gateway.http.headers import Fields
from gateway.http.request_head import request_head
from gateway.middleware.response_shape import loggable_id
from gateway.middleware.upstream import default_fields
from gateway.records.proxied_call import PROXY_PATH
from gateway.secret import digest
from gateway.server.request_lines import (
    DROPPED,
    MAX_LENGTH_DIGITS,
    PASSED_ON,
    REQUEST_ID,
    TRACE,
    LineKind,
    PassedLines,
    RequestLines,
    line_name,
)

MAX_HEAD_BYTES: Final = 16_384  # maximum size of a head on the fast path or at the MCP endpoint
MAX_HEAD_LINES: Final = 128  # maximum number of its header lines
MAX_KNOWN_HEADS: Final = 1024  # maximum number of remembered heads; a head is remembered when it arrives a second time
MAX_KNOWN_BYTES: Final = 2 * 1024 * 1024  # maximum total size of the lines of the remembered heads
MAX_FORMS: Final = 8  # maximum number of outgoing forms of a remembered head, one for each set of replaced names

HEAD_END: Final = b"\r\n\r\n"

_CONNECTION, _LENGTH = range(2)
_SPECIAL_LINES: Final = {
    b"Connection-Id": _CONNECTION,
    b"connection-id": _CONNECTION,
    b"Content-Length": _LENGTH,
    b"content-length": _LENGTH,
}
# The patterns find the lines above, and lines that are passed on and usually have another value in each call. These are
# the trace headers of OpenTelemetry, Sentry, Datadog, Zipkin and the clouds, request ids, idempotency keys, the method
# and the tool of an MCP message, and conditions such as ``If-None-Match``. The patterns also match some other names,
# because one character class for the first letter is faster. `KnownHead.vary` then checks the exact name.
_FIRST: Final = rb"\r\n([BCIMRSTUXbcimrstux](?:"
_REST: Final = (
    rb"ontent-[Ll]ength|race(?:parent|state)|dempotency-[Kk]ey|f-(?:[Nn]one-[Mm]atch|[Mm]odified-[Ss]ince)|aggage|3|"
    rb"entry-[Tt]race|ber-[Tt]race-[Ii]d|equest-[Ii][Dd]|[Cc][Pp]-(?:[Mm]ethod|[Nn]ame|[Ss]ession-[Ii]d)|"
    rb"-(?:(?:[Rr]equest|[Cc]orrelation|[Tt]race|[Aa]mzn-[Tt]race)-[Ii][Dd]|[Ii]dempotency-[Kk]ey|"
    rb"[Cc]loud-[Tt]race-[Cc]ontext|[Dd]atadog-(?:[Tt]race-[Ii]d|[Pp]arent-[Ii]d|[Tt]ags)|"
    rb"[Bb]3-(?:[Tt]race|[Ss]pan|[Pp]arent[Ss]pan)[Ii]d))): ([^\r]*)"
)
_LINE: Final = re.compile(_FIRST + rb"onnection-[Ii]d|" + _REST)
_LINE_BELOW_CAPABILITY: Final = re.compile(_FIRST + _REST)
PLAIN: Final = re.compile(rb"[!-~](?:[ -~]*[!-~])?")
_BETWEEN: Final = b"\r\n\r\n"  # joins the parts of a head; cannot occur in the header lines


class SplitHead(NamedTuple):
    """Header lines, split into the values that differ from call to call and the remaining text.

    - `digest`: hash of the remaining text. The digest identifies the lines. The lines themselves are not kept, because
      they contain a secret key.
    - `parts`: the remaining text, split at the names of the lines with values: text, name, text, name, …, text
    - `connection_id`, `length`: values of these two lines; None without such a line
    - `values`: all other values, in the order of their lines; each value is printable ASCII without spaces around it
    """

    digest: bytes
    parts: list[bytes]
    connection_id: str | None
    length: int | None
    values: tuple[bytes, ...]


def split_head(lines: bytes, mount: bytes | None) -> SplitHead | None:
    """Split the header lines of a request; return None if the lines must be read one by one.

    `lines`: each line begins with CRLF. `mount`: path of a capability URL; None for ``/proxy`` and ``/mcp``. A
    capability URL identifies the connection itself, so ``Connection-Id`` is an ordinary line there.
    """
    parts = (_LINE if mount is None else _LINE_BELOW_CAPABILITY).split(lines)
    values: list[bytes] = []
    connection_id = length = None
    for index in range(1, len(parts), 3):
        special_line = _SPECIAL_LINES.get(parts[index])
        value = parts[index + 1]
        if special_line is None and PLAIN.fullmatch(value):
            values.append(value)
        elif special_line == _CONNECTION and connection_id is None:
            # The characters need no check, because a malformed id matches no stored connection.
            connection_id = value.strip(b" \t").decode("latin-1")
        elif special_line == _LENGTH and length is None and len(value) <= MAX_LENGTH_DIGITS and value.isdigit():
            length = int(value)
        else:
            return None
    del parts[2::3]
    other_text = _BETWEEN.join(parts)
    return SplitHead(
        sha256(other_text if mount is None else mount + other_text).digest(),
        parts,
        connection_id,
        length,
        tuple(values),
    )


class KnownHead:
    """The meaning of the header lines of requests below `mount`, which is ``/proxy`` or ``/c/<capability>``.

    - `key`: the secret key; empty after the head is remembered, because then only `key_digest` is kept
    - `lines`: the lines of the first request with this head; an `ArrivedHead` has the values of its own request
    - `head_id`: identifies the head in the memory; None if the memory does not have the head
    - `traceparent_at`, `request_id_at`: index of this value among the values that differ; None if the value is the same
      in all requests
    """

    __slots__ = (
        "_defaults",
        "_key_position",
        "_names",
        "_outgoing_forms",
        "head_id",
        "key",
        "key_digest",
        "lines",
        "mount",
        "request_id_at",
        "traceparent_at",
        "value_at",
    )

    def __init__(self, mount: str, key: str, lines: RequestLines) -> None:
        self.mount = mount
        self.key = key
        self.key_digest = digest(key)
        self.lines = lines
        self.head_id: bytes | None = None
        self._key_position: tuple[int, slice] | None = None
        self.value_at: dict[int, int] = {}  # maps a line's index in `lines.passed_lines` to its value's index
        self.traceparent_at: int | None = None
        self.request_id_at: int | None = None
        self._names: frozenset[str] | None = None
        self._outgoing_forms: dict[frozenset[str], OutgoingForm] = {}
        self._defaults: dict[tuple[object, ...], bytes] = {}

    @property
    def names(self) -> frozenset[str]:
        """Names of the lines to pass on, normalized by `headers.normalized_name`."""
        if self._names is None:
            self._names = self.lines.names
        return self._names

    def vary(self, varying: Sequence[tuple[bytes, bytes]]) -> bool:
        """Prepare the head for requests with other values in the lines `varying`.

        `varying`: names and values, in the order of the lines. Return False if that is impossible: each request with
        other values must then be read line by line.
        """
        if varying and self.lines.decided_together:
            return False
        passed_lines = self.lines.passed_lines
        value_at: dict[int, int] = {}
        search_from = 0
        for value_index, (sent_name, value) in enumerate(varying):
            name = line_name(sent_name)
            if name is None or name.kind not in (PASSED_ON, DROPPED, TRACE, REQUEST_ID):
                return False
            if name.kind != DROPPED:
                line_index = passed_lines.index((name, b"%b: %b" % (sent_name, value)), search_from)
                value_at[line_index], search_from = value_index, line_index + 1
        varied_lines = {passed_lines[line_index] for line_index in value_at}
        if any(line in varied_lines for line_index, line in enumerate(passed_lines) if line_index not in value_at):
            return False  # the line that was found may be an equal line with other white space, whose value stays
        first_of_kind: dict[LineKind, int | None] = {}  # if there are several traces or ids, the first is used
        for index, (name, _) in enumerate(passed_lines):
            first_of_kind.setdefault(name.kind, value_at.get(index))
        self.value_at = value_at
        self.traceparent_at, self.request_id_at = first_of_kind.get(TRACE), first_of_kind.get(REQUEST_ID)
        return True

    def forget_key(self, parts: Sequence[bytes]) -> bool:
        """Delete the key, and keep only its position in the `parts` of the head.

        Return False if no part contains the key. A key in a capability URL needs no position, because `mount` has it.
        """
        key, self.key = self.key.encode(), ""
        if self.mount != PROXY_PATH:
            return True
        for number, part in enumerate(parts):
            position = part.find(key)
            if position >= 0:
                self._key_position = number, slice(position, position + len(key))
                return True
        return False

    def key_in_values(self, split: SplitHead) -> bool:
        """Return whether one of the values contains the key.

        The gateway never passes on a line with the key, so such a head must be read line by line.
        """
        if self._key_position is None:
            key = self.mount.rpartition("/")[2].encode()
        else:
            number, position = self._key_position
            key = split.parts[number][position]
        for value in split.values:  # noqa: SIM110 (`any` with a generator takes longer)
            if key in value:
                return True
        return False

    def outgoing_lines(self, replaced_names: frozenset[str], values: tuple[bytes, ...]) -> bytes:
        """Return the lines to pass on, except lines with a name in `replaced_names`. Each line ends with CRLF.

        `values`: the request's own values for the lines that differ from request to request.
        """
        form = self._outgoing_forms.get(replaced_names)
        if form is None:
            form = _outgoing_form(self.lines.passed_lines, replaced_names, self.value_at)
            if len(self._outgoing_forms) >= MAX_FORMS:
                self._outgoing_forms.clear()
            self._outgoing_forms[replaced_names] = form
        template, value_indexes = form
        if value_indexes is None:
            return template
        return template % (
            values
            if len(value_indexes) == len(values)
            else tuple([values[value_index] for value_index in value_indexes])
        )

    def defaults(self, replaced_names: frozenset[str], placement: Placement, *, has_body: bool) -> bytes:
        """Return the default fields of the catalog entry that the request lacks, as lines that end with CRLF.

        Raises ValueError if a value could end its line.
        """
        slot_names = tuple(name.lower() for name, _ in placement.slots)
        cache_key = (replaced_names, slot_names, placement.defaults, has_body)
        lines = self._defaults.get(cache_key)
        if lines is None:
            present_names = {name.lower for name, _ in self.lines.passed_lines if name.spelled not in replaced_names}
            lines = field_lines(default_fields(placement, present_names.union(slot_names), has_body=has_body))
            if len(self._defaults) >= MAX_FORMS:
                self._defaults.clear()
            self._defaults[cache_key] = lines
        return lines


class OutgoingForm(NamedTuple):
    """The lines to pass on.

    `template`: the lines, with a placeholder for each value that differs from request to request. `value_indexes`:
    indexes of the values for the placeholders; None if `template` is the final text for all requests.
    """

    template: bytes
    value_indexes: tuple[int, ...] | None


def _outgoing_form(
    passed_lines: PassedLines, replaced_names: frozenset[str], value_at: Mapping[int, int]
) -> OutgoingForm:
    """Return the outgoing form of the lines in `passed_lines` with a name that is not in `replaced_names`.

    `value_at`: maps the index of a line in `passed_lines` to the index of its value among the values that differ.
    """
    kept_indexes = [index for index, (name, _) in enumerate(passed_lines) if name.spelled not in replaced_names]
    used_values = tuple(value_at[index] for index in kept_indexes if index in value_at)
    if not used_values:
        return OutgoingForm(b"".join(b"%b\r\n" % passed_lines[index][1] for index in kept_indexes), None)
    template = b""
    for index in kept_indexes:
        line = passed_lines[index][1]
        if index in value_at:
            template += b"%b: %%b\r\n" % line.partition(b": ")[0]
        else:
            template += b"%b\r\n" % line.replace(b"%", b"%%")
    return OutgoingForm(template, used_values)


def field_lines(fields: "tuple[tuple[str, str], ...] | Fields") -> bytes:
    """Return the fields as lines that end with CRLF. Raises ValueError if a value could end its line."""
    if not fields:
        return b""
    return request_head("GET", "/", "h", fields).split(b"\r\n", 2)[2][:-2]


def header_lines(data: bytes, request_line: re.Match[bytes]) -> tuple[bytes, int] | None:
    """Return the header lines after the request line, and the position at which the body begins.

    Each line begins with CRLF. Return None if the middleware chain must read the head: if it is incomplete or too long.
    """
    lines_at = request_line.end()
    lines_end = data.find(HEAD_END, lines_at - 2, MAX_HEAD_BYTES)
    return (data[lines_at - 2 : lines_end], lines_end + len(HEAD_END)) if lines_end >= lines_at else None


K = TypeVar("K", bound=KnownHead)


class ArrivedHead(Generic[K]):
    """The head of one request: the parts that it shares with other requests (`known`), and its own values.

    - `length`: the declared length of the body; None if no length is declared
    - `values`: the values that differ from request to request; empty if the head is not remembered
    - `traceparent`: value of this field; None if not sent
    - `request_id`: the caller's request id; None if it is missing or not well-formed
    - `framing`: the framing line of the outgoing request; empty if the head declares no body
    """

    __slots__ = ("connection_id", "framing", "has_body", "known", "length", "request_id", "traceparent", "values")

    def __init__(self, known: K, connection_id: str, length: int | None, values: tuple[bytes, ...] = ()) -> None:
        self.known = known
        self.connection_id = connection_id
        self.length = length
        self.values = values
        self.traceparent = known.lines.traceparent
        self.request_id = known.lines.request_id
        if values:
            if (index := known.traceparent_at) is not None:
                self.traceparent = values[index].decode()
            if (index := known.request_id_at) is not None:
                self.request_id = loggable_id(values[index].decode())
        if known.lines.chunked:
            self.has_body, self.framing = True, b"Transfer-Encoding: chunked\r\n"
        elif length is None:
            self.has_body, self.framing = False, b""
        else:
            self.has_body, self.framing = length > 0, b"Content-Length: %d\r\n" % length

    def vary(self, varying: Sequence[tuple[bytes, bytes]]) -> bool:
        """Let the known head match later requests in which these fields have other values. Return False if the head
        cannot do that.

        `varying`: names and values of the fields in this request, in the order of the lines.
        """
        if not self.known.vary(varying):
            return False
        self.values = tuple(value for _, value in varying)
        return True


T = TypeVar("T")


class HeadMemory(Generic[T]):
    """Remembers heads by an id that is made from their lines.

    Heads can contain secrets, so the owner calls `forget` regularly. `known`: the remembered heads by id. `get`:
    returns the head with an id, or None.
    """

    def __init__(self) -> None:
        self.known: dict[Hashable, T] = {}
        self._bytes = 0
        self._seen_ids: set[Hashable] = set()
        self.get = self.known.get

    def __len__(self) -> int:
        return len(self.known)

    def arrives_again(self, head_id: Hashable) -> bool:
        """Return whether a head has arrived before. A head that never repeats must not fill the memory."""
        if head_id in self._seen_ids:
            return True
        if len(self._seen_ids) >= MAX_KNOWN_HEADS:
            self._seen_ids.clear()
        self._seen_ids.add(head_id)
        return False

    def keep(self, head_id: Hashable, known: T, size: int) -> None:
        """Remember a head, and forget all others first if the memory is full. `size`: size of its lines in bytes."""
        self._bytes += size
        if len(self.known) >= MAX_KNOWN_HEADS or self._bytes > MAX_KNOWN_BYTES:
            self.known.clear()
            self._bytes = size
        self.known[head_id] = known

    def forget(self) -> None:
        self.known.clear()
        self._bytes = 0
        self._seen_ids.clear()


class KnownHeads(HeadMemory[K]):
    """The memory of the heads of proxied requests, or of messages to the MCP endpoint."""

    def find(self, lines: bytes, mount: bytes | None) -> ArrivedHead[K] | None:
        """Return the head if it is remembered; None if its lines must be read one by one.

        `lines`: each line begins with CRLF. `mount`: path of a capability URL; None for ``/proxy`` and ``/mcp``.
        """
        split = split_head(lines, mount)
        known = None if split is None else self.get(split.digest)
        if split is None or known is None or (split.values and known.key_in_values(split)):
            return None
        request_lines = known.lines
        return ArrivedHead(
            known,
            request_lines.options.connection_id if split.connection_id is None else split.connection_id,
            request_lines.length if split.length is None else split.length,
            split.values,
        )

    def remember(self, lines: bytes, mount: bytes | None, head: ArrivedHead[K]) -> None:
        """Remember a head when it arrives for the second time."""
        split, known = split_head(lines, mount), head.known
        if split is None or not self.arrives_again(split.digest):
            return
        names = [name for name in split.parts[1::2] if name not in _SPECIAL_LINES]
        can_find_key = known.forget_key(split.parts) or not split.values
        if can_find_key and head.vary(list(zip(names, split.values, strict=True))):
            known.head_id = split.digest
            self.keep(split.digest, known, len(lines))
