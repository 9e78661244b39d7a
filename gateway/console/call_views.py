"""The console's pages of the call log: a search for operations, and one request with all its operations."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.api.logs_endpoints import operation_json
from gateway.api.request_body import wrong_query
from gateway.connections.operation_search import TOO_MANY_MATCHES, matching_connections
from gateway.console.charts import Part, parts
from gateway.console.console_page import TOTALS_SPAN, LivePart, View, console_path
from gateway.console.failure_causes import BY_REFUSED_CLIENT, cause_of, cause_of_failure
from gateway.console.query_fields import fields_of, number_in, time_in
from gateway.errors import InvalidRequest, NotFound
from gateway.records.filters import single_or_any_set
from gateway.records.operation import KINDS, OperationFilter, StoredOperation, status_range
from gateway.runtime import RUNTIME, generation_of
from gateway.store import Store
from gateway.text import whole_number

ROWS_PER_PAGE: Final = 50
LIVE_S: Final = 2
QUERY_FIELDS: Final = (
    *("since", "until", "kind", "integration", "connection", "end_user", "key", "status"),
    *("failed", "code", "path", "text", "tool", "request", "trace", "before", "live", "seen"),
)
NEWEST: Final = (1 << 63) - 1  # the largest id; as `seen`, it marks no operation as new
MAX_TIME_APART: Final = timedelta(hours=1)


async def calls(request: web.Request, environment: str) -> View:
    query = fields_of(request.query, QUERY_FIELDS)
    operation_filter = await _operation_filter(request, environment, query)
    page = await request.app[RUNTIME].store.call_log.find(operation_filter)
    newest_id = page.operations[0].id if page.operations else 0
    filters = {name: text for name, text in query.items() if text and name not in ("live", "seen")}
    live_part = None
    if query["live"] and not query["before"]:
        url = console_path(request, environment, "calls", **filters, live="1", seen=str(newest_id))
        live_part = LivePart("calls_live.html", url, LIVE_S, reloads_whole_page=True)
    data = {
        "title": "Calls",
        "as_of": clock.now().isoformat(timespec="seconds"),
        "asked": query,
        "still": console_path(request, environment, "calls", **filters),
        "seen": number_in(query, "seen") or NEWEST,
        "kinds": list(KINDS),
        "operations": await rows(request.app[RUNTIME].store, environment, page.operations),
        "following": page.following,
        "searched_to": None if page.searched_until is None else page.searched_until.isoformat(timespec="seconds"),
    }
    return View("calls.html", data, "calls", live_part)


async def rows(store: Store, environment: str, operations: Sequence[StoredOperation]) -> list[dict[str, Any]]:
    """Return operations in the API's format, with the names of their keys and other fields that the list shows."""
    ids = {operation.operation.key_id for operation in operations if operation.operation.key_id is not None}
    names = await store.keys.names(environment, ids) if ids else {}
    return [_row(operation) | {"key_name": names.get(operation.operation.key_id or 0)} for operation in operations]


def _row(stored_operation: StoredOperation) -> dict[str, Any]:
    fields: dict[str, Any] = dict(operation_json(stored_operation))
    detail = fields["detail"] or {}
    fields["what"] = fields["path"] or detail.get("what") or detail.get("event") or fields["host"] or ""
    fields["failed"] = bool(fields["error"]) or (fields["status"] or 0) >= 400
    return fields


async def _operation_filter(request: web.Request, environment: str, query: dict[str, str]) -> OperationFilter:
    """Return the filter that the query describes. Raises InvalidRequest."""
    now = clock.now()
    status = status_range(query["status"]) if query["status"] else None
    for name, is_wrong, requirement in (
        ("status", query["status"] and status is None, "must be a status such as 404, or a class such as 4xx"),
        ("text", len(query["text"]) == 1, "must have at least two characters"),
        ("kind", query["kind"] and query["kind"] not in KINDS, f"must be one of: {', '.join(KINDS)}"),
    ):
        if is_wrong:
            raise wrong_query(name, f"'{name}' {requirement}.")
    operation_filter = OperationFilter(
        environment,
        since=time_in(query, "since", now),
        until=time_in(query, "until", now),
        kind=next((kind for kind in KINDS if kind == query["kind"]), None),
        integration_id=query["integration"] or None,
        connection_id=query["connection"] or None,
        key_ids=single_or_any_set(number_in(query, "key")),
        status=status,
        failed=True if query["failed"] else None,
        error_codes=single_or_any_set(query["code"] or None),
        path=query["path"] or None,
        text=query["text"] or None,
        tool=query["tool"] or None,
        request_id=query["request"] or None,
        trace_id=query["trace"] or None,
        before=number_in(query, "before"),
        limit=ROWS_PER_PAGE,
    )
    if not query["end_user"]:
        return operation_filter
    matching_pairs = await matching_connections(
        request.app[RUNTIME].store, operation_filter, end_user_id=query["end_user"]
    )
    if matching_pairs is None:
        raise InvalidRequest("invalid_query_params", TOO_MANY_MATCHES)
    return replace(operation_filter, connections=matching_pairs)


