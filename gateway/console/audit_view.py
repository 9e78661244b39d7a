"""The audit trail at the console: who did what; which key used which connection, and how often."""

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

ROWS: Final = 50
MOST_USES: Final = 20
USES_WITHIN: Final = timedelta(days=1)
FIELDS: Final = ("since", "until", "action", "integration", "connection", "end_user", "key", "before")


async def audit(request: web.Request, environment: str) -> View:
    asked = fields_of(request.query, FIELDS)
    now = clock.now()
    since, until = (time_in(asked, name, now) for name in ("since", "until"))
    key_id = number_in(asked, "key")
    if asked["action"] and asked["action"] not in list(AuditAction):
        raise wrong_query("action", "'action' must be one of the listed actions.")
    store = request.app[RUNTIME].store
    wanted = AuditFilter(
        environment=environment,
        since=since,
        until=until,
        action=asked["action"] or None,
        key_ids=single_or_any_set(key_id),
        integration_id=asked["integration"] or None,
        connection_id=asked["connection"] or None,
        end_user_id=asked["end_user"] or None,
        before=number_in(asked, "before"),
        limit=ROWS + 1,
    )
    records = await store.audit.find(wanted)
    ends = until or now
    uses = CredentialUseFilter(
        environment,
        since or ends - USES_WITHIN,
        ends,
        key_ids=single_or_any_set(key_id),
        integration_id=asked["integration"] or None,
        connection_id=asked["connection"] or None,
        limit=MOST_USES,
    )
    if uses.until <= uses.since:
        raise wrong_query("until", "'until' must be later than 'since'.")
    data = {
        "title": "Audit",
        "asked": asked,
        "actions": [str(action) for action in AuditAction],
        "records": [audit_record_json(one) for one in records[:ROWS]],
        "following": records[ROWS - 1].sequence if len(records) > ROWS else None,
        "uses": credential_uses_json(uses, await store.uses.find(uses)),
    }
    return View("audit.html", data, "audit")
