"""An incident at the console: the report on an integration or a key, and a form to revoke the key and delete connections."""

from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.console.asked_query import asked, asked_moment, asked_number, asked_of
from gateway.console.console_page import SignedIn, View, console_path
from gateway.console.incident_report import IncidentSubject, incident_subject, report, revoke_all
from gateway.errors import InvalidRequest
from gateway.runtime import RUNTIME, generation_of
from gateway.text import counted

FIELDS: Final = ("integration", "key", "since", "until")
AT_ONCE: Final = 25  # connections that one form deletes: each needs calls to its provider


def _subject(environment: str, given: dict[str, str]) -> IncidentSubject:
    """Return the subject of the report. Raises InvalidRequest."""
    now = clock.now()
    return incident_subject(
        environment,
        integration_id=given["integration"] or None,
        key_id=asked_number(given, "key"),
        since=asked_moment(given, "since", now),
        until=asked_moment(given, "until", now),
    )


async def incident(request: web.Request, environment: str) -> View:
    """Show the form and, once it names a subject, the report."""
    given = asked(request, FIELDS)
    found: dict[str, Any] | None = None
    if given["integration"] or given["key"]:
        found = await report(request.app[RUNTIME], _subject(environment, given))
    data = {
        "title": "Incident",
        "asked": given,
        "integrations": [one.integration_id for one in generation_of(request).integrations.of(environment)],
        "report": found,
        "at_once": AT_ONCE,
    }
    return View("incident.html", data, "incident")


async def revoke(request: web.Request, who: SignedIn, environment: str, fields: dict[str, str]) -> View:
    """Revoke the key and its descendants and, if ticked, delete the used connections: at most `AT_ONCE` in one form."""
    given = asked_of(fields, FIELDS)
    target = given["key"] or given["integration"]
    if fields.get("typed", "") != target or not target:
        raise InvalidRequest("invalid_body", f"Nothing was ended: type {target or 'what the report is about'}.")
    runtime, wanted = request.app[RUNTIME], _subject(environment, given)
    found = await report(runtime, wanted)
    left = [one for one in found["connections"] if one["state"] != "deleted"]
    some = {**found, "connections": left[:AT_ONCE]}
    with_connections = bool(fields.get("connections"))
    done = await revoke_all(runtime, wanted, some, f"{who.name} at the console", connections=with_connections)
    more = len(left) - AT_ONCE if with_connections else 0
    data = {
        "title": "Ended",
        "message": f"{counted(len(done), 'outcome')}."
        + (f" {counted(more, 'connection')} of the report are left: send the form again." if more > 0 else ""),
        "details": done,
        "back": console_path(request, environment, "incident", **{name: text for name, text in given.items() if text}),
    }
    return View("outcome.html", data, "incident")
