"""The results of a connect session: for the end user's open page, and for the back end that created the session."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import AfterValidator, Field

from gateway import clock
from gateway.api import responses
from gateway.api.connection_json import end_user_json
from gateway.api.request_body import Strict, query_number, read_json, read_query, require_empty_body
from gateway.api.shapes import (
    ConnectionId,
)
from gateway.authorization.outcomes import client_digest
from gateway.errors import InvalidRequest, NotFound
from gateway.generation import Generation
from gateway.middleware.facts import CALLER, CONNECT_SESSION, ENVIRONMENT
from gateway.middleware.key_limits import needs
from gateway.records.connecting import SESSION_ENDED, ConnectSession, Outcome, PendingConnection
from gateway.records.connection import ConnectionRef
from gateway.runtime import RUNTIME, Runtime, generation_of
from gateway.secret import Secret
from gateway.timestamps import iso

MAX_WAIT_S: Final = 30
MASK: Final = "********"
VERIFIER_FORM: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def _checked_verifier(text: str) -> str:
    if not VERIFIER_FORM.fullmatch(text):
        raise ValueError("must have 43 to 128 characters: letters, digits and - . _ ~ (RFC 7636 §4.1)")
    return text


class Telemetry(Strict):
    """A telemetry event of a published connect page; accepted and discarded."""

    token: str
    event: str
    timestamp: Any = None
    dimensions: dict[str, Any] | None = None


class Completion(Strict):
    """Completes a session. `code_verifier`: the verifier of the session's `code_challenge` (RFC 7636 §4.1).
    `connection_id`: from the verified result, which names the connection of that browser; required if several
    connections are pending."""

    code_verifier: Annotated[
        str,
        AfterValidator(_checked_verifier),
        Field(json_schema_extra={"pattern": f"^{VERIFIER_FORM.pattern}$"}, repr=False),
    ]
    connection_id: ConnectionId | None = None


async def show_session(request: web.Request) -> web.Response:
    """Handle ``GET /connect/session``: return the session for its connect page
    (docs/compatibility.md#connect-sessions)."""
    read_query(request, ())
    require_empty_body(request)
    session, generation = request[CONNECT_SESSION], generation_of(request)
    body: responses.Session = {
        "endUser": end_user_json(session.end_user),
        "connectUISettings": _page_settings(generation),
        "websocketsPath": generation.config.server.websocket_path,
    }
    if session.allowed_integrations:
        body["allowed_integrations"] = list(session.allowed_integrations)
    if session.defaults:
        body["integrations_config_defaults"] = {
            key: _browser_defaults(generation, session, key, default) for key, default in session.defaults.items()
        }
    if session.overrides:
        body["overrides"] = {key: dict(override) for key, override in session.overrides.items()}
    if session.reconnects:
        body["isReconnecting"] = True
    return web.json_response(responses.SessionResponse(data=body))


async def end_session(request: web.Request) -> web.Response:
    """Handle ``DELETE /connect/session``: end the session and respond with 204. Its token is then invalid."""
    read_query(request, ())
    require_empty_body(request)
    await request.app[RUNTIME].sessions.end(request[CONNECT_SESSION])
    return web.Response(status=204)


async def read_result(request: web.Request) -> web.Response:
    """Handle ``GET /connect/session/result``: return the results so far, for a page without a WebSocket.

    ``client``: return only the results of the window with this `ws_client_id`. ``wait_s``: wait up to this number of
    seconds for the first result.
    """
    query = read_query(request, ("client", "wait_s"), numbers={"wait_s": (0, MAX_WAIT_S)})
    require_empty_body(request)
    session = request[CONNECT_SESSION]
    client = client_digest(query.get("client"))
    outcomes = await _wait_for_outcomes(request, session.digest, client, query_number(query, "wait_s") or 0)
    return web.json_response(responses.SessionResult(data=_result_json(outcomes, session.expires_at)))


@needs("environment:connect_sessions:write", limits=True)
async def poll_session(request: web.Request) -> web.Response:
    """Handle ``GET /connect/sessions/{id}``, the session's `poll_url`: return the results to the application's back
    end.

    ``wait_s``: wait up to this number of seconds for the first result. Raises NotFound.
    """
    query = read_query(request, ("wait_s",), numbers={"wait_s": (0, MAX_WAIT_S)})
    require_empty_body(request)
    runtime, session_id, limits_tags = (
        request.app[RUNTIME],
        request.match_info["session_id"],
        request[CALLER].policy.limits_tags,
    )
    session = await runtime.sessions.find_by_digest(session_id)
    is_own_session = session is not None and await _fits_session(request, session)
    if session is not None and not is_own_session and limits_tags:
        raise _unknown_session()
    outcomes = await _wait_for_outcomes(
        request, session_id, None, (query_number(query, "wait_s") or 0) if is_own_session else 0
    )
    outcomes = [
        outcome
        for outcome in outcomes
        if outcome.environment == request[ENVIRONMENT].name and _is_visible(request, outcome)
    ]
    if limits_tags:
        outcomes = await _with_fitting_tags(request, session_id, outcomes, fits_session=is_own_session)
    if is_own_session and not outcomes:
        session = await runtime.sessions.find_by_digest(session_id)  # the session may have ended during the wait
    # The tags of an ended session are no longer known, so a key limited to tags gets the error for an unknown session.
    if (
        not is_own_session
        and not outcomes
        and (limits_tags or not await runtime.store.sessions.has_existed(session_id, request[ENVIRONMENT].name))
    ):
        raise _unknown_session()
    expires_at = session.expires_at if is_own_session and session else None
    return web.json_response(responses.SessionResult(data=_result_json(outcomes, expires_at)))


@needs("environment:connect_sessions:write", limits=True)
async def complete_session(request: web.Request) -> web.Response:
    """Handle ``POST /connect/sessions/{id}/complete``: store the pending connections; respond with 200 and these
    connections.

    A repeated call returns the same response. Raises NotFound if the session does not exist or the key may not use it,
    and the errors of `SessionConnections.complete`.
    """
    read_query(request, ())
    body = await read_json(request, Completion)
    runtime, environment, session_id = request.app[RUNTIME], request[ENVIRONMENT].name, request.match_info["session_id"]
    session = await runtime.sessions.find_by_digest(session_id)
    if session is not None and not await _fits_session(request, session):
        raise _unknown_session()
    pending = await runtime.store.pending.find_by_session(session_id, now=clock.now())
    policy = request[CALLER].policy
    pending = [
        connection
        for connection in pending
        if connection.ref.environment == environment and policy.reaches(*connection.ref[1:])
    ]
    if policy.limits_tags:
        pending = [connection for connection in pending if await _fits_pending(request, connection)]
    if body.connection_id is not None:
        pending = [connection for connection in pending if connection.ref.connection_id == body.connection_id]
    if session is None and not pending:
        raise _unknown_session()
    completed_refs = await runtime.session_connections.complete(session, pending, Secret(body.code_verifier))
    connections = [
        _connection_json(connection.integration_id, connection.connection_id, is_pending=False)
        for connection in completed_refs
    ]
    completed_session: responses.CompletedSession = {"status": "connected", "connections": connections}
    return web.json_response(responses.CompletionResponse(data=completed_session))


def _unknown_session() -> NotFound:
    return NotFound(
        "not_found", "This connect session is unknown or ended long ago. POST /connect/sessions creates a new one."
    )


def _is_visible(request: web.Request, outcome: Outcome) -> bool:
    """Return whether the key may see this outcome."""
    policy = request[CALLER].policy
    if outcome.connection_id:
        return policy.reaches(outcome.integration_id, outcome.connection_id)
    return policy.reaches_integration(outcome.integration_id)


async def _fits_session(request: web.Request, session: ConnectSession) -> bool:
    """Return whether the session belongs to the key's environment and, for a key limited to tags, has these tags.
    In a reconnect, the existing connection can have the tags instead of the session."""
    policy = request[CALLER].policy
    if session.environment != request[ENVIRONMENT].name:
        return False
    if not policy.limits_tags or policy.allows_tags(session.tags):
        return True
    if session.connection_id is None or session.integration_id is None:
        return False
    ref = ConnectionRef(session.environment, session.integration_id, session.connection_id)
    existing = await request.app[RUNTIME].store.connections.get(ref)
    return existing is not None and policy.allows_tags(existing.tags)


async def _with_fitting_tags(
    request: web.Request, session_digest: str, outcomes: Sequence[Outcome], *, fits_session: bool
) -> list[Outcome]:
    """Return the outcomes that a key limited to tags may see: outcomes of connections with the key's tags and, if
    `fits_session`, outcomes without a connection."""
    store, policy = request.app[RUNTIME].store, request[CALLER].policy
    pending = {
        connection.ref: connection
        for connection in await store.pending.find_by_session(session_digest, now=clock.now())
    }
    fits_by_ref: dict[ConnectionRef, bool] = {}
    fitting_outcomes: list[Outcome] = []
    for outcome in outcomes:
        ref = ConnectionRef(outcome.environment, outcome.integration_id, outcome.connection_id or "")
        if ref not in fits_by_ref:
            existing = await store.connections.get(ref) if outcome.connection_id else None
            if existing is not None:
                fits_by_ref[ref] = policy.allows_tags(existing.tags)
            elif ref in pending:
                fits_by_ref[ref] = await _fits_pending(request, pending[ref])
            else:
                fits_by_ref[ref] = fits_session
        if fits_by_ref[ref]:
            fitting_outcomes.append(outcome)
    return fitting_outcomes


async def _fits_pending(request: web.Request, pending: PendingConnection) -> bool:
    """Return whether a key limited to tags may complete the pending connection. The connection must have the key's tags
    after the completion and, if the connection already exists, also before."""
    policy = request[CALLER].policy
    existing_connection = await request.app[RUNTIME].store.connections.get(pending.ref)
    tags = None if pending.new is None else pending.new.tags
    resulting_tags = tags if tags is not None or existing_connection is None else existing_connection.tags
    return policy.allows_tags(resulting_tags or {}) and (
        existing_connection is None or policy.allows_tags(existing_connection.tags)
    )


async def telemetry(request: web.Request) -> web.Response:
    """Handle ``POST /connect/telemetry``: discard the event and respond with 204. Raises Unauthorized for an invalid
    token, InvalidRequest."""
    body = await read_json(request, Telemetry)
    if len(body.event) > 255:
        raise InvalidRequest("invalid_body", "'event' may have at most 255 characters.")
    await request.app[RUNTIME].sessions.find(body.token)
    return web.Response(status=204)


async def _wait_for_outcomes(
    request: web.Request, session_digest: str, client: str | None, wait_s: int
) -> Sequence[Outcome]:
    """Return the stored outcomes. If there are none, wait up to `wait_s` seconds for the first outcome."""
    runtime, generation = request.app[RUNTIME], generation_of(request)
    with runtime.outcomes.waiter(client or session_digest) as window:
        outcomes = await _read_outcomes(runtime, session_digest, client)
        if not outcomes and wait_s and not runtime.outcomes.is_full(generation.config.connect.result_sockets):
            await asyncio.wait({window.outcome}, timeout=wait_s)
            outcomes = await _read_outcomes(runtime, session_digest, client)
    return outcomes


async def _read_outcomes(runtime: Runtime, session_digest: str, client: str | None) -> Sequence[Outcome]:
    outcomes = await runtime.store.flow_results.find_by_session(session_digest)
    outcomes = [outcome for outcome in outcomes if outcome.error_type != SESSION_ENDED]
    return outcomes if client is None else [outcome for outcome in outcomes if outcome.client_digest == client]


def _result_json(outcomes: Sequence[Outcome], expires_at: datetime | None) -> responses.SessionOutcome:
    """Return the result as JSON. `expires_at` None: the session has ended. After a failed attempt, the status is still
    ``pending``, because the end user can try again until the session expires."""
    connected_outcomes = _connected_outcomes(outcomes)
    connected = any(not outcome.is_pending for outcome in connected_outcomes)
    body: responses.SessionOutcome = {
        "status": "connected" if connected else "pending" if connected_outcomes or expires_at else "expired",
        "connections": [
            _connection_json(outcome.integration_id, outcome.connection_id or "", is_pending=outcome.is_pending)
            for outcome in connected_outcomes
        ],
    }
    if outcomes and not outcomes[-1].succeeded:
        newest_outcome = outcomes[-1]
        body["error"] = {
            "type": newest_outcome.error_type or "",
            "code": newest_outcome.code or "",
            "message": newest_outcome.error_desc or "",
            "provider_config_key": newest_outcome.integration_id,
        }
    if expires_at is not None:
        body["expires_at"] = iso(expires_at)
    return body


def _connection_json(integration_id: str, connection_id: str, *, is_pending: bool) -> responses.SessionConnection:
    return {"provider_config_key": integration_id, "connection_id": connection_id, "is_pending": is_pending}


def _connected_outcomes(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return one outcome for each created connection. When a pending connection is completed, its new outcome replaces
    its first outcome. A pending connection that can no longer be completed is left out."""
    connected: list[Outcome | None] = []
    pending_at: dict[tuple[str, str | None], int] = {}
    for outcome in outcomes:
        key = outcome.integration_id, outcome.connection_id
        position = pending_at.pop(key, None)
        if outcome.succeeded:
            if position is None:
                position = len(connected)
                connected.append(outcome)
            connected[position] = outcome
            if outcome.is_pending:
                pending_at[key] = position
        elif position is not None:
            if outcome.is_pending:
                connected[position] = None
            else:
                pending_at[key] = position
    return [connection for connection in connected if connection is not None]


def _browser_defaults(
    generation: Generation, session: ConnectSession, key: str, defaults: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Return the values that the session fixes for one integration, for the browser. Settings that the provider's entry
    marks as secret are masked."""
    browser_values = {
        name: defaults[name] for name in ("connection_config", "authorization_params") if name in defaults
    }
    integration = generation.integrations.find(session.environment, key)
    provider = generation.catalog.get(integration.provider) if integration else None
    if provider is None:
        browser_values.pop("connection_config", None)  # without the provider's entry, any setting could be secret
    elif "connection_config" in browser_values:
        secret_names = {name.casefold() for name, setting in provider.connection_config.items() if setting.secret}
        fixed_settings = browser_values["connection_config"].items()
        browser_values["connection_config"] = {
            name: MASK if name.casefold() in secret_names else value for name, value in fixed_settings
        }
    return browser_values


def _page_settings(generation: Generation) -> dict[str, Any]:
    branding = generation.config.branding
    return {
        "theme": {"light": {"primary": branding.color}, "dark": {"primary": branding.color_dark}},
        "defaultTheme": "system",
        "showWatermark": False,
    }
