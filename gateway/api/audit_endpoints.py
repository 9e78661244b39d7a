"""``GET /audit`` lists who did what; ``GET /audit/uses`` counts how often each key used each connection
(docs/audit.md)."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.api import responses
from gateway.api.request_body import query_number, query_time, read_query, require_empty_body, wrong_query
from gateway.middleware.facts import ENVIRONMENT
from gateway.middleware.key_limits import needs
from gateway.records.audit import AuditAction, AuditFilter, ChainedRecord, CredentialUseFilter, CredentialUsePage
from gateway.records.filters import single_or_any_set
from gateway.runtime import RUNTIME
from gateway.store.audit.use_counts import hour_at, hour_of

SCOPE: Final = "environment:audit:read"
FILTERS: Final = (
    "from",
    "to",
    "action",
    "integrationId",
    "connectionId",
    "endUserId",
    "keyId",
    "limit",
    "cursor",
    "after",
)
USE_FILTERS: Final = ("from", "to", "integrationId", "connectionId", "keyId", "limit")
MAX_LIMIT: Final = 1000
DEFAULT_LIMIT: Final = 100
DEFAULT_SPAN: Final = timedelta(days=1)
EARLIEST: Final = datetime.min.replace(tzinfo=UTC) + DEFAULT_SPAN
LATEST: Final = datetime(9999, 12, 31, 23, tzinfo=UTC)
NUMBERS: Final = {"limit": (1, MAX_LIMIT), "keyId": (0, 10**11), "cursor": (1, 2**62), "after": (0, 2**62)}


@needs(SCOPE)
async def list_records(request: web.Request) -> web.Response:
    """List records, the newest first. A record appears as soon as it is in the hash chain, about a second after it was
    written."""
    require_empty_body(request)
    query = read_query(request, FILTERS, numbers=NUMBERS)
    limit, now = query_number(query, "limit") or DEFAULT_LIMIT, clock.now()
    action = query.get("action")
    if action is not None and action not in list(AuditAction):
        raise wrong_query("action", f"'action' may be {', '.join(AuditAction)}.")
    record_filter = AuditFilter(
        environment=request[ENVIRONMENT].name,
        since=query_time(query, "from", now),
        until=query_time(query, "to", now),
        action=action,
        key_ids=single_or_any_set(query_number(query, "keyId")),
        integration_id=query.get("integrationId"),
        connection_id=query.get("connectionId"),
        end_user_id=query.get("endUserId"),
        before=query_number(query, "cursor"),
        after=query_number(query, "after"),
        limit=limit + 1,
    )
    page = await request.app[RUNTIME].store.audit.find(record_filter)
    body: responses.AuditPage = {"data": [audit_record_json(record) for record in page[:limit]]}
    if len(page) > limit:
        body["next_cursor"] = str(page[limit - 1].sequence)
    return web.json_response(body)


@needs(SCOPE)
async def list_uses(request: web.Request) -> web.Response:
    """List how often each key used each connection, the most used first. Calls are added up over whole hours. Without
    ``from``, the range begins one day before its end."""
    require_empty_body(request)
    query = read_query(request, USE_FILTERS, numbers={name: NUMBERS[name] for name in ("limit", "keyId")})
    now = clock.now()
    until = query_time(query, "to", now) or now
    since = query_time(query, "from", now) or max(until, EARLIEST) - DEFAULT_SPAN
    if until <= since:
        raise wrong_query("to", "'to' must be later than 'from'.")
    use_filter = CredentialUseFilter(
        request[ENVIRONMENT].name,
        since,
        until,
        key_ids=single_or_any_set(query_number(query, "keyId")),
        integration_id=query.get("integrationId"),
        connection_id=query.get("connectionId"),
        limit=query_number(query, "limit") or MAX_LIMIT,
    )
    return web.json_response(credential_uses_json(use_filter, await request.app[RUNTIME].store.uses.find(use_filter)))


def credential_uses_json(use_filter: CredentialUseFilter, page: CredentialUsePage) -> responses.CredentialUses:
    """Return a page of credential uses as the API and the command line show it."""
    return {
        "from": hour_at(hour_of(use_filter.since)).isoformat(timespec="milliseconds"),
        "to": _end_of_hour(use_filter.until - timedelta(microseconds=1)).isoformat(timespec="milliseconds"),
        "calls": page.calls,
        "failed": page.failed,
        "uses_in_all": page.connections,
        "data": [
            {
                "key_id": use.key_id or None,
                "provider_config_key": use.integration_id,
                "connection_id": use.connection_id,
                "calls": calls,
                "failed": failed,
            }
            for use, calls, failed in page.uses
        ],
    }


def _end_of_hour(time: datetime) -> datetime:
    """Return the end of the hour that contains `time`. For the last hour of the year 9999, return the start of that
    hour, because a datetime cannot be later than the year 9999."""
    return hour_at(min(hour_of(time) + 1, hour_of(LATEST)))


def audit_record_json(chained_record: ChainedRecord) -> responses.AuditRecord:
    """Return the record as the API and the command line show it: the members of the record, and its place in the hash
    chain."""
    members: dict[str, Any] = chained_record.as_json()
    target = members.get("object", {})
    body: responses.AuditRecord = {
        "sequence": chained_record.sequence,
        "hash": chained_record.hash,
        "at": chained_record.columns.at.astimezone(UTC).isoformat(timespec="milliseconds"),
        "action": chained_record.columns.action,
        "outcome": members.get("outcome", ""),
        "actor": members.get("actor", {}),
        "address": members.get("address"),
        "environment": chained_record.columns.environment or None,
        "provider_config_key": target.get("integration"),
        "connection_id": target.get("connection"),
        "key_id": target.get("key_id"),
        "end_user": members.get("end_user"),
        "request_id": members.get("request_id"),
        "detail": members.get("detail", {}),
    }
    return body
