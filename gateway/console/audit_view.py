"""The audit trail at the console: who did what, and which key used which connection how often."""

from datetime import timedelta
from typing import Final

from aiohttp import web

from gateway import clock
from gateway.api.audit import shown, uses_shown
from gateway.console.console_page import View
from gateway.errors import InvalidRequest
from gateway.records.audit import AuditAction, AuditFilter, UseFilter
from gateway.runtime import RUNTIME
from gateway.timestamps import ago

ROWS: Final = 50
MOST_USES: Final = 20
USES_WITHIN: Final = timedelta(days=1)
FIELDS: Final = ("since", "until", "action", "integration", "connection", "end_user", "key", "before")


async def audit(request: web.Request, environment: str) -> View:
    asked = {name: request.query.get(name, "").strip()[:255] for name in FIELDS}
    now = clock.now()
    moments = {name: ago(asked[name].replace(" ", "+"), now) for name in ("since", "until") if asked[name]}
    numbers = {name: asked[name] for name in ("key", "before") if asked[name]}
    for name, text in numbers.items():
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise InvalidRequest("invalid_query_params", f"'{name}' takes a number.")
    for name, found in moments.items():
        if found is None:
            raise InvalidRequest("invalid_query_params", f"'{name}' takes 30m, 2h, 3d or a time in ISO 8601.")
    if asked["action"] and asked["action"] not in list(AuditAction):
        raise InvalidRequest("invalid_query_params", "'action' takes one of the list.")
    key_id = int(numbers["key"]) if "key" in numbers else None
    store = request.app[RUNTIME].store
    wanted = AuditFilter(
        environment=environment,
        since=moments.get("since"),
        until=moments.get("until"),
        action=asked["action"] or None,
        key_id=key_id,
        integration_id=asked["integration"] or None,
        connection_id=asked["connection"] or None,
        end_user_id=asked["end_user"] or None,
        before=int(numbers["before"]) if "before" in numbers else None,
        limit=ROWS + 1,
    )
    records = await store.audit.find(wanted)
    until = moments.get("until") or now
    uses = UseFilter(
        environment,
        moments.get("since") or until - USES_WITHIN,
        until,
        key_id=key_id,
        integration_id=asked["integration"] or None,
        connection_id=asked["connection"] or None,
        limit=MOST_USES,
    )
    if uses.until <= uses.since:
        raise InvalidRequest("invalid_query_params", "'until' must be later than 'since'.")
    data = {
        "title": "Audit",
        "asked": asked,
        "actions": [str(action) for action in AuditAction],
        "records": [shown(one) for one in records[:ROWS]],
        "following": records[ROWS - 1].sequence if len(records) > ROWS else None,
        "uses": uses_shown(uses, await store.uses.find(uses)),
    }
    return View("audit.html", data, "audit")
