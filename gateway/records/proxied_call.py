"""A proxied call: the request in the making, where its time went, its pages, and its record."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from multidict import CIMultiDict

from gateway import clock
from gateway.authority import origin_of
from gateway.records.provider_call import ClientIdentity
from gateway.records.trace import CallTrace

# ── The request in the making: what will be sent to the provider. The one mutable record.


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """The part of an answer that the caller wants.

    `select`: a JMESPath expression as it was parsed, None for all; at most `max_bytes`.
    """

    select: Any
    max_bytes: int


@dataclass(slots=True)
class UpstreamRequest:
    """Where it goes and what it says, without its body.

    `target` is the request line's path and query as it will be written, percent-encoding untouched.
    `headers` holds end-to-end fields only; framing and Host are written by the sender.
    `base_path` is how `target` begins: links in the answer that lead below it are turned to lead through us.
    `identity` is shown in mutual TLS; connections made with it serve nobody else.
    """

    method: str
    scheme: str
    host: str
    port: int
    target: str
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)
    base_path: str = ""
    identity: ClientIdentity | None = None

    @property
    def origin(self) -> str:
        """``https://api.example.com:443``: scheme, host and port always spelled out, for comparing."""
        return origin_of(self.scheme, self.host, self.port)

    @property
    def url(self) -> str:
        return self.origin + self.target


# ── Where the time of one proxied call went.


@dataclass(slots=True)
class Timing:
    """Seconds, by the monotonic clock; code that waits for something adds what it took.

    `token_s`: for the store and for token endpoints. `upstream_s`: for the provider, from the first attempt to the head of
    the answer that is passed on, waits between attempts and the caller's own body included. `head_at`: when the head of
    our answer left, None while it has not. `proxied`: on the way to a provider, its key accepted.
    """

    began: float
    token_s: float = 0.0
    upstream_s: float = 0.0
    head_at: float | None = None
    proxied: bool = False

    @contextmanager
    def waiting_for_token(self) -> Iterator[None]:
        """Add the time of the block to `token_s`; where `upstream_s` is being measured, it does not count there."""
        began = clock.monotonic()
        try:
            yield
        finally:
            self.token_s += clock.monotonic() - began

    @contextmanager
    def waiting_for_upstream(self) -> Iterator[None]:
        """Add the time of the block to `upstream_s`, less what was waited for a token meanwhile."""
        began, token_s = clock.monotonic(), self.token_s
        try:
            yield
        finally:
            self.upstream_s += clock.monotonic() - began - (self.token_s - token_s)

    def gateway_s(self, now: float) -> float:
        """Return the gateway's own seconds until the head of the answer, or until `now` if none has left."""
        until = now if self.head_at is None else self.head_at
        return max(0.0, until - self.began - self.token_s - self.upstream_s)


# ── A list fetched page by page: how its provider cuts it, and how far one call has come.

Kind = Literal["cursor", "link", "offset", "graphql"]


@dataclass(frozen=True, slots=True)
class Way:
    """A way in which a provider cuts lists, complete enough to follow. The names are those of a catalog entry.

    `in_body`: lists are requested by POST, and the names in the request are dotted paths in its JSON body.
    """

    type: Kind
    cursor_path_in_response: str | None = None
    cursor_name_in_request: str | None = None
    limit_name_in_request: str | None = None
    response_path: str | None = None
    has_more_path_in_response: str | None = None
    link_rel_in_response_header: str | None = None
    link_path_in_response_body: str | None = None
    offset_name_in_request: str | None = None
    offset_start_value: int | None = None
    offset_calculation_method: Literal["per-page", "by-response-size"] | None = None
    in_body: bool | None = None
    next_path_in_request: str | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page lies: `at` is the cursor, the absolute address or the offset, by the way's type.

    A cursor or offset that goes into a body is JSON text. `body_digest`: of the body that the caller sent with such a call.
    """

    way: Way
    at: str
    body_digest: str = ""


@dataclass(frozen=True, slots=True)
class Paging:
    """How one call asked to be paged.

    `pages`: how many answers to read, None for all. `ways`: what the first answer may turn out to be, best first.
    `cursor_named`: the caller said where the cursor is.
    `start`: the position to go on from, None for the beginning. `marks`: a line after each page shows how far it came.
    `request_digest` names the call that a resume cursor belongs to. `path`: of the caller's request, below the base address.
    `limit`: records a page, where that goes into the body.
    """

    pages: int | None
    ways: Sequence[Way]
    start: Position | None
    marks: bool
    request_digest: str
    cursor_named: bool = False
    path: str = ""
    limit: int | None = None

    @property
    def in_body(self) -> bool:
        """Whether the list is requested by POST: all ways or none."""
        return bool(self.ways[0].in_body)


# ── One exchange as the logs keep it: who, where to, how it went; never a query, a header or a body.


class ExchangeRecord(NamedTuple):
    """`path` has no query; of a proxied request it is what the caller wrote after ``/proxy``, and `host` the provider's.

    A request to our own API has no integration, connection or host: these are empty. `error_code` is ours,
    ``client_left``, ``cut``, or ``stopped`` where the gateway stopped and could not wait; None where the answer went out as
    it came.

    `gateway_ms`, `token_ms` and `upstream_ms` say how the time until the head of a proxied call's answer was spent: in
    the gateway, waiting for the store or a token endpoint, waiting for the provider. None for every other request.
    `key_id`: of a minted key. `traceparent`: as the caller sent it (W3C Trace Context §3.2). `rule`: of the key's rules the
    one that allows the call, or what refused it. `attempts`: sent to the provider. `trace`: of a sampled call, from which its
    spans are made. `tool`: by which an agent made the call, at our door or of the provider's MCP server.
    """

    # A tuple, since one is made for each request.

    at: datetime
    request_id: str
    environment: str
    integration_id: str
    connection_id: str
    method: str
    host: str
    path: str
    status: int
    duration_ms: float
    bytes_in: int
    bytes_out: int
    error_code: str | None = None
    gateway_ms: float | None = None
    token_ms: float | None = None
    upstream_ms: float | None = None
    key_id: int | None = None
    traceparent: str | None = None
    rule: str | None = None
    attempts: int = 1
    trace: CallTrace | None = None
    tool: str | None = None
