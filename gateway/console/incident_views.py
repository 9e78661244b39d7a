"""The console's page Incident: a report on an integration or a key, and a form to revoke and delete."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.console.console_page import SignedIn, View, console_path
from gateway.console.incident_report import IncidentSubject, incident_subject, report, revoke_all
from gateway.console.query_fields import fields_of, number_in, time_in
from gateway.errors import InvalidRequest
from gateway.runtime import RUNTIME, generation_of
from gateway.text import counted

QUERY_FIELDS: Final = ("integration", "key", "since", "until")
MAX_PER_FORM: Final = 25  # maximum number of connections that one form deletes: each deletion calls the provider


def _subject(environment: str, query: dict[str, str]) -> IncidentSubject:
    """Return the subject of the report that the query names. Raises InvalidRequest."""
    now = clock.now()
    return incident_subject(
        environment,
        integration_id=query["integration"] or None,
        key_id=number_in(query, "key"),
        since=time_in(query, "since", now),
        until=time_in(query, "until", now),
    )


async def incident(request: web.Request, environment: str) -> View:
    """Show the form. If the query names an integration or a key, show the report too."""
    query = fields_of(request.query, QUERY_FIELDS)
    incident_json: dict[str, Any] | None = None
    if query["integration"] or query["key"]:
        incident_json = await report(request.app[RUNTIME], _subject(environment, query))
    data = {
        "title": "Incident",
        "asked": query,
        "integrations": [
            integration.integration_id for integration in generation_of(request).integrations.list_in(environment)
        ],
        "report": incident_json,
        "at_once": MAX_PER_FORM,
    }
    return View("incident.html", data, "incident")


async def revoke(request: web.Request, signed_in: SignedIn, environment: str, fields: dict[str, str]) -> View:
    """Revoke the key and all keys that descend from it.

    If the form requests it, also delete the connections that these keys have used.

    One form deletes at most `MAX_PER_FORM` connections.
    """
    subject_fields = fields_of(fields, QUERY_FIELDS)
    confirmation = subject_fields["key"] or subject_fields["integration"]
    if fields.get("typed", "") != confirmation or not confirmation:
        raise InvalidRequest(
            "invalid_body",
            f"Nothing was revoked or deleted. Type {confirmation or 'the key or integration of the report'} to confirm.",
        )
    runtime, subject = request.app[RUNTIME], _subject(environment, subject_fields)
    incident = await report(runtime, subject)
    connections = [connection for connection in incident["connections"] if connection["state"] != "deleted"]
    incident_part = {**incident, "connections": connections[:MAX_PER_FORM]}
    with_connections = bool(fields.get("connections"))
    actions = await revoke_all(
        runtime, subject, incident_part, f"{signed_in.name} at the console", connections=with_connections
    )
    remaining_count = max(len(connections) - MAX_PER_FORM, 0) if with_connections else 0
    hidden_count = incident["uses"]["uses_in_all"] - len(incident["uses"]["data"]) if with_connections else 0
    data = {
        "title": "Revoked and deleted",
        "message": " ".join(_message(actions, left_count=remaining_count, hidden_count=hidden_count)),
        "details": actions,
        "back": console_path(
            request, environment, "incident", **{name: text for name, text in subject_fields.items() if text}
        ),
    }
    return View("outcome.html", data, "incident")


def _message(actions_done: Sequence[str], *, left_count: int, hidden_count: int) -> Iterator[str]:
    """Yield the sentences above the results in `actions_done`.
    `left_count`: the number of connections of the report that are not deleted yet. `hidden_count`: the number of uses
    that the report does not list.
    """
    yield f"{counted(len(actions_done), 'result')}."
    if left_count:
        yield f"{counted(left_count, 'connection')} of the report not deleted yet: send the form again."
    if hidden_count:
        yield (
            f"The report does not list {counted(hidden_count, 'less used pair')} of key and connection: "
            "`gateway incident --delete-connections` deletes these connections too."
        )
