"""Connections: list, read, import, delete (api-contract 1.4)."""

from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.api.body import Strict, number, query_of, read_json, truth, wrong_query
from gateway.api.connection_json import listed, whole
from gateway.api.shapes import (
    ConnectionId,
    EndUserBody,
    ProviderConfigKey,
    Tags,
    derived_tags,
    end_user,
)
from gateway.api.story_json import told
from gateway.auth import modes
from gateway.errors import InvalidRequest, Issue, NotFound, ReconnectNeeded, Unavailable
from gateway.records.connection import ConnectionRef
from gateway.records.integration import Integration
from gateway.services import SERVICES, Services
from gateway.store import ListFilter, cursor_after
from gateway.wire.query import members
from middleware.facts import ENVIRONMENT

FILTERS: Final = (
    "connectionId",
    "search",
    "endUserId",
    "endUserOrganizationId",
    "integrationId",
    "limit",
    "page",
    "cursor",
)
TRUTHS: Final = ("force_refresh", "refresh_token", "refresh_github_app_jwt_token")
MOST: Final = 2000
WITHOUT_LIMIT: Final = 10_000


class Import(Strict):
    """A credential that the customer already has. `credentials` is checked by the provider's auth mode."""

    provider_config_key: ProviderConfigKey
    credentials: dict[str, Any]
    connection_id: ConnectionId | None = None
    connection_config: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    webhook_url_override: str | None = None
    end_user: EndUserBody | None = None
    tags: Tags | None = None


async def list_connections(request: web.Request) -> web.Response:
    query = query_of(request, FILTERS, nested=("tags",), numbers={"limit": (1, MOST), "page": (0, 10**9)})
    limit, page = number(query, "limit"), number(query, "page")
    if page is not None and "cursor" in query:
        raise wrong_query("page", "Give either 'page' or 'cursor'.")
    wanted = ListFilter(
        connection_id=query.get("connectionId"),
        search=query.get("search"),
        end_user_id=query.get("endUserId"),
        organization_id=query.get("endUserOrganizationId"),
        integration_ids=tuple(key.strip() for key in query.get("integrationId", "").split(",") if key.strip()),
        tags={key.lower(): text for key, text in members(request.query, "tags").items()},
        limit=(limit or WITHOUT_LIMIT) + 1,
        offset=(page or 0) * (limit or WITHOUT_LIMIT),
        cursor=query.get("cursor"),
    )
    services = request.app[SERVICES]
    found = await services.store.connections.list(request[ENVIRONMENT].name, wanted)
    shown = found[: limit or WITHOUT_LIMIT]
    body: dict[str, Any] = {"connections": [listed(one) for one in shown]}
    if len(found) > len(shown):
        body["next_cursor"] = cursor_after(shown[-1])
    return web.json_response(body)


async def get_connection(request: web.Request) -> web.Response:
    """One connection with its credentials, renewed where needed (requirement 8)."""
    query = query_of(request, ("provider_config_key", "include", *TRUTHS), truths=TRUTHS)
    with_history = _includes_history(query)
    services = request.app[SERVICES]
    ref = _ref(request, services, query)
    with_refresh_token = truth(query, "refresh_token")
    force = truth(query, "force_refresh")
    await services.store.connections.touch_fetched(ref, now=clock.now())
    try:
        connection = await services.live.current(ref, force=force)
    except (ReconnectNeeded, Unavailable) as fault:
        row = await services.store.connections.get(ref)
        if row is None:
            raise
        # A copy: the fault itself may be told to others who waited for the same renewal.
        shown = whole(services.store, row, credentials=False)
        if with_history:
            shown |= await told(services, row)
        payload = {**(fault.payload or {}), "connection": shown}
        raise type(fault)(fault.code, fault.message, payload=payload, retry_after_s=fault.retry_after_s) from fault
    shown = whole(services.store, connection, with_refresh_token=with_refresh_token)
    if with_history:
        shown |= await told(services, connection)
    return web.json_response(shown)


async def import_connection(request: web.Request) -> web.Response:
    """201 with the whole connection; the same id again replaces what it held."""
    body = await read_json(request, Import)
    services = request.app[SERVICES]
    integration = services.integrations.get(request[ENVIRONMENT].name, body.provider_config_key)
    held = _credential(services, integration, body.credentials)
    user = end_user(body.end_user)
    tags = derived_tags(user, body.tags) if user or body.tags is not None else None
    connection, _ = await services.creator.create(
        integration,
        held,
        connection_id=body.connection_id,
        config=body.connection_config,
        metadata=body.metadata,
        tags=tags,
        end_user=user,
        webhook_url_override=body.webhook_url_override,
    )
    shown = whole(services.store, connection, with_refresh_token=True, zulu=True)
    return web.json_response(shown, status=201)


async def delete_connection(request: web.Request) -> web.Response:
    """Here at once, and its tokens at the provider; what became of each of these is told."""
    query = query_of(request, ("provider_config_key", "revoke"), truths=("revoke",))
    services = request.app[SERVICES]
    ref = _ref(request, services, query)
    at_provider = "revoke" not in query or truth(query, "revoke")
    deleted = await services.deleter.delete(ref, at_provider=at_provider)
    if deleted is None:
        raise NotFound(
            "unknown_connection",
            f"Integration '{ref.integration_id}' has no connection '{ref.connection_id}'; nothing was deleted.",
        )
    # Absent where the provider has no such call: published clients know the bare answer.
    outcomes = [one.as_json() for one in deleted.revocation if one.outcome != "not_offered"]
    return web.json_response({"success": True, **({"revocation": outcomes} if outcomes else {})})


def _includes_history(query: dict[str, str]) -> bool:
    if query.get("include", "history") != "history":
        raise wrong_query("include", "It may be 'history'.")
    return "include" in query


def _ref(request: web.Request, services: Services, query: dict[str, str]) -> ConnectionRef:
    key = query.get("provider_config_key")
    if not key:
        raise wrong_query("provider_config_key", "Name the integration: ?provider_config_key=<key>.")
    environment = request[ENVIRONMENT].name
    services.integrations.get(environment, key)
    return ConnectionRef(environment, key, request.match_info["connection_id"])


def _credential(services: Services, integration: Integration, credentials: dict[str, Any]) -> dict[str, Any]:
    provider = services.creator.provider_of(integration)
    kind = credentials.get("type")
    mode = modes()[provider.auth_mode]
    if kind is not None and kind not in (mode.name, *mode.types()):
        message = (
            f"Integration '{integration.integration_id}' takes credentials of type '{provider.auth_mode}', "
            f"not {str(kind)[:40]!r}."
        )
        raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, ("credentials", "type"))])
    return mode.accept({"type": mode.types()[0], **credentials}, provider, clock.now())