async def operation_of(request: web.Request, environment: str, text: str) -> StoredOperation:
    """Return the operation with this id. Raises NotFound."""
    id_ = whole_number(text)
    if id_ is None:
        raise NotFound("not_found", "An operation's id is a whole number.")
    log = request.app[RUNTIME].store.call_log
    page = await log.find(OperationFilter(environment, before=id_ + 1, after=id_ - 1, limit=1))
    if not page.operations:
        raise NotFound(
            "not_found", f"The call log has no operation {text}: it never existed, or is older than the log keeps."
        )
    return page.operations[0]


async def call(request: web.Request, environment: str) -> View:
    """Show the operation with the id in the query, and the other operations of the same request."""
    stored_operation = await operation_of(request, environment, request.query.get("id", ""))
    store = request.app[RUNTIME].store
    operation_at = stored_operation.operation.at
    request_filter = OperationFilter(
        environment,
        since=operation_at - MAX_TIME_APART,
        until=operation_at + MAX_TIME_APART,
        request_id=stored_operation.operation.request_id,
    )
    request_operations = (
        [] if not stored_operation.operation.request_id else (await store.call_log.find(request_filter)).operations
    )
    operations = await rows(
        store,
        environment,
        [
            stored_operation,
            *(operation for operation in reversed(request_operations) if operation.id != stored_operation.id),
        ],
    )
    data = {
        "title": f"{stored_operation.operation.kind} {stored_operation.id}",
        "operation": operations[0],
        "cause": await _cause(store, stored_operation),
        "others": operations[1:],
        "where": parts(_parts(stored_operation)),
        "curl": _curl(request, stored_operation),
    }
    return View("call.html", data, "calls")


async def _cause(store: Store, stored_operation: StoredOperation) -> dict[str, str] | None:
    """Return the meaning of the operation's failure and the action that helps; None if the operation succeeded."""
    operation = stored_operation.operation
    reason = operation.error_code or (str(operation.status) if operation.status >= 400 else "")
    if not reason:
        return None
    if reason not in BY_REFUSED_CLIENT:
        return cause_of(operation.kind, reason)._asdict()
    places = (await store.call_log.totals(operation.environment, operation.at - TOTALS_SPAN)).places
    return cause_of_failure(places, operation.kind, reason, operation.integration_id, operation.at)._asdict()


def _parts(stored_operation: StoredOperation) -> list[Part]:
    operation = stored_operation.operation
    timed_parts = [
        Part("gateway", operation.gateway_ms or 0),
        Part("token", operation.token_ms or 0),
        Part("provider", operation.upstream_ms or 0),
    ]
    return [part for part in timed_parts if part.ms > 0]


def _curl(request: web.Request, stored_operation: StoredOperation) -> str | None:
    """Return a curl command that repeats the call as a dry run.

    The command has no query and no body, because the call log does not store query and body. Return None if the
    operation is not a proxied call with a connection.
    """
    operation = stored_operation.operation
    if operation.kind != "call" or not operation.connection_id:
        return None
    url = f"{generation_of(request).public_url}/proxy{operation.path}"
    fields = {
        "Authorization": "Bearer <SECRET_KEY>",
        "Provider-Config-Key": operation.integration_id,
        "Connection-Id": operation.connection_id,
        "Gateway-Dry-Run": "true",
    }
    arguments = [
        "curl",
        "-X",
        operation.method,
        *(argument for name, text in fields.items() for argument in ("-H", f"{name}: {text}")),
    ]
    return shlex.join([*arguments, url])
