"""A proxied call: the upstream request, its timing, its pages, and its record."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from multidict import CIMultiDict

from gateway import clock
from gateway.origin import origin_of
from gateway.records.provider_call import ClientIdentity
from gateway.records.trace import CallTrace

PROXY_PATH: Final = "/proxy"  # start of the path of a proxied request, unless it uses a capability URL

# ── The request to the provider, which is mutable because several middlewares build it.


@dataclass(frozen=True, slots=True)
class ResponseShape:
    """The part of a response that the caller wants.

    `select`: a parsed JMESPath expression; None: the whole response. `max_bytes`: maximum size of the result in bytes.
    """

    select: Any
    max_bytes: int


@dataclass(slots=True)
class UpstreamRequest:
    """The request to the provider, without its body.

    - `target`: path and query of the request line; they are sent unchanged, with their percent-encoding
    - `headers`: end-to-end fields only; the code that sends the request adds Host and the fields for framing
    - `base_path`: the path of the base URL, with which `target` begins; links in the response that begin with the base
      URL are rewritten to go through the gateway
    - `identity`: the client certificate for mutual TLS; a network connection with this certificate is not used for
      another identity. None: no certificate.
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
        """The origin for comparisons, always with scheme, host and port: ``https://api.example.com:443``."""
        return origin_of(self.scheme, self.host, self.port)

    @property
    def url(self) -> str:
        return self.origin + self.target


# ── The timing and the attempts of one proxied call.


@dataclass(slots=True)
class CallTiming:
    """The times of a request, in seconds of the monotonic clock, and its attempts. Code that waits adds its waiting time.

    - `token_s`: time spent waiting for the store and for token endpoints
    - `upstream_s`: time spent waiting for the provider, from the first attempt to the head of the response that is
      passed on; this includes pauses between attempts, and the time in which the caller sends the body
    - `head_at`: when the head of the gateway's response was sent; None: not sent yet
    - `proxied`: whether the request is a call to a provider with an accepted key
    - `attempts`: number of attempts to send the request to the provider so far
    """

    began: float
    token_s: float = 0.0
    upstream_s: float = 0.0
    head_at: float | None = None
    proxied: bool = False
    attempts: int = 0

    @contextmanager
    def waiting_for_token(self) -> Iterator[None]:
        """Add the time of the block to `token_s`. A surrounding `waiting_for_upstream` block does not count this
        time."""
        began_at = clock.monotonic()
        try:
            yield
        finally:
            self.token_s += clock.monotonic() - began_at

    @contextmanager
    def waiting_for_upstream(self) -> Iterator[None]:
        """Add the block's time to `upstream_s`, minus the time spent waiting for a token."""
        began_at, token_s = clock.monotonic(), self.token_s
        try:
            yield
        finally:
            self.upstream_s += clock.monotonic() - began_at - (self.token_s - token_s)

    def gateway_s(self, now: float) -> float:
        """Return the gateway's own seconds until the head of the response, or until `now` if none was sent."""
        until = now if self.head_at is None else self.head_at
        return max(0.0, until - self.began - self.token_s - self.upstream_s)


# ── A list fetched page by page: the provider's paging scheme, and the position of one call.

PagingType = Literal["cursor", "link", "offset", "graphql"]


@dataclass(frozen=True, slots=True)
class PagingScheme:
    """A provider's paging scheme, with everything that is needed to fetch the next page. The fields have the names that
    catalog entries use.

    `in_body`: lists are requested by POST; the names in the request are then dotted paths in its JSON body.
    """

    type: PagingType
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
    """The position of a page. `scheme`: the paging scheme. `at`: a cursor, an absolute URL or an offset, depending on
    the scheme's type.

    A cursor or offset that is sent in a body is JSON text; `body_digest` is then the digest of the caller's own body.
    """

    scheme: PagingScheme
    at: str
    body_digest: str = ""


@dataclass(frozen=True, slots=True)
class Paging:
    """The paging options of one call.

    - `pages`: the number of pages to read; None: all pages
    - `schemes`: the paging schemes that the first response can have, the best guess first
    - `cursor_named`: whether the caller specified where the response has its cursor
    - `start`: the position at which to continue; None: the beginning
    - `marks`: whether a line with the position follows each page
    - `request_digest`: identifies the call to which a resume cursor belongs
    - `path`: the path of the caller's request, below the base URL
    - `limit`: for a list by POST, the records per page that the caller requests; None: not set
    """

    pages: int | None
    schemes: Sequence[PagingScheme]
    start: Position | None
    marks: bool
    request_digest: str
    cursor_named: bool = False
    path: str = ""
    limit: int | None = None

    @property
    def lists_by_post(self) -> bool:
        """Whether the list is requested by POST; the same for all `schemes`."""
        return bool(self.schemes[0].in_body)


# ── One exchange as the logs store it: caller, target and result; never a query, a header or a body.


class ExchangeRecord(NamedTuple):
    """One exchange. A request to the gateway's own API has empty integration, connection and host.

    - `host`: the provider's host
    - `path`: the path without its query; for a proxied request, the caller's path after ``/proxy``
    - `error_code`: an error code of the gateway, ``client_left`` if the client disconnected, ``cut`` if the provider's
      response was incomplete, or ``stopped`` if the gateway stopped before the end of the response; None: no error of
      the gateway
    - `gateway_ms`, `token_ms`, `upstream_ms`: three parts of the time until the head of a proxied call's response. They
      are the time in the gateway, the wait for the store or a token endpoint, and the wait for the provider. None: the
      request is not a proxied call.
    - `key_id`: the id of the minted key
    - `traceparent`: as the caller sent it (W3C Trace Context §3.2)
    - `rule`: the rule of the key that allowed the call, or the reason for the refusal
    - `attempts`: number of requests sent to the provider
    - `trace`: the data for the spans of a sampled call
    - `tool`: name of the MCP tool that made the call, a tool of the gateway or of the provider
    - `dry_run`: whether the caller asked for a dry run, so that nothing was sent
    """

    # The class is a tuple, because tuples are cheap to create and every request creates one.

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
    dry_run: bool = False
