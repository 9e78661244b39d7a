"""What a connect session tells of itself: to the page that its end user has open, and to the back end that made it."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from aiohttp import web

from gateway.api.body import Strict, number, query_of, read_json
from gateway.api.connection_json import end_user_json
from gateway.auth.moments import iso
from gateway.connections.outcomes import client_digest
from gateway.errors import InvalidRequest, NotFound
from gateway.records.connecting import SESSION_ENDED, ConnectSession, Outcome
from gateway.services import SERVICES, Services
from middleware.facts import CALLER, CONNECT_SESSION, ENVIRONMENT
from middleware.scope import needs

LONGEST_WAIT_S: Final = 30
MASK: Final = "********"


class Telemetry(Strict):
    """What published pages report; taken and forgotten."""

    token: str
    event: str
    timestamp: Any = None
    dimensions: dict[str, Any] | None = None


async def show(request: web.Request) -> web.Response:
    """GET /connect/session (api-contract 1.5)."""
    query_of(request, ())
    session, services = request[CONNECT_SESSION], request.app[SERVICES]
    told: dict[str, Any] = {
        "endUser": end_user_json(session.end_user),
        "connectUISettings": _settings(services),
        "websocketsPath": services.config.server.websocket_path,
    }
    if session.allowed_integrations:
        told["allowed_integrations"] = list(session.allowed_integrations)
    if session.defaults:
        told["integrations_config_defaults"] = {
            key: _for_browser(services, session, key, one) for key, one in session.defaults.items()
        }
    if session.overrides:
        told["overrides"] = {key: dict(one) for key, one in session.overrides.items()}
    if session.reconnects:
        told["isReconnecting"] = True
    return web.json_response({"data": told})


async def end(request: web.Request) -> web.Response:
    """DELETE /connect/session: 204, and from then on its token opens nothing."""
    query_of(request, ())
    await request.app[SERVICES].sessions.end(request[CONNECT_SESSION])
    return web.Response(status=204)


async def result(request: web.Request) -> web.Response:
    """GET /connect/session/result: what has come of it so far, for a page without a WebSocket.

    ``client``: only of the window that named it as `ws_client_id`. ``wait_s``: for so long, until there is anything.
    """
    query = query_of(request, ("client", "wait_s"), numbers={"wait_s": (0, LONGEST_WAIT_S)})
    session = request[CONNECT_SESSION]
    client = client_digest(query.get("client"))
    outcomes = await _awaited(request, session.digest, client, number(query, "wait_s") or 0)
    return web.json_response({"data": _told(outcomes, session.expires_at)})


@needs("environment:connect_sessions:write", limits=True)
async def poll(request: web.Request) -> web.Response:
    """GET /connect/sessions/{id}: the same for the back end, with its key; `poll_url` names it. Raises NotFound."""
    query = query_of(request, ("wait_s",), numbers={"wait_s": (0, LONGEST_WAIT_S)})
    services, name = request.app[SERVICES], request.match_info["session_id"]
    session = await services.sessions.known(name)
    mine = session is not None and session.environment == request[ENVIRONMENT].name
    outcomes = await _awaited(request, name, None, (number(query, "wait_s") or 0) if mine else 0)
    outcomes = [one for one in outcomes if one.environment == request[ENVIRONMENT].name and _reached(request, one)]
    if mine and not outcomes:
        session = await services.sessions.known(name)  # it may have ended while we waited
    if not mine and not outcomes and not await services.store.sessions.ended(name, request[ENVIRONMENT].name):
        raise NotFound(
            "not_found", "This connect session is unknown, or ended long ago. POST /connect/sessions makes one."
        )
    return web.json_response({"data": _told(outcomes, session.expires_at if mine and session else None)})


def _reached(request: web.Request, outcome: Outcome) -> bool:
    """Whether the key may know of it."""
    policy = request[CALLER].policy
    if outcome.connection_id:
        return policy.reaches(outcome.integration_id, outcome.connection_id)
    return policy.reaches_integration(outcome.integration_id)


async def telemetry(request: web.Request) -> web.Response:
    """POST /connect/telemetry: 204. Raises Unauthorized where its token is none."""
    body = await read_json(request, Telemetry)
    if len(body.event) > 255:
        raise InvalidRequest("invalid_body", "'event' may have at most 255 characters.")
    await request.app[SERVICES].sessions.find(body.token)
    return web.Response(status=204)


async def _awaited(request: web.Request, session_digest: str, client: str | None, wait_s: int) -> Sequence[Outcome]:
    """All that is known; where that is nothing, what comes within `wait_s`."""
    services = request.app[SERVICES]
    with services.outcomes.waiting(client or session_digest) as waiting:
        found = await _found(services, session_digest, client)
        if not found and wait_s and not services.outcomes.crowded(services.config.connect.result_sockets):
            await asyncio.wait({waiting.outcome}, timeout=wait_s)
            found = await _found(services, session_digest, client)
    return found


async def _found(services: Services, session_digest: str, client: str | None) -> Sequence[Outcome]:
    found = await services.store.flow_results.of_session(session_digest)
    found = [one for one in found if one.error_type != SESSION_ENDED]
    return found if client is None else [one for one in found if one.client_digest == client]


def _told(outcomes: Sequence[Outcome], expires_at: datetime | None) -> dict[str, Any]:
    """`expires_at` None: the session has ended. A failure is not the end: the user may try again while it lives."""
    made = [one for one in outcomes if one.succeeded]
    told: dict[str, Any] = {
        "status": "connected" if made else "pending" if expires_at else "expired",
        "connections": [
            {
                "provider_config_key": one.integration_id,
                "connection_id": one.connection_id,
                "is_pending": one.is_pending,
            }
            for one in made
        ],
    }
    if outcomes and not outcomes[-1].succeeded:
        last = outcomes[-1]
        told["error"] = {
            "type": last.error_type,
            "code": last.code,
            "message": last.error_desc,
            "provider_config_key": last.integration_id,
        }
    if expires_at is not None:
        told["expires_at"] = iso(expires_at)
    return told


def _for_browser(
    services: Services, session: ConnectSession, key: str, defaults: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """What is fixed for one integration, and of settings that its entry calls secret, only that they are fixed."""
    told = {name: defaults[name] for name in ("connection_config", "authorization_params") if name in defaults}
    integration = services.integrations.find(session.environment, key)
    provider = services.catalog.get(integration.provider) if integration else None
    if provider is None:
        told.pop("connection_config", None)  # nobody can say any more what of it is secret
    elif "connection_config" in told:
        secret = {name.casefold() for name, setting in provider.connection_config.items() if setting.secret}
        fixed = told["connection_config"].items()
        told["connection_config"] = {name: MASK if name.casefold() in secret else value for name, value in fixed}
    return told


def _settings(services: Services) -> dict[str, Any]:
    branding = services.config.branding
    return {
        "theme": {"light": {"primary": branding.color}, "dark": {"primary": branding.color_dark}},
        "defaultTheme": "system",
        "showWatermark": False,
    }
