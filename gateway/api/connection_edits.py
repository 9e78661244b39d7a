"""What can be changed of a connection without a new credential: tags, end user, metadata (api-contract 1.4)."""

from typing import Annotated, Any

from aiohttp import hdrs, web
from pydantic import Field

from gateway import clock
from gateway.api.addressed import in_path, known_ref, ref_of
from gateway.api.body import Strict, parsed, query_of, read_json
from gateway.api.connect import check_tags
from gateway.api.narrow import check_webhook
from gateway.api.shapes import (
    MOST_NAMED,
    ConnectionId,
    EndUserBody,
    ProviderConfigKey,
    Tags,
    WebhookUrl,
    end_user,
    tags_asked,
)
from gateway.errors import InvalidRequest, Issue, NotFound
from gateway.records.connection import Connection, ConnectionRef
from gateway.services import SERVICES, Services
from gateway.store import Edit, UnknownConnection
from gateway.wire.ids import CONNECTION_ID
from middleware.facts import CALLER, ENVIRONMENT
from middleware.scope import needs


class ConnectionChanges(Strict):
    """What is left out stays. `tags` and `end_user` replace all tags; an empty `webhook_url_override` takes it away."""

    end_user: EndUserBody | None = None
    tags: Tags | None = None
    webhook_url_override: WebhookUrl | None = None


class NewMetadata(Strict):
    """Of one connection or of several: of all or of none."""

    connection_id: ConnectionId | Annotated[list[ConnectionId], Field(min_length=1, max_length=MOST_NAMED)]
    provider_config_key: ProviderConfigKey
    metadata: dict[str, Any]


@needs("environment:connections:update", limits=True)
async def patch_connection(request: web.Request) -> web.Response:
    query = query_of(request, ("provider_config_key",))
    body = await read_json(request, ConnectionChanges)
    services = request.app[SERVICES]
    ref = await ref_of(request, services, query)
    check_webhook(request[CALLER].policy, body.webhook_url_override)
    user = end_user(body.end_user)
    tags = tags_asked(user, body.tags)
    if tags is not None:
        check_tags(request[CALLER], tags)
    wanted = Edit(end_user=user, tags=tags, webhook_url_override=body.webhook_url_override)
    try:
        services.live.replace(await services.store.edits.edit(ref, wanted, now=clock.now()))
    except UnknownConnection as fault:
        raise _unknown(fault.ref) from fault
    return web.json_response({"success": True})


@needs("environment:connections:update", limits=True)
async def set_metadata(request: web.Request) -> web.Response:
    """201 with what was sent; it replaces what there was."""
    return await _metadata(request, merge=False)


@needs("environment:connections:update", limits=True)
async def merge_metadata(request: web.Request) -> web.Response:
    """200 with what was sent; top-level members that it does not name stay."""
    return await _metadata(request, merge=True)


@needs("environment:connections:update", limits=True)
async def set_metadata_of_one(request: web.Request) -> web.Response:
    """The same in the form of before: the connection in the path, the integration in a header, the body bare."""
    return await _bare_metadata(request, merge=False)


@needs("environment:connections:update", limits=True)
async def merge_metadata_of_one(request: web.Request) -> web.Response:
    return await _bare_metadata(request, merge=True)


async def _metadata(request: web.Request, *, merge: bool) -> web.Response:
    query_of(request, ())
    body = await read_json(request, NewMetadata)
    services, environment = request.app[SERVICES], request[ENVIRONMENT].name
    ids = [body.connection_id] if isinstance(body.connection_id, str) else body.connection_id
    named = [ConnectionRef(environment, body.provider_config_key, one) for one in ids]
    refs = [await known_ref(services, request[CALLER], ref) for ref in named]
    await _written(services, refs, body.metadata, merge=merge)
    return web.json_response(body.model_dump(), status=200 if merge else 201)


async def _bare_metadata(request: web.Request, *, merge: bool) -> web.Response:
    query_of(request, ())
    services, environment = request.app[SERVICES], request[ENVIRONMENT].name
    key = request.headers.get("Provider-Config-Key")
    if not key:
        message = "Name the integration in the header Provider-Config-Key."
        raise InvalidRequest("invalid_headers", message, errors=[Issue("custom", message, ("provider-config-key",))])
    ref = ConnectionRef(environment, key, in_path(request, "connection_id", CONNECTION_ID, "connectionId"))
    await known_ref(services, request[CALLER], ref)
    metadata = await parsed(request)
    if not isinstance(metadata, dict):
        raise InvalidRequest(
            "invalid_body", "The body must be a JSON object.", errors=[Issue("invalid_type", "must be an object")]
        )
    await _written(services, [ref], metadata, merge=merge)
    return web.json_response(metadata, status=200 if request.method == hdrs.METH_PATCH else 201)


async def _written(services: Services, refs: list[ConnectionRef], metadata: dict[str, Any], *, merge: bool) -> None:
    rows: list[Connection]
    try:
        rows = await services.store.edits.set_metadata(refs, metadata, merge=merge, now=clock.now())
    except UnknownConnection as fault:
        raise _unknown(fault.ref) from fault
    for row in rows:
        services.live.replace(row)


def _unknown(ref: ConnectionRef) -> NotFound:
    return NotFound(
        "unknown_connection",
        f"Integration '{ref.integration_id}' has no connection '{ref.connection_id}'; nothing was changed.",
        payload={"provider_config_key": ref.integration_id, "connection_id": ref.connection_id},
    )
