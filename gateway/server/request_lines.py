"""Reads the header lines of a fast path request, each by its name, without parsing the whole head.

The name of a field decides what happens to its line: it is passed on, dropped, used for the body's framing, or read as
an option for the gateway. `gateway.http.headers` and `gateway.http.proxy_options` decide this for each name, and the
reader remembers the decision. If a line needs more than that, such as an unknown `Gateway-…` field or a second `Host`,
`read` returns None, and the middleware chain handles the request.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aiohttp.http_parser import SINGLETON_HEADERS
from multidict import CIMultiDict, CIMultiDictProxy

from gateway.errors import GatewayError
from gateway.http import headers, proxy_options
from gateway.http.headers import (
    BYTES_OF_FIELDS,
    HOP_BY_HOP,
    OPTIONS,
    PROXY_PREFIX,
    Fields,
    is_for_gateway,
    normalized_name,
)
from gateway.http.proxy_options import ProxyOptions
from gateway.http.request_head import CHECKED, check_fields
from gateway.middleware.response_shape import CALLER_REQUEST_ID, loggable_id
from gateway.middleware.who_calls import key_in
from gateway.records.trace import TRACEPARENT

MAX_NAMES: Final = 2048  # maximum number of remembered names
MAX_OPTION_SETS: Final = 4096  # maximum number of remembered sets of options; they are forgotten once a minute
MAX_OPTION_BYTES: Final = 512  # maximum size of the lines of a remembered set; larger sets are parsed each time
_MAX_NAME_BYTES: Final = 128
MAX_LENGTH_DIGITS: Final = 15


# The kind of a line, decided by its name. The kind says what happens to the line.
LineKind = int
PASSED_ON: Final = 0  # passed on to the provider
DROPPED: Final = 1  # not passed on
OPTION: Final = 2  # an option for the gateway
VALUE: Final = 3  # the gateway uses the value: key, host, framing of the body
CONNECTION: Final = 4
REQUEST_ID: Final = 5  # passed on; also the id of the request in the gateway if it is well-formed
TRACE: Final = 6  # ``traceparent``, which is passed on and logged
PREFIXED: Final = 7  # ``Nango-Proxy-X``, which is passed on as ``X``
ONCE: Final = 8  # passed on; the parser refuses a second line with this name
_KINDS: Final = {
    "authorization": VALUE,
    "host": VALUE,
    "content-length": VALUE,
    "transfer-encoding": VALUE,
    "connection": CONNECTION,
}

_NO_OPTIONS: Final = ProxyOptions("", "")
_ONCE: Final = SINGLETON_HEADERS - CHECKED.keys()


class LineName(NamedTuple):
    """The name of a header field.

    `kind`: what happens to a line with this name. `spelled`: the name as normalized by `headers.normalized_name`.
    `lower`: the name in lower case, with its underscores.
    """

    kind: LineKind
    spelled: str
    lower: str


PassedLines = list[tuple[LineName, bytes]]
"""Lines to pass on to the provider, in order, without line ends."""


@dataclass(slots=True)
class RequestLines:
    """The content of a request's header lines.

    - `key`: the bearer key; empty for a capability URL
    - `request_id`: the caller's request id; None if it is missing or not well-formed
    - `length`: the declared length of the body. If `length` is None and `chunked` is False, the head declares no body.
    - `last`: whether the caller closes the connection after this request
    - `passed_lines`: the lines to pass on; of a message to the MCP endpoint, the lines that the MCP endpoint can read
    - `names`: their names, normalized by `headers.normalized_name`
    - `decided_together`: whether the decision about a line depends on other lines
    """

    key: str = field(repr=False)
    options: ProxyOptions
    passed_lines: PassedLines = field(repr=False)
    request_id: str | None
    length: int | None
    chunked: bool
    last: bool
    traceparent: str | None = None
    decided_together: bool = False

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name.spelled for name, _ in self.passed_lines)


class _HeadFacts:
    """The facts from lines that need more than to be passed on.

    - `options`: lines with options for the gateway
    - `values`: values of the fields that `check_fields` checks, by name
    - `unique_names`: names of the fields so far that must not occur again
    - `has_prefixed`: whether a ``Nango-Proxy-…`` field occurred
    """

    __slots__ = ("has_prefixed", "last", "options", "request_id", "traceparent", "unique_names", "values")

    def __init__(self) -> None:
        self.options: list[bytes] = []
        self.values: dict[str, list[str]] = {}
        self.unique_names: list[str] = []
        self.request_id: str | None = None
        self.traceparent: str | None = None
        self.last = self.has_prefixed = False

    def add_line(self, kind: LineKind, field: str, value: bytes, line: bytes) -> bool:
        """Record a line; return False if the middleware chain must handle the request.

        `field`: the name of the line in lower case.
        """
        if kind == OPTION:  # `proxy_options` refuses an option that is sent twice
            self.options.append(line)
        elif kind == VALUE:
            values = self.values
            if field in values:
                values[field].append(value.decode())
            else:
                values[field] = [value.decode()]
        elif kind == CONNECTION:
            option = value.lower()
            self.last = self.last or option == b"close"
            return option in (b"close", b"keep-alive", b"")
        elif kind == REQUEST_ID:
            self.request_id = value.decode() if self.request_id is None else self.request_id
        elif kind == TRACE:
            self.traceparent = value.decode() if self.traceparent is None else self.traceparent
        elif kind == PREFIXED:
            self.has_prefixed = True
        elif kind == ONCE:
            if field in self.unique_names:
                return False
            self.unique_names.append(field)
        return True


class LineReader:
    """Reads request heads; each server has one reader.

    The reader remembers values that can be secret, so the owner calls `forget` regularly.
    """

    def __init__(self) -> None:
        self._names: dict[bytes, LineName | None] = {}
        self._options: dict[tuple[bytes | tuple[str, str] | None, ...], ProxyOptions] = {}

    def forget(self) -> None:
        self._options.clear()
        if len(self._names) >= MAX_NAMES:  # a client without a key can fill this memory
            self._names.clear()

    def read(self, block: bytes, token: str = "", bound_to: tuple[str, str] | None = None) -> RequestLines | None:
        """Return the content of the lines; None if the middleware chain must read the lines.

        `block`: the lines after the request line, without the last line end. `token`: the secret in a capability URL;
        empty without such a URL. `bound_to`: the integration and the connection of the capability URL, or None.
        """
        lines_and_facts = self._read_lines(block)
        if lines_and_facts is None or "host" not in lines_and_facts[1].values:
            return None
        passed_lines, facts = lines_and_facts
        values = facts.values
        authorization = values["authorization"][0] if "authorization" in values else None
        try:
            check_fields(values)
            length = _length(values["content-length"][0]) if "content-length" in values else None
            key = "" if bound_to is not None else key_in(authorization)
            options = self._parse_options(facts.options, bound_to)
            if options.base_url is not None or options.dry_run:
                return None
            has_two_keys = bound_to is not None and authorization is not None
            decided_together = facts.has_prefixed or has_two_keys or _repeats(block, token or key, 0 if token else 1)
            if decided_together:
                passed_lines = _decide_by_fields(passed_lines, authorization, token)
        except (GatewayError, ValueError):
            return None
        request_id = None if facts.request_id is None else loggable_id(facts.request_id)
        chunked = "transfer-encoding" in values
        return RequestLines(
            key, options, passed_lines, request_id, length, chunked, facts.last, facts.traceparent, decided_together
        )

    def message(self, block: bytes, token: str = "") -> RequestLines | None:
        """Return the content of the lines of a message to the MCP endpoint.

        Return None if the middleware chain must read the lines. `token`: the secret in a capability URL; empty without
        such a URL.
        """
        lines_and_facts = self._read_lines(block)
        if lines_and_facts is None:
            return None
        passed_lines, facts = lines_and_facts
        values = facts.values
        if facts.last or facts.has_prefixed or facts.options or not {"host", "content-length"} <= values.keys():
            return None
        authorization = values["authorization"][0] if "authorization" in values else None
        try:
            check_fields(values)
            key = "" if authorization is None else key_in(authorization)
            length = _length(values["content-length"][0])
        except (GatewayError, ValueError):
            return None
        request_id = None if facts.request_id is None else loggable_id(facts.request_id)
        repeated = _repeats(block, token or key, 0 if token else 1)
        return RequestLines(
            key, _NO_OPTIONS, passed_lines, request_id, length, False, False, facts.traceparent, repeated
        )

    def _read_lines(self, block: bytes) -> tuple[PassedLines, _HeadFacts] | None:
        """Read each line on its own; return None if the middleware chain must handle the request."""
        lines = block.split(b"\r\n")
        if block.translate(None, BYTES_OF_FIELDS) != b"\r\n" * (len(lines) - 1) or not (
            block.isascii() or _is_utf8(block)
        ):
            return None
        known_names = self._names
        passed_lines: PassedLines = []
        facts = _HeadFacts()
        for line in lines:
            name, colon, value = line.partition(b": ")
            field_name = known_names.get(name)
            if field_name is None or not colon:
                name, colon, value = line.partition(b":")
                field_name = self._remember_name(name)
                if field_name is None or not colon:
                    return None
            stripped_value = value.strip(b" \t")
            kind = field_name.kind
            if kind == PASSED_ON or kind >= REQUEST_ID:
                passed_lines.append(
                    (
                        field_name,
                        line if stripped_value is value and colon == b": " else b"%b: %b" % (name, stripped_value),
                    )
                )
            if kind > DROPPED and not facts.add_line(kind, field_name.lower, stripped_value, line):
                return None
        return passed_lines, facts

    def _remember_name(self, name: bytes) -> LineName | None:
        """Return the meaning of a field name, as `line_name` does, and remember it."""
        if name in self._names:
            return self._names[name]
        field_name = line_name(name)
        if len(self._names) < MAX_NAMES and len(name) <= _MAX_NAME_BYTES:
            self._names[name] = field_name
        return field_name

    def _parse_options(self, option_lines: list[bytes], bound_to: tuple[str, str] | None) -> ProxyOptions:
        """Return the options in these lines, from memory if possible. Raises InvalidRequest."""
        cache_key = (bound_to, *option_lines)
        options = self._options.get(cache_key)
        if options is None:
            fields: CIMultiDict[str] = CIMultiDict()
            for option in option_lines:
                name, _, value = option.decode().partition(":")
                fields.add(name, value.strip(" \t"))
            options = proxy_options.parse_proxy_options(CIMultiDictProxy(fields), bound_to)
            if sum(map(len, option_lines)) <= MAX_OPTION_BYTES:  # limits the memory, because no key is checked yet
                if len(self._options) >= MAX_OPTION_SETS:
                    self._options.clear()
                self._options[cache_key] = options
        return options


def line_name(name: bytes) -> LineName | None:
    """Return the meaning of a field name; None if the middleware chain must handle a request with this field."""
    try:
        text = name.decode("ascii")
    except UnicodeDecodeError:
        return None
    if not headers.is_token(text):
        return None
    spelled, lower = normalized_name(text), text.lower()
    kind = OPTION if spelled in OPTIONS else _KINDS.get(spelled)
    if kind is not None:
        return LineName(kind, spelled, lower) if spelled == lower else None
    if (
        spelled in HOP_BY_HOP
        or spelled in CHECKED
        or spelled in ("origin", headers.SERVICE_WORKER)
        or spelled.startswith("gateway-")
    ):
        return None
    if lower.startswith(PROXY_PREFIX):
        return LineName(PREFIXED, spelled, lower)
    if is_for_gateway(spelled):
        return LineName(DROPPED, spelled, lower)
    if lower in _ONCE:
        return LineName(ONCE, spelled, lower)
    kind = REQUEST_ID if lower == CALLER_REQUEST_ID.lower() else TRACE if lower == TRACEPARENT else PASSED_ON
    return LineName(kind, spelled, lower)


def _length(text: str) -> int:
    """Return the number in a Content-Length field. Raises ValueError for an unusual value, which aiohttp's parser then
    handles."""
    if not (text.isascii() and text.isdigit()) or len(text) > MAX_LENGTH_DIGITS:
        raise ValueError("an odd length")
    return int(text)


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _repeats(block: bytes, secret: str, times: int) -> bool:
    """Return whether `secret` occurs more than `times` times in the head: another field then contains it too."""
    return bool(secret) and block.count(secret.encode()) > times


def _decide_by_fields(passed_lines: PassedLines, key: str | None, token: str) -> PassedLines:
    """Return the lines to pass on, with the function that the middleware chain calls for all fields together.

    `key`: value of ``Authorization``; None if not sent. `token`: secret in a capability URL; empty without such a URL.
    Raises InvalidRequest.
    """
    fields: Fields = [] if key is None else [("Authorization", key)]
    for _, line in passed_lines:
        name, _, value = line.decode().partition(": ")
        fields.append((name, value))
    kept_fields = headers.request_fields(fields, token)
    return [
        (LineName(PASSED_ON, normalized_name(name), name.lower()), f"{name}: {value}".encode())
        for name, value in kept_fields
    ]
