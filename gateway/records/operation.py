"""The records of the call log: one operation per row, and the filter that searches them."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, get_args

from gateway.records.proxied_call import ExchangeRecord
from gateway.records.trace import RefreshTrace, trace_id_in

OperationKind = Literal["call", "refresh", "authorization", "delivery", "webhook"]
KINDS: Final[tuple[OperationKind, ...]] = get_args(OperationKind)


class Operation(NamedTuple):
    """One operation. An operation never contains a query, a header or a body.

    The kinds of operations:

    - ``call``: a request to ``/proxy``; `path` is the caller's path after ``/proxy``
    - ``refresh``: a refresh of a connection's token
    - ``authorization``: an end user's attempt to connect
    - ``delivery``: one attempt to deliver an event
    - ``webhook``: a webhook that a provider sent

    The members:

    - `request_id`: the id of the request that caused the operation, so that all operations of a request can be found
    - `trace_id`: 32 hex digits
    - `key_id`: the id of the minted key
    - `rule`: the rule of the key that allowed the call, or the reason for the refusal
    - `status`: the status of the response; 0: there was no response
    - `error_code`: None on success
    - `gateway_ms`, `token_ms`, `upstream_ms`: the parts of a call's time: in the gateway, waiting for the store or a
      token endpoint, and waiting for the provider
    - `detail`: more data, which depends on the kind
    - `trace`: the trace of a refresh. Not stored, because only the span needs it.
    - `cause`: the ``traceparent`` of the request that caused the operation. Not stored, because only the span needs it.
    """

    kind: OperationKind
    at: datetime
    request_id: str
    environment: str
    integration_id: str = ""
    connection_id: str = ""
    method: str = ""
    host: str = ""
    path: str = ""
    status: int = 0
    error_code: str | None = None
    duration_ms: float = 0.0
    gateway_ms: float | None = None
    token_ms: float | None = None
    upstream_ms: float | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    key_id: int | None = None
    trace_id: str | None = None
    rule: str | None = None
    attempts: int = 1
    detail: Mapping[str, Any] | None = None
    trace: RefreshTrace | None = None
    cause: str | None = None


RecordOperation = Callable[[Operation], None]

current_request_id: ContextVar[str] = ContextVar("current_request_id", default="")
"""The id of the request that started the current work; empty for work that no request started."""


def call_operation(exchange: ExchangeRecord) -> Operation:
    """Return a proxied request as an operation."""
    return Operation(
        "call",
        exchange.at,
        exchange.request_id,
        exchange.environment,
        exchange.integration_id,
        exchange.connection_id,
        exchange.method,
        exchange.host,
        exchange.path,
        exchange.status,
        exchange.error_code,
        exchange.duration_ms,
        exchange.gateway_ms,
        exchange.token_ms,
        exchange.upstream_ms,
        exchange.bytes_in,
        exchange.bytes_out,
        exchange.key_id,
        trace_id_in(exchange.traceparent),
        exchange.rule,
        exchange.attempts,
        call_detail(exchange),
    )


def call_detail(exchange: ExchangeRecord) -> Mapping[str, Any] | None:
    """Return the `detail` of a call: the name of the MCP tool that made it, and whether it was a dry run."""
    if exchange.dry_run:
        return {"dry_run": True} if exchange.tool is None else {"tool": exchange.tool, "dry_run": True}
    return None if exchange.tool is None else {"tool": exchange.tool}


@dataclass(frozen=True, slots=True)
class StoredOperation:
    """A stored operation. `id` increases in the order in which operations were stored."""

    id: int
    operation: Operation


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """A search in the call log; None or empty matches anything.

    - `since`, `until`: the time range, from `since` up to but not including `until`
    - `connections`: pairs of integration and connection; one pair must match; None: any connection
    - `key_ids`: ids of minted keys; one id must match
    - `error_codes`: one code must match
    - `excluded_codes`: operations with these codes do not match
    - `status`: lowest and highest status
    - `text`: a text in the path, code or detail, ignoring case
    - `tool`: name of the MCP tool that made the call
    - `after`, `before`: only operations stored later or earlier than the operation with this id
    """

    environment: str
    since: datetime | None = None
    until: datetime | None = None
    kind: OperationKind | None = None
    integration_id: str | None = None
    connection_id: str | None = None
    connections: frozenset[tuple[str, str]] | None = None
    key_ids: frozenset[int] = frozenset()
    status: tuple[int, int] | None = None
    failed: bool | None = None
    error_codes: frozenset[str] = frozenset()
    excluded_codes: frozenset[str] = frozenset()
    method: str | None = None
    path: str | None = None
    text: str | None = None
    tool: str | None = None
    request_id: str | None = None
    trace_id: str | None = None
    after: int | None = None
    before: int | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class OperationPage:
    """A page of results, the newest first. `more`: whether there may be more results.

    If the search timed out, `searched_to` is the id down to which the log was searched, and `searched_until` is roughly
    the time at that place in the log.
    """

    operations: list[StoredOperation] = field(default_factory=list)
    more: bool = False
    searched_to: int | None = None
    searched_until: datetime | None = None

    @property
    def following(self) -> int | None:
        """The value of `before` for the next page; None: this is the last page."""
        if not self.more:
            return None
        return self.searched_to if self.searched_to is not None else self.operations[-1].id


def status_range(text: str) -> tuple[int, int] | None:
    """Return ``404`` as (404, 404), ``4xx`` as (400, 499), and None for anything else."""
    if len(text) == 3 and text[0] in "12345" and text[1:].lower() == "xx":
        return int(text[0]) * 100, int(text[0]) * 100 + 99
    if len(text) == 3 and text.isascii() and text.isdigit():
        return int(text), int(text)
    return None
