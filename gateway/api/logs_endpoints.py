"""``GET /logs``: searches the call log (docs/call-log.md)."""

import re
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Final

from aiohttp import web

from gateway import clock
from gateway.api import responses
from gateway.api.connections import tags_in
from gateway.api.request_body import empty_body, moment, number, query_of, wrong_query
from gateway.connections.operation_search import NARROWER, connections_of
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
MOST: Final = 1000
MOST_WITH_OTHERS: Final = 20
USUAL: Final = 100
NUMBERED: Final = re.compile(r"[1-9][0-9]{0,17}")
ANY_TIME_APART: Final = timedelta(hours=1)  # maximum time between operations of one request


@needs("environment:logs:read", limits=True)
async def list_operations(request: web.Request) -> web.Response:
    """List operations, the newest first. ``searched_to``: time ran out; ``next_cursor`` continues from there."""
    empty_body(request)
    query = query_of(request, FILTERS, nested=("tags",), numbers={"limit": (1, MOST), "keyId": (1, 10**11)})
    wanted = _wanted(query, request[ENVIRONMENT].name)
    runtime, policy = request.app[RUNTIME], request[CALLER].policy
    tags = tags_in(request)
    if tags or "endUserId" in query or policy.of_resources:
        reached = await connections_of(
            runtime.store, wanted, end_user_id=query.get("endUserId"), tags=tags, within=policy.limits
        )
        if reached is None:
            raise wrong_query("connectionId", NARROWER)
        wanted = replace(wanted, connections=reached)
    with_others = query.get("include") == "operations"
    if "include" in query and not with_others:
        raise wrong_query("include", "'include' may be 'operations'.")
    if with_others and wanted.limit > MOST_WITH_OTHERS:
        wanted = replace(wanted, limit=MOST_WITH_OTHERS)
    page = await runtime.store.call_log.find(wanted)
    body: responses.Logs = {"data": [operation_json(one) for one in page.operations]}
    if with_others:
        for entry, one in zip(body["data"], page.operations, strict=True):
            others = await runtime.store.call_log.find(_same_request(one, wanted))
            entry["operations"] = [dict(operation_json(other)) for other in others.operations if other.id != one.id]
    if page.following is not None:
        body["next_cursor"] = str(page.following)
    if page.searched_until is not None:
        body["searched_to"] = page.searched_until.isoformat(timespec="milliseconds")
    return web.json_response(body)


def _wanted(query: dict[str, str], environment: str) -> OperationFilter:
    """Return the filter of the query. Raises InvalidRequest."""
    now = clock.now()
    kind = next((one for one in KINDS if one == query.get("kind")), None)
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
        since=moment(query, "from", now),
        until=moment(query, "to", now),
        kind=kind,
        integration_id=query.get("integrationId"),
        connection_id=query.get("connectionId"),
        key_ids=single_or_any_set(number(query, "keyId")),
        status=status,
        failed=failed,
        error_codes=single_or_any_set(query.get("code")),
        method=query.get("method"),
        path=query.get("path"),
        text=query.get("text"),
        tool=query.get("tool"),
        request_id=query.get("requestId"),
        trace_id=query.get("traceId"),
        before=_id(query, "cursor"),
        after=_id(query, "after"),
        limit=number(query, "limit") or USUAL,
    )


def _id(query: dict[str, str], name: str) -> int | None:
    if name not in query:
        return None
    if not NUMBERED.fullmatch(query[name]):
        raise wrong_query(name, f"'{name}' must be the id of an operation, or an unchanged next_cursor.")
    return int(query[name])


def _same_request(one: StoredOperation, wanted: OperationFilter) -> OperationFilter:
    """Return the filter for the operations of the same request that the key may see."""
    at = one.operation.at
    return OperationFilter(
        wanted.environment,
        since=at - ANY_TIME_APART,
        until=at + ANY_TIME_APART,
        connections=wanted.connections,
        request_id=one.operation.request_id,
    )


def operation_json(one: StoredOperation) -> responses.LoggedOperation:
    """Return the logged operation as the API and the command line show it."""
    it = one.operation
    return {
        "id": one.id,
        "kind": it.kind,
        "at": it.at.astimezone(UTC).isoformat(timespec="milliseconds"),
        "request_id": it.request_id,
        "trace_id": it.trace_id,
        "key_id": it.key_id,
        "provider_config_key": it.integration_id or None,
        "connection_id": it.connection_id or None,
        "method": it.method or None,
        "host": it.host or None,
        "path": it.path or None,
        "status": it.status or None,
        "error": it.error_code,
        "rule": it.rule,
        "tool": (it.detail or {}).get("tool"),
        "duration_ms": round(it.duration_ms, 3),
        "gateway_ms": _ms(it.gateway_ms),
        "token_ms": _ms(it.token_ms),
        "upstream_ms": _ms(it.upstream_ms),
        "attempts": it.attempts,
        "bytes_in": it.bytes_in,
        "bytes_out": it.bytes_out,
        "detail": {name: value for name, value in (it.detail or {}).items() if name != "tool"} or None,
    }


def _ms(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
