"""``GET /logs``: searches the call log (docs/call-log.md)."""

import re
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Final

from aiohttp import web

from gateway import clock
from gateway.api import responses
from gateway.api.connections import tags_in_query
from gateway.api.request_body import query_number, query_time, read_query, require_empty_body, wrong_query
from gateway.connections.operation_search import TOO_MANY_MATCHES, matching_connections
from gateway.middleware.facts import CALLER, ENVIRONMENT
from gateway.middleware.key_limits import needs
from gateway.records.filters import single_or_any_set
from gateway.records.operation import KINDS, OperationFilter, StoredOperation, status_range
from gateway.runtime import RUNTIME

FILTERS: Final = (
    *(
        "from",
        "to",
        "kind",
        "integrationId",
        "connectionId",
        "endUserId",
        "keyId",
        "status",
        "failed",
        "code",
        "method",
    ),
    *("path", "text", "tool", "requestId", "traceId", "limit", "cursor", "after", "include"),
)
MAX_LIMIT: Final = 1000
MAX_LIMIT_WITH_OPERATIONS: Final = 20
DEFAULT_LIMIT: Final = 100
ID_FORM: Final = re.compile(r"[1-9][0-9]{0,17}")
MAX_REQUEST_SPAN: Final = timedelta(hours=1)  # maximum time between two operations that one request causes


@needs("environment:logs:read", limits=True)
async def list_operations(request: web.Request) -> web.Response:
    """List operations, the newest first. If the search timed out, ``searched_to`` is the time back to which the log was
    searched, and ``next_cursor`` continues the search."""
    require_empty_body(request)
    query = read_query(request, FILTERS, nested=("tags",), numbers={"limit": (1, MAX_LIMIT), "keyId": (1, 10**11)})
    operation_filter = _filter_in_query(query, request[ENVIRONMENT].name)
    runtime, policy = request.app[RUNTIME], request[CALLER].policy
    tags = tags_in_query(request)
    if tags or "endUserId" in query or policy.limits_resources:
        visible_connections = await matching_connections(
            runtime.store, operation_filter, end_user_id=query.get("endUserId"), tags=tags, within=policy.limits
        )
        if visible_connections is None:
            raise wrong_query("connectionId", TOO_MANY_MATCHES)
        operation_filter = replace(operation_filter, connections=visible_connections)
    includes_operations = query.get("include") == "operations"
    if "include" in query and not includes_operations:
        raise wrong_query("include", "'include' may be 'operations'.")
    if includes_operations and operation_filter.limit > MAX_LIMIT_WITH_OPERATIONS:
        operation_filter = replace(operation_filter, limit=MAX_LIMIT_WITH_OPERATIONS)
    page = await runtime.store.call_log.find(operation_filter)
    body: responses.Logs = {"data": [operation_json(operation) for operation in page.operations]}
    if includes_operations:
        for entry, operation in zip(body["data"], page.operations, strict=True):
            same_request_page = await runtime.store.call_log.find(_same_request_filter(operation, operation_filter))
            entry["operations"] = [
                dict(operation_json(other_operation))
                for other_operation in same_request_page.operations
                if other_operation.id != operation.id
            ]
    if page.following is not None:
        body["next_cursor"] = str(page.following)
    if page.searched_until is not None:
        body["searched_to"] = page.searched_until.isoformat(timespec="milliseconds")
    return web.json_response(body)


def _filter_in_query(query: dict[str, str], environment: str) -> OperationFilter:
    """Return the filter that the query parameters describe. Raises InvalidRequest."""
    now = clock.now()
    kind = next((kind for kind in KINDS if kind == query.get("kind")), None)
    if "kind" in query and kind is None:
        raise wrong_query("kind", f"'kind' may be {', '.join(KINDS)}.")
    status = status_range(query["status"]) if "status" in query else None
    if "status" in query and status is None:
        raise wrong_query("status", "'status' must be a status such as 404, or a class such as 4xx.")
    failed = {"true": True, "false": False}.get(query.get("failed", ""))
    if "failed" in query and failed is None:
        raise wrong_query("failed", "'failed' must be true or false.")
    if "text" in query and not 2 <= len(query["text"]) <= 200:
        raise wrong_query("text", "'text' must have 2 to 200 characters.")
    return OperationFilter(
        environment,
        since=query_time(query, "from", now),
        until=query_time(query, "to", now),
        kind=kind,
        integration_id=query.get("integrationId"),
        connection_id=query.get("connectionId"),
        key_ids=single_or_any_set(query_number(query, "keyId")),
        status=status,
        failed=failed,
        error_codes=single_or_any_set(query.get("code")),
        method=query.get("method"),
        path=query.get("path"),
        text=query.get("text"),
        tool=query.get("tool"),
        request_id=query.get("requestId"),
        trace_id=query.get("traceId"),
        before=_id_in_query(query, "cursor"),
        after=_id_in_query(query, "after"),
        limit=query_number(query, "limit") or DEFAULT_LIMIT,
    )


def _id_in_query(query: dict[str, str], name: str) -> int | None:
    if name not in query:
        return None
    if not ID_FORM.fullmatch(query[name]):
        raise wrong_query(name, f"'{name}' must be the id of an operation, or an unchanged next_cursor.")
    return int(query[name])


def _same_request_filter(operation: StoredOperation, operation_filter: OperationFilter) -> OperationFilter:
    """Return a filter for the operations of the request that caused `operation`. The filter matches only operations
    that the key may see."""
    operation_at = operation.operation.at
    return OperationFilter(
        operation_filter.environment,
        since=operation_at - MAX_REQUEST_SPAN,
        until=operation_at + MAX_REQUEST_SPAN,
        connections=operation_filter.connections,
        request_id=operation.operation.request_id,
    )


def operation_json(stored_operation: StoredOperation) -> responses.LoggedOperation:
    """Return the logged operation as the API and the command line show it."""
    operation = stored_operation.operation
    return {
        "id": stored_operation.id,
        "kind": operation.kind,
        "at": operation.at.astimezone(UTC).isoformat(timespec="milliseconds"),
        "request_id": operation.request_id,
        "trace_id": operation.trace_id,
        "key_id": operation.key_id,
        "provider_config_key": operation.integration_id or None,
        "connection_id": operation.connection_id or None,
        "method": operation.method or None,
        "host": operation.host or None,
        "path": operation.path or None,
        "status": operation.status or None,
        "error": operation.error_code,
        "rule": operation.rule,
        "tool": (operation.detail or {}).get("tool"),
        "duration_ms": round(operation.duration_ms, 3),
        "gateway_ms": _rounded_ms(operation.gateway_ms),
        "token_ms": _rounded_ms(operation.token_ms),
        "upstream_ms": _rounded_ms(operation.upstream_ms),
        "attempts": operation.attempts,
        "bytes_in": operation.bytes_in,
        "bytes_out": operation.bytes_out,
        "detail": {name: value for name, value in (operation.detail or {}).items() if name != "tool"} or None,
    }


def _rounded_ms(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
