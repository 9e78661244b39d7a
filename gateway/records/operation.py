"""The records of the call log: one operation a row, and the filter that searches them."""

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
    """Never a query, a header or a body.

    ``call``: a request to ``/proxy``; `path` is what the caller wrote after it. ``refresh``: of a connection's token.
    ``authorization``: an end user's attempt to connect. ``delivery``: one attempt to hand an event over. ``webhook``: one
    of a provider's, received.

    `request_id`: of the request that it belongs to, so that all that happened under it is found together. `trace_id`: 32 hex
    digits. `key_id`: of a minted key. `rule`: of the key's rules the one that allowed the call, or the word for what refused
    it. `status`: of the answer, 0 where there was none. `error_code`: None where it went well. Times in milliseconds, parts
    of a call's as in `ExchangeRecord`. `detail`: what else is known, by kind. Not stored, for its span: `trace` of a refresh;
    `cause`: the ``traceparent`` of what led to it.
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

request_in_hand: ContextVar[str] = ContextVar("request_in_hand", default="")
"""The id of the request that what goes on was begun by; empty where it began by itself."""


def call(exchange: ExchangeRecord) -> Operation:
    """A proxied request as an operation."""
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


def call_detail(exchange: ExchangeRecord) -> Mapping[str, str] | None:
    """`detail` of a call: the tool by which an agent made it."""
    return None if exchange.tool is None else {"tool": exchange.tool}


@dataclass(frozen=True, slots=True)
class StoredOperation:
    """`id` rises with the order in which operations were stored."""

    id: int
    operation: Operation


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """A search in the call log; what is None or empty does not matter.

    `since` and `until`: from the one to just before the other. `connections`: (integration, connection) of which one must
    fit; None: any. `key_ids`, `error_codes`: one of them; empty: any. `excluded_codes`: none of them. `status`: from the one to
    the other, both included. `text`: somewhere in path, code or detail, upper and lower case alike. `tool`: by which an agent
    made the call. `after`: stored later than the operation of this id; `before`: earlier.
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
    """Newest first. `more`: whether others may follow; where time ran out, `searched_to` is the id down to
    which was looked, and `searched_until` about its time."""

    operations: list[StoredOperation] = field(default_factory=list)
    more: bool = False
    searched_to: int | None = None
    searched_until: datetime | None = None

    @property
    def following(self) -> int | None:
        """The `before` with which a search goes on; None where nothing is left."""
        if not self.more:
            return None
        return self.searched_to if self.searched_to is not None else self.operations[-1].id


def status_range(text: str) -> tuple[int, int] | None:
    """``404`` ▸ (404, 404); ``4xx`` ▸ (400, 499); None for all else."""
    if len(text) == 3 and text[0] in "12345" and text[1:].lower() == "xx":
        return int(text[0]) * 100, int(text[0]) * 100 + 99
    if len(text) == 3 and text.isascii() and text.isdigit():
        return int(text), int(text)
    return None
