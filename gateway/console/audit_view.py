"""The console's page Audit shows who did what, and how often each key used each connection."""

from datetime import timedelta
from typing import Final

from aiohttp import web

from gateway import clock
from gateway.api.audit_endpoints import audit_record_json, credential_uses_json
from gateway.api.request_body import wrong_query
from gateway.console.console_page import View
from gateway.console.query_fields import fields_of, number_in, time_in
from gateway.records.audit import AuditAction, AuditFilter, CredentialUseFilter
from gateway.records.filters import single_or_any_set
from gateway.runtime import RUNTIME

ROWS_PER_PAGE: Final = 50
MAX_USES: Final = 20
DEFAULT_USES_SPAN: Final = timedelta(days=1)
QUERY_FIELDS: Final = ("since", "until", "action", "integration", "connection", "end_user", "key", "before")


async def audit(request: web.Request, environment: str) -> View:
    query = fields_of(request.query, QUERY_FIELDS)
    now = clock.now()
    since, until = (time_in(query, name, now) for name in ("since", "until"))
    key_id = number_in(query, "key")
    if query["action"] and query["action"] not in list(AuditAction):
        raise wrong_query("action", "'action' must be one of the listed actions.")
    store = request.app[RUNTIME].store
    record_filter = AuditFilter(
        environment=environment,
        since=since,
        until=until,
        action=query["action"] or None,
        key_ids=single_or_any_set(key_id),
        integration_id=query["integration"] or None,
        connection_id=query["connection"] or None,
        end_user_id=query["end_user"] or None,
        before=number_in(query, "before"),
        limit=ROWS_PER_PAGE + 1,
    )
    records = await store.audit.find(record_filter)
    until_or_now = until or now
    use_filter = CredentialUseFilter(
        environment,
        since or until_or_now - DEFAULT_USES_SPAN,
        until_or_now,
        key_ids=single_or_any_set(key_id),
        integration_id=query["integration"] or None,
        connection_id=query["connection"] or None,
        limit=MAX_USES,
    )
    if use_filter.until <= use_filter.since:
        raise wrong_query("until", "'until' must be later than 'since'.")
    data = {
        "title": "Audit",
        "asked": query,
        "actions": [str(action) for action in AuditAction],
        "records": [audit_record_json(record) for record in records[:ROWS_PER_PAGE]],
        "following": records[ROWS_PER_PAGE - 1].sequence if len(records) > ROWS_PER_PAGE else None,
        "uses": credential_uses_json(use_filter, await store.uses.find(use_filter)),
    }
    return View("audit.html", data, "audit")
