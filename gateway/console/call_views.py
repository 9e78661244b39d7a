"""The call log at the console: a search, and one request with all its operations."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.api.logs_endpoints import operation_json
from gateway.api.request_body import wrong_query
from gateway.connections.operation_search import NARROWER, connections_of
from gateway.console.charts import Part, parts
from gateway.console.console_page import WITHIN, Live, View, console_path
from gateway.console.failure_causes import BY_REFUSED_CLIENT, cause_at, cause_of
from gateway.console.query_fields import fields_of, number_in, time_in
from gateway.errors import InvalidRequest, NotFound
from gateway.records.filters import single_or_any_set
from gateway.records.operation import KINDS, OperationFilter, StoredOperation, status_range
from gateway.runtime import RUNTIME, generation_of
from gateway.store import Store
from gateway.text import whole_number

ROWS: Final = 50
LIVE_S: Final = 2
FIELDS: Final = (
    *("since", "until", "kind", "integration", "connection", "end_user", "key", "status"),
    *("failed", "code", "path", "text", "tool", "request", "trace", "before", "live", "seen"),
)
NEWEST: Final = (1 << 63) - 1
ANY_TIME_APART: Final = timedelta(hours=1)


async def calls(request: web.Request, environment: str) -> View:
    asked = fields_of(request.query, FIELDS)
    wanted = await _wanted(request, environment, asked)
    page = await request.app[RUNTIME].store.call_log.find(wanted)
    newest = page.operations[0].id if page.operations else 0
    filters = {name: text for name, text in asked.items() if text and name not in ("live", "seen")}
    live = None
    if asked["live"] and not asked["before"]:
        url = console_path(request, environment, "calls", **filters, live="1", seen=str(newest))
        live = Live("calls_live.html", url, LIVE_S, whole=True)
    data = {
        "title": "Calls",
        "as_of": clock.now().isoformat(timespec="seconds"),
        "asked": asked,
        "still": console_path(request, environment, "calls", **filters),
        "seen": number_in(asked, "seen") or NEWEST,
        "kinds": list(KINDS),
        "operations": await rows(request.app[RUNTIME].store, environment, page.operations),
        "following": page.following,
        "searched_to": None if page.searched_until is None else page.searched_until.isoformat(timespec="seconds"),
    }
    return View("calls.html", data, "calls", live)


async def rows(store: Store, environment: str, operations: Sequence[StoredOperation]) -> list[dict[str, Any]]:
    """Return operations as the API shows them, plus the names of their keys and other fields of the list."""
    ids = {one.operation.key_id for one in operations if one.operation.key_id is not None}
    names = await store.keys.names(environment, ids) if ids else {}
    return [_row(one) | {"key_name": names.get(one.operation.key_id or 0)} for one in operations]


def _row(one: StoredOperation) -> dict[str, Any]:
    fields: dict[str, Any] = dict(operation_json(one))
    detail = fields["detail"] or {}
    fields["what"] = fields["path"] or detail.get("what") or detail.get("event") or fields["host"] or ""
    fields["failed"] = bool(fields["error"]) or (fields["status"] or 0) >= 400
    return fields


async def _wanted(request: web.Request, environment: str, asked: dict[str, str]) -> OperationFilter:
    """Return the filter of the query. Raises InvalidRequest."""
    now = clock.now()
    status = status_range(asked["status"]) if asked["status"] else None
    for name, wrong, form in (
        ("status", asked["status"] and status is None, "must be a status such as 404, or a class such as 4xx"),
        ("text", len(asked["text"]) == 1, "must have at least two characters"),
        ("kind", asked["kind"] and asked["kind"] not in KINDS, f"must be one of: {', '.join(KINDS)}"),
    ):
        if wrong:
            raise wrong_query(name, f"'{name}' {form}.")
    wanted = OperationFilter(
        environment,
        since=time_in(asked, "since", now),
        until=time_in(asked, "until", now),
        kind=next((kind for kind in KINDS if kind == asked["kind"]), None),
        integration_id=asked["integration"] or None,
        connection_id=asked["connection"] or None,
        key_ids=single_or_any_set(number_in(asked, "key")),
        status=status,
        failed=True if asked["failed"] else None,
        error_codes=single_or_any_set(asked["code"] or None),
        path=asked["path"] or None,
        text=asked["text"] or None,
        tool=asked["tool"] or None,
        request_id=asked["request"] or None,
        trace_id=asked["trace"] or None,
        before=number_in(asked, "before"),
        limit=ROWS,
    )
    if not asked["end_user"]:
        return wanted
    reached = await connections_of(request.app[RUNTIME].store, wanted, end_user_id=asked["end_user"])
    if reached is None:
        raise InvalidRequest("invalid_query_params", NARROWER)
    return replace(wanted, connections=reached)


async def operation_of(request: web.Request, environment: str, text: str) -> StoredOperation:
    """Return the operation with this id. Raises NotFound."""
    id_ = whole_number(text)
    if id_ is None:
        raise NotFound("not_found", "An operation's id is a whole number.")
    log = request.app[RUNTIME].store.call_log
    found = await log.find(OperationFilter(environment, before=id_ + 1, after=id_ - 1, limit=1))
    if not found.operations:
        raise NotFound(
            "not_found", f"The call log has no operation {text}: it never existed, or is older than the log keeps."
        )
    return found.operations[0]


async def call(request: web.Request, environment: str) -> View:
    """Show one operation, by its id, and the other operations of its request."""
    one = await operation_of(request, environment, request.query.get("id", ""))
    store = request.app[RUNTIME].store
    at = one.operation.at
    around = OperationFilter(
        environment, since=at - ANY_TIME_APART, until=at + ANY_TIME_APART, request_id=one.operation.request_id
    )
    others = [] if not one.operation.request_id else (await store.call_log.find(around)).operations
    found = await rows(store, environment, [one, *(other for other in reversed(others) if other.id != one.id)])
    data = {
        "title": f"{one.operation.kind} {one.id}",
        "operation": found[0],
        "cause": await _cause(store, one),
        "others": found[1:],
        "where": parts(_parts(one)),
        "curl": _curl(request, one),
    }
    return View("call.html", data, "calls")


async def _cause(store: Store, one: StoredOperation) -> dict[str, str] | None:
    """Return the meaning of the operation's failure and the action that helps; None if it succeeded."""
    it = one.operation
    reason = it.error_code or (str(it.status) if it.status >= 400 else "")
    if not reason:
        return None
    if reason not in BY_REFUSED_CLIENT:
        return cause_of(it.kind, reason)._asdict()
    places = (await store.call_log.totals(it.environment, it.at - WITHIN)).places
    return cause_at(places, it.kind, reason, it.integration_id, it.at)._asdict()


def _parts(one: StoredOperation) -> list[Part]:
    it = one.operation
    known = [
        Part("gateway", it.gateway_ms or 0),
        Part("token", it.token_ms or 0),
        Part("provider", it.upstream_ms or 0),
    ]
    return [part for part in known if part.ms > 0]


def _curl(request: web.Request, one: StoredOperation) -> str | None:
    """Return the call as a curl command for a dry run, without query and body, which are not stored; None if the
    operation is not a proxied call with a connection."""
    it = one.operation
    if it.kind != "call" or not it.connection_id:
        return None
    url = f"{generation_of(request).public_url}/proxy{it.path}"
    fields = {
        "Authorization": "Bearer <SECRET_KEY>",
        "Provider-Config-Key": it.integration_id,
        "Connection-Id": it.connection_id,
        "Gateway-Dry-Run": "true",
    }
    words = ["curl", "-X", it.method, *(word for name, text in fields.items() for word in ("-H", f"{name}: {text}"))]
    return shlex.join([*words, url])
