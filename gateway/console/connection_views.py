"""The console's pages of connections: the list, and one connection with the reason for its state.

An operator can refresh or delete a connection, and create a link with which the end user connects again.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.access.caller import Caller
from gateway.api import connect_endpoints
from gateway.api.connection_json import history_json, listed_connection_json, timestamp_with_offset
from gateway.api.request_body import validated
from gateway.connections.lacking_scopes import find_lacking
from gateway.console.call_views import rows
from gateway.console.console_page import SignedIn, View, console_path
from gateway.errors import GatewayError, InvalidRequest, NotFound
from gateway.records.access import Environment
from gateway.records.audit import AuditAction, AuditEntry
from gateway.records.connecting import ConnectSession
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.operation import OperationFilter
from gateway.runtime import RUNTIME, Runtime, generation_of
from gateway.store import EventFilter, ListFilter, cursor_after

ROWS_PER_PAGE: Final = 50
QUERY_FIELDS: Final = ("search", "integration", "end_user", "trouble", "scopes", "cursor")
MAX_RECENT_ROWS: Final = 20
ACTIONS: Final = {
    "reconnect": "The end user connects again",
    "fix_integration": "Correct the integration",
    "fix_settings": "Correct the connection's settings",
    "import": "Import the credential again",
    "restore": "Restore it",
}


async def connections(request: web.Request, environment: str) -> View:
    query = {name: request.query.get(name, "").strip()[:1000] for name in QUERY_FIELDS}
    list_filter = ListFilter(
        search=query["search"] or None,
        integration_ids=(query["integration"],) if query["integration"] else (),
        end_user_id=query["end_user"] or None,
        in_trouble=bool(query["trouble"]),
        cursor=query["cursor"] or None,
        limit=ROWS_PER_PAGE + 1,
    )
    store = request.app[RUNTIME].store
    if query["scopes"]:
        lacking_page = await find_lacking(
            store, generation_of(request), environment, replace(list_filter, limit=ROWS_PER_PAGE)
        )
        connections, next_cursor = lacking_page.rows, lacking_page.cursor
    else:
        connections = await store.connections.list(environment, list_filter)
        next_cursor = cursor_after(connections[ROWS_PER_PAGE - 1]) if len(connections) > ROWS_PER_PAGE else None
    data = {
        "title": "Connections",
        "asked": query,
        "integrations": [
            integration.integration_id for integration in generation_of(request).integrations.list_in(environment)
        ],
        "connections": [summary(connection) for connection in connections[:ROWS_PER_PAGE]],
        "following": next_cursor,
    }
    return View("connections.html", data, "connections")


def summary(connection: Connection) -> dict[str, Any]:
    """Return the connection's row in a list. The row contains no credential and no setting."""
    return {
        **listed_connection_json(connection),
        "reason": connection.state_reason,
        "last_refreshed_at": None
        if connection.refreshed_at is None
        else timestamp_with_offset(connection.refreshed_at),
    }


async def connection(request: web.Request, environment: str) -> View:
    runtime = request.app[RUNTIME]
    connection = await _find_connection(request, environment, request.query)
    ref = connection.ref
    history = await history_json(runtime, generation_of(request), connection)
    operation_filter = OperationFilter(
        environment, integration_id=ref.integration_id, connection_id=ref.connection_id, limit=MAX_RECENT_ROWS
    )
    operations = await runtime.store.call_log.find(operation_filter)
    events = await runtime.store.event_log.list(
        EventFilter(environment=environment, connection_id=ref.connection_id, limit=MAX_RECENT_ROWS)
    )
    data = {
        "title": ref.connection_id,
        "connection": summary(connection),
        "expires_at": None if connection.expires_at is None else timestamp_with_offset(connection.expires_at),
        "diagnosis": history["diagnosis"],
        "scopes": history["scopes"],
        "blocked": _blocked_reason(runtime, connection),
        "action": ACTIONS.get(history["diagnosis"]["action"]["do"]),
        "operations": await rows(runtime.store, environment, operations.operations),
        "events": [
            {
                "message_id": event.message_id,
                "event": event.event,
                "at": timestamp_with_offset(event.at),
                "state": event.state.value,
                "attempts": event.attempts,
                "status": event.status,
            }
            for event in events
            if event.integration_id == ref.integration_id
        ],
        "settings": sorted(connection.config),
    }
    return View("connection.html", data, "connections")


