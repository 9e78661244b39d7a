"""Turns records into spans, by OpenTelemetry's stable semantic conventions. Imported only if tracing is on.

A span has only the attributes that are set here. No query, header field, body or credential becomes an attribute
(docs/tracing.md).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from gateway.records.operation import Operation
from gateway.records.proxied_call import PROXY_PATH, ExchangeRecord
from gateway.records.trace import (
    SAMPLED,
    TOOL_ERROR,
    AttemptTrace,
    CallTrace,
    McpTrace,
    RefreshTrace,
    new_span_id,
    parent_in,
)

SCOPE: Final = InstrumentationScope("integration-gateway")
KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"})
OTHER_METHOD: Final = "_OTHER"  # the name that OpenTelemetry's conventions give to an unknown method
ANY_PATH: Final = "/{path}"
CUT: Final = "cut"  # the provider's response was incomplete
REFRESH_OUTCOMES: Final = {True: "refused", False: "unavailable"}  # by whether the failure is final

Attributes = dict[str, str | int | float | bool]
_FAILED: Final = Status(StatusCode.ERROR)
_UNSET: Final = Status()
_NS_PER_S: Final = 1_000_000_000


class CachedHashResource(Resource):
    """A resource that computes its hash once.

    The exporter hashes the resource of each span. For this, `Resource` would serialize itself to JSON each time: a third
    of a span's cost.
    """

    def __init__(self, resource: Resource) -> None:
        super().__init__(resource.attributes, resource.schema_url)
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)


class SpanMaker:
    """Makes spans from records. `connection_ids`: whether spans contain the connection's id."""

    def __init__(self, resource: Resource, *, connection_ids: bool = False) -> None:
        self._resource = CachedHashResource(resource)
        self._connection_ids = connection_ids

    def spans_of_call(self, exchange: ExchangeRecord) -> Iterator[ReadableSpan]:
        """Yield the span of the call, then a span for each request to the provider. `exchange` must have a trace."""
        call = exchange.trace
        assert call is not None
        ended_at = round(exchange.at.timestamp() * _NS_PER_S)
        began_at = ended_at - round(exchange.duration_ms * 1_000_000)
        method = exchange.method if exchange.method in KNOWN_METHODS else OTHER_METHOD
        route = _route(exchange)
        attributes: Attributes = {
            "http.request.method": method,
            "http.response.status_code": exchange.status,
            "url.path": exchange.path if exchange.gateway_ms is None else f"{PROXY_PATH}{exchange.path}",
            "gateway.request_id": exchange.request_id,
        }
        if route is not None:
            attributes["http.route"] = route
        _add_attribute(attributes, "gen_ai.tool.name", exchange.tool)
        _add_attribute(attributes, "gateway.environment", exchange.environment)
        _add_attribute(attributes, "gateway.integration", exchange.integration_id)
        _add_attribute(attributes, "gateway.key_id", exchange.key_id)
        _add_attribute(attributes, "gateway.rule", exchange.rule)
        _add_attribute(attributes, "gateway.token_ms", round(exchange.token_ms, 3) if exchange.token_ms else None)
        _add_attribute(
            attributes, "error.type", exchange.error_code or (str(exchange.status) if exchange.status >= 500 else None)
        )
        if self._connection_ids:
            _add_attribute(attributes, "gateway.connection_id", exchange.connection_id)
        failed = exchange.status >= 500 or exchange.error_code in (CUT, "stopped")
        name = "HTTP" if method == OTHER_METHOD else method
        name = name if route is None else f"{name} {route}"
        if call.mcp is not None:
            name, failed = _add_mcp_attributes(call.mcp, attributes), failed or call.mcp.error is not None
        yield self._span(
            name,
            call,
            call.span_id,
            call.parent_id,
            SpanKind.SERVER,
            (began_at, ended_at),
            attributes,
            failed=failed,
            parent_is_remote=True,
            links=[_link(refresh) for refresh in call.waited_for if refresh.exported],
        )
        for number, attempt in enumerate(call.attempts):
            is_last = number + 1 == len(call.attempts)
            yield self._attempt(exchange, call, attempt, number, began_at, ended_at, is_last=is_last)

    def _attempt(
        self,
        exchange: ExchangeRecord,
        call: CallTrace,
        attempt: AttemptTrace,
        number: int,
        call_began_at: int,
        call_ended_at: int,
        *,
        is_last: bool,
    ) -> ReadableSpan:
        """Return the span of one request to the provider.

        If the response was passed on to the caller, the span ends with the call. Otherwise, the span ends when the
        response's head arrived or the request failed.
        """
        method = exchange.method if exchange.method in KNOWN_METHODS else OTHER_METHOD
        began_at = call_began_at + round((attempt.began - call.began) * _NS_PER_S)
        if attempt.ended is None or (is_last and attempt.error is None):
            ended_at = call_ended_at
        else:
            ended_at = call_began_at + round((attempt.ended - call.began) * _NS_PER_S)
        attributes: Attributes = {
            "http.request.method": method,
            "server.address": attempt.host,
            "server.port": attempt.port,
        }
        _add_attribute(attributes, "http.request.resend_count", number or None)
        _add_attribute(attributes, "network.peer.address", attempt.peer)
        _add_attribute(attributes, "http.response.status_code", attempt.status)
        error = attempt.error
        if error is None and (attempt.status is None or (is_last and exchange.error_code == CUT)):
            error = exchange.error_code or "unknown"
        elif error is None and attempt.status is not None and attempt.status >= 400:
            error = str(attempt.status)
        _add_attribute(attributes, "error.type", error)
        name = "HTTP" if method == OTHER_METHOD else method
        times = (min(began_at, call_ended_at), max(min(ended_at, call_ended_at), min(began_at, call_ended_at)))
        return self._span(
            name, call, attempt.span_id, call.span_id, SpanKind.CLIENT, times, attributes, failed=error is not None
        )

    def spans_of_operation(self, operation: Operation, parent: CallTrace | None) -> Iterator[ReadableSpan]:
        """Yield the span of a refresh or a delivery; other operations have no span.

        `parent`: the trace that the span belongs to; None: the span begins a new trace.
        """
        if operation.kind == "refresh":
            yield self._refresh(operation, parent)
        elif operation.kind == "delivery":
            yield self._delivery(operation, parent)

    def _refresh(self, operation: Operation, parent: CallTrace | None) -> ReadableSpan:
        trace, detail = operation.trace, operation.detail or {}
        ended_at = round(operation.at.timestamp() * _NS_PER_S)
        started_at = ended_at - round(operation.duration_ms * 1_000_000)
        attributes = self._connection_attributes(operation)
        is_final = bool(detail.get("final"))
        attributes["gateway.refresh.outcome"] = (
            "renewed" if operation.error_code is None else REFRESH_OUTCOMES[is_final]
        )
        _add_attribute(attributes, "oauth.error", operation.error_code)
        _add_attribute(attributes, "error.type", operation.error_code)
        span_id = new_span_id()
        if trace is not None:
            span_id = trace.span_id
            requested_at = trace.began if trace.left_queue_at is None else trace.left_queue_at
            attributes["gateway.refresh.waited_ms"] = round((requested_at - trace.began) * 1000, 3)
            if trace.ended is not None:
                started_at = ended_at - round((trace.ended - requested_at) * _NS_PER_S)
        parent_id = parent.span_id if parent is not None and trace is not None and trace.parent_call is parent else None
        return self._span(
            "token.refresh",
            parent,
            span_id,
            parent_id,
            SpanKind.CLIENT,
            (started_at, ended_at),
            attributes,
            failed=operation.error_code is not None,
        )

    def _delivery(self, operation: Operation, parent: CallTrace | None) -> ReadableSpan:
        detail = operation.detail or {}
        ended_at = round(operation.at.timestamp() * _NS_PER_S)
        attributes = self._connection_attributes(operation)
        attributes["http.request.method"] = "POST"
        attributes["gateway.event.attempt"] = operation.attempts
        _add_attribute(attributes, "gateway.event.type", detail.get("what"))
        _add_attribute(attributes, "gateway.event.id", detail.get("webhook_id"))
        _add_attribute(attributes, "gateway.event.target", detail.get("target"))
        _add_attribute(attributes, "http.request.resend_count", operation.attempts - 1 or None)
        _add_attribute(attributes, "http.response.status_code", operation.status or None)
        _add_attribute(attributes, "error.type", operation.error_code)
        cause = parent_in(operation.cause)
        links = [] if cause is None else [Link(_context(cause.trace_id, cause.span_id, cause.flags, remote=True))]
        return self._span(
            "event.deliver",
            parent,
            new_span_id(),
            None,
            SpanKind.CLIENT,
            (ended_at - round(operation.duration_ms * 1_000_000), ended_at),
            attributes,
            failed=operation.error_code is not None,
            links=links,
        )

    def _connection_attributes(self, operation: Operation) -> Attributes:
        attributes: Attributes = {"gateway.environment": operation.environment}
        _add_attribute(attributes, "gateway.integration", operation.integration_id)
        _add_attribute(attributes, "gateway.request_id", operation.request_id)
        if self._connection_ids:
            _add_attribute(attributes, "gateway.connection_id", operation.connection_id)
        return attributes

    def _span(
        self,
        name: str,
        trace: CallTrace | None,
        span_id: str,
        parent_id: str | None,
        kind: SpanKind,
        times: tuple[int, int],
        attributes: Mapping[str, str | int | float | bool],
        *,
        failed: bool,
        parent_is_remote: bool = False,
        links: list[Link] | None = None,
    ) -> ReadableSpan:
        trace_id = new_span_id() + new_span_id() if trace is None else trace.trace_id
        flags = SAMPLED if trace is None else trace.flags
        return ReadableSpan(
            name=name,
            context=_context(trace_id, span_id, flags),
            parent=None if parent_id is None else _context(trace_id, parent_id, flags, remote=parent_is_remote),
            resource=self._resource,
            attributes=attributes,
            links=links or (),
            kind=kind,
            status=_FAILED if failed else _UNSET,
            start_time=times[0],
            end_time=times[1],
            instrumentation_scope=SCOPE,
        )