def _blocked_reason(runtime: Runtime, connection: Connection) -> str | None:
    """Return why the connection's calls are refused, if the reason is outside the connection; else None."""
    if runtime.store.full and connection.expires_at is not None and connection.expires_at <= clock.now():
        return "Its token has expired and is not refreshed while the database's disk is full, so its calls are refused."
    return None


async def _find_connection(request: web.Request, environment: str, fields: Mapping[str, str]) -> Connection:
    """Return the connection that `fields` name by ``integration`` and ``id``. Raises NotFound."""
    ref = ConnectionRef(environment, fields.get("integration", ""), fields.get("id", ""))
    connection = await request.app[RUNTIME].store.connections.get(ref)
    if connection is None:
        raise NotFound(
            "unknown_connection",
            f"Integration '{ref.integration_id[:255]}' has no connection '{ref.connection_id[:255]}'. The call log may "
            "still have its calls and its authorization.",
        )
    return connection


def _connection_page(request: web.Request, ref: ConnectionRef) -> str:
    return console_path(request, ref.environment, "connection", integration=ref.integration_id, id=ref.connection_id)


async def refresh(request: web.Request, _signed_in: SignedIn, environment: str, fields: dict[str, str]) -> View | str:
    """Refresh the connection's token now. If the refresh fails, show the error."""
    connection = await _find_connection(request, environment, fields)
    try:
        await request.app[RUNTIME].live.fresh_row(connection.ref, force=True)
    except GatewayError as fault:
        data = {
            "title": "The refresh failed",
            "message": fault.message,
            "code": fault.code,
            "back": _connection_page(request, connection.ref),
        }
        return View("outcome.html", data, "connections")
    return _connection_page(request, connection.ref)


async def link(request: web.Request, _signed_in: SignedIn, environment: str, fields: dict[str, str]) -> View:
    """Create a link with which the end user connects again. It is shown only once, and must be sent only to this end
    user."""
    connection = await _find_connection(request, environment, fields)
    runtime, generation = request.app[RUNTIME], generation_of(request)
    session_body = validated(
        {"connection_id": connection.ref.connection_id, "integration_id": connection.ref.integration_id},
        connect_endpoints.Reconnect,
        "invalid_body",
    )
    token_and_session = await connect_endpoints.reconnect_session(
        runtime, generation, Caller(Environment(environment)), session_body
    )
    await record_link(
        runtime, environment, token_and_session[1], connection.ref.integration_id, connection.ref.connection_id
    )
    session_json = connect_endpoints.connect_session_json(generation, *token_and_session)
    data = {
        "title": "Link to connect again",
        "message": "Anyone who opens this link can connect. Send it only to this end user. It is shown only once.",
        "link": session_json["connect_link"],
        "until": session_json["expires_at"],
        "back": _connection_page(request, connection.ref),
    }
    return View("outcome.html", data, "connections")


async def record_link(
    runtime: Runtime, environment: str, session: ConnectSession, integration_id: str, connection_id: str = ""
) -> None:
    """Record the link in the audit trail before it is shown.

    Raises Unavailable if the record cannot be written; then the link is not shown.
    """
    entry = AuditEntry.of(
        AuditAction.CONNECT_LINK_CREATED,
        environment,
        integration_id=integration_id,
        connection_id=connection_id,
        detail={"session": session.digest[:16]},  # the same digits as in the audit record of the new connection
    )
    await runtime.store.trail.write(entry)


async def delete(request: web.Request, _signed_in: SignedIn, environment: str, fields: dict[str, str]) -> View:
    """Delete the connection, revoke its tokens at the provider, and show the result for each token.

    To confirm, the operator must type the connection's id into the form.
    """
    connection = await _find_connection(request, environment, fields)
    if fields.get("typed", "") != connection.ref.connection_id:
        raise InvalidRequest(
            "invalid_body", f"Nothing was deleted. Type the connection's id: {connection.ref.connection_id}"
        )
    deletion = await request.app[RUNTIME].deleter.delete(connection.ref)
    if deletion is None:
        raise NotFound("unknown_connection", "The connection was deleted in the meantime.")
    outcomes = [
        f"{outcome.token}: {outcome.outcome}" + (f" ({outcome.detail})" if outcome.detail else "")
        for outcome in deletion.revocation
    ]
    data = {
        "title": "The connection is deleted",
        "message": f"{connection.ref.integration_id}/{connection.ref.connection_id} was deleted here. "
        + (
            "Its tokens were revoked at the provider."
            if deletion.at_provider
            else "The credential may still work at the provider."
        ),
        "details": outcomes,
        "back": console_path(request, environment, "connections"),
    }
    return View("outcome.html", data, "connections")