def _add_mcp_attributes(mcp: McpTrace, attributes: Attributes) -> str:
    """Add the attributes of a message to the MCP endpoint, and return the span's name.

    The names are those of OpenTelemetry's conventions for MCP servers (semantic-conventions-genai).
    """
    attributes["mcp.method.name"] = mcp.method
    attributes["mcp.protocol.version"] = mcp.revision
    attributes["jsonrpc.request.id"] = mcp.message_id
    attributes["network.protocol.name"] = "http"
    attributes["network.transport"] = "tcp"
    if mcp.error is not None:
        attributes["error.type"] = mcp.error
    if mcp.error is not None and mcp.error != TOOL_ERROR:
        attributes["rpc.response.status_code"] = mcp.error
    if mcp.method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
    if mcp.tool is None:
        return mcp.method
    attributes["gen_ai.tool.name"] = mcp.tool
    return f"{mcp.method} {mcp.tool}"


def span_count(record: ExchangeRecord | Operation) -> int:
    """Return the number of spans that are made from `record`."""
    if isinstance(record, Operation):
        return 1
    return 1 + (0 if record.trace is None else len(record.trace.attempts))


def _route(exchange: ExchangeRecord) -> str | None:
    """Return the template of the request's path, such as ``/proxy/{path}``.

    For a proxied call, the template is the path of the key's rule that allowed the call. The path itself is never
    returned, because it can contain ids.
    """
    rule, call = exchange.rule, exchange.trace
    if rule is not None and " /" in rule:
        return f"{PROXY_PATH}{rule.partition(' ')[2]}"
    if call is not None and call.route is not None:
        return call.route
    return f"{PROXY_PATH}{ANY_PATH}" if exchange.host else None


def _context(trace_id: str, span_id: str, flags: int, *, remote: bool = False) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=remote, trace_flags=TraceFlags(flags))


def _link(refresh: RefreshTrace) -> Link:
    assert refresh.parent_call is not None
    return Link(_context(refresh.parent_call.trace_id, refresh.span_id, refresh.parent_call.flags))


def _add_attribute(attributes: Attributes, name: str, value: object) -> None:
    """Add the attribute `name`, unless `value` is None or empty."""
    if isinstance(value, str | int | float) and value != "":
        attributes[name] = value
