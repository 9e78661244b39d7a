"""Imports the customer's existing credentials as connections (docs/compatibility.md#connections)."""

from collections.abc import Mapping
from typing import Any, Final

import structlog
from aiohttp import web
from pydantic import ValidationError

from gateway import clock
from gateway.access.caller import Caller
from gateway.access.refusals import no_connection_error
from gateway.api.connect_endpoints import check_required_tags
from gateway.api.connection_json import full_connection_json
from gateway.api.minted_key_limits import check_webhook
from gateway.api.request_body import Strict, check_fault_count, pydantic_issues, read_any_json, read_query
from gateway.api.shapes import (
    ConnectionId,
    EndUserBody,
    FreeMembers,
    ProviderConfigKey,
    Tags,
    WebhookUrl,
    end_user,
    replacing_tags,
)
from gateway.auth import modes
from gateway.catalog.provider import Provider
from gateway.connections.create import check_unchanged
from gateway.connections.settings import accepted_settings
from gateway.errors import InvalidRequest, Issue, joined_issues
from gateway.generation import Generation
from gateway.middleware.facts import CALLER
from gateway.middleware.key_limits import needs
from gateway.middleware.which_connection import check_reach
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.integration import Integration
from gateway.runtime import RUNTIME, Runtime, generation_of

# Names of the flat form: member of the credential ▸ its name in old clients.
FLAT_NAMES: Final[Mapping[str, str]] = {"apiKey": "api_key"}
READ_CREDENTIALS: Final = "environment:connections:read_credentials"
TOP_LEVEL_MEMBERS: Final = frozenset({"provider_config_key", "connection_id", "metadata", "connection_config"})

log = structlog.get_logger(__name__)


class Import(Strict):
    """A credential to import. The members of `credentials` depend on the provider's auth mode."""

    provider_config_key: ProviderConfigKey
    credentials: dict[str, Any]
    connection_id: ConnectionId | None = None
    connection_config: FreeMembers | None = None
    metadata: FreeMembers | None = None
    webhook_url_override: WebhookUrl | None = None
    end_user: EndUserBody | None = None
    tags: Tags | None = None


@needs("environment:connections:create", limits=True)
async def import_connection(request: web.Request) -> web.Response:
    """Respond with 201 and the connection. Importing the same id again replaces its credential. A key that may not read
    credentials gets the connection without its credential."""
    read_query(request, ())
    runtime, generation, caller = request.app[RUNTIME], generation_of(request), request[CALLER]
    connection, warnings = await store_connection(runtime, generation, caller, await read_any_json(request))
    revealed = caller.policy.allows(READ_CREDENTIALS)
    shown = full_connection_json(
        runtime.store, connection, credentials=revealed, with_refresh_token=True, times_in_z=True
    )
    if warnings:
        shown["warnings"] = [{"code": one.code, "message": one.message, "path": list(one.path)} for one in warnings]
    return web.json_response(shown, status=201)


@needs("environment:connections:create", limits=True)
async def import_flat(request: web.Request) -> web.Response:
    """Import in the former flat form: respond with 201, the body that was sent, and the connection's id."""
    read_query(request, ())
    sent = await read_any_json(request)
    connection, _ = await store_connection(
        request.app[RUNTIME], generation_of(request), request[CALLER], _nest_flat_form(sent)
    )
    return web.json_response({**sent, "connection_id": connection.ref.connection_id}, status=201)


async def store_connection(
    runtime: Runtime, generation: Generation, caller: Caller, sent: Any
) -> tuple[Connection, list[Issue]]:
    """Store the connection; return it, and warnings. Raises InvalidRequest with all faults, including the credential's,
    NotFound if the caller's key may not use it, and Forbidden.
    """
    environment = caller.environment.name
    body, credential = _check_import(runtime, generation, caller, sent)
    integration = generation.integrations.get(environment, body.provider_config_key)
    user = end_user(body.end_user)
    tags = replacing_tags(user, body.tags)
    await _check_required_tags(runtime, caller, integration, body.connection_id, tags)
    check_webhook(caller.policy, body.webhook_url_override)
    config = await _permitted_settings(runtime, caller, integration, body)
    connection, _ = await runtime.creator.create(
        integration,
        credential,
        connection_id=body.connection_id,
        config=config,
        metadata=body.metadata,
        tags=tags,
        end_user=user,
        webhook_url_override=body.webhook_url_override,
        pinned=caller.policy.keeps_settings,
    )
    warnings = list(_unknown_settings(runtime.creator.provider_of(integration), body.connection_config or {}))
    for one in warnings:
        log.warning("unknown_setting", connection_id=connection.ref.connection_id, detail=one.message)
    return connection, warnings


async def _permitted_settings(
    runtime: Runtime, caller: Caller, integration: Integration, body: Import
) -> Mapping[str, Any] | None:
    """Return the settings for the import. A key that may not change an existing connection's settings keeps them.

    Raises InvalidRequest.
    """
    given = body.connection_config
    if not given or body.connection_id is None or not caller.policy.keeps_settings:
        return given
    ref = ConnectionRef(integration.environment, integration.integration_id, body.connection_id)
    existing = await runtime.store.connections.get(ref)
    if existing is None:
        return given
    before = {**existing.config, **runtime.store.open(existing.secret_config)}
    settings = accepted_settings(runtime.creator.provider_of(integration), given, ("connection_config",))
    check_unchanged(before, settings, ("connection_config",))
    return {**before, **settings}


async def _check_required_tags(
    runtime: Runtime, caller: Caller, integration: Integration, connection_id: str | None, tags: dict[str, str] | None
) -> None:
    """Check the tags for a key that is limited to tags: the stored connection and the imported one must have them.
    Raises NotFound, Forbidden."""
    if not caller.policy.of_tags:
        return
    existing = None
    if connection_id is not None:
        ref = ConnectionRef(integration.environment, integration.integration_id, connection_id)
        existing = await runtime.store.connections.get(ref)
        if existing is not None and not caller.policy.fits(existing.tags):
            raise no_connection_error(integration.integration_id, connection_id)
    check_required_tags(caller, existing.tags if tags is None and existing is not None else tags or {})


def _check_import(runtime: Runtime, generation: Generation, caller: Caller, sent: Any) -> tuple[Import, dict[str, Any]]:
    """Check the form and the credential, and report the faults of both together."""
    environment = caller.environment.name
    faults: list[Issue] = []
    body: Import | None = None
    try:
        body = Import.model_validate(sent)
    except ValidationError as fault:
        check_fault_count(fault, "invalid_body")
        faults = pydantic_issues(fault, sent, Import)
    credential: dict[str, Any] = {}
    key = sent.get("provider_config_key") if isinstance(sent, dict) else None
    if isinstance(key, str):
        named = sent.get("connection_id")
        check_reach(caller, ConnectionRef(environment, key, named if isinstance(named, str) else ""))
    integration = generation.integrations.find(environment, key) if isinstance(key, str) else None
    if integration is not None and isinstance(sent.get("credentials"), dict):
        try:
            credential = _check_credential(runtime, integration, sent["credentials"])
        except InvalidRequest as fault:
            faults += fault.errors
    elif body is not None:
        # Raises NotFound, with the closest existing key.
        generation.integrations.get(environment, body.provider_config_key)
    if body is None or faults:
        raise InvalidRequest("invalid_body", joined_issues(faults), errors=faults)
    return body, credential


def _check_credential(runtime: Runtime, integration: Integration, credentials: dict[str, Any]) -> dict[str, Any]:
    provider = runtime.creator.provider_of(integration)
    kind = credentials.get("type")
    mode = modes()[provider.auth_mode]
    if kind is not None and kind not in (mode.name, *mode.types()):
        message = (
            f"Integration '{integration.integration_id}' takes credentials of type '{provider.auth_mode}', "
            f"not {str(kind)[:40]!r}."
        )
        raise InvalidRequest("invalid_body", message, errors=[Issue("custom", message, ("credentials", "type"))])
    return mode.accept({"type": mode.types()[0], **credentials}, provider, clock.now())


def _unknown_settings(provider: Provider, config: Mapping[str, Any]) -> list[Issue]:
    """Return an issue for each unknown setting. Unknown settings are stored, since a later version of the entry may use
    them. But an unknown name is usually a mistake, so the response reports it."""
    known = {name.casefold() for name in (*provider.connection_config, *(provider.connection_configuration or ()))}
    known.add("oauth_scopes_override")
    return [
        Issue(
            "unrecognized_keys",
            f"'{name[:64]}' was stored, but '{provider.name}' has no such setting. Check the name.",
            ("connection_config", name),
        )
        for name in config
        if name.casefold() not in known
    ]


def _nest_flat_form(sent: Any) -> Any:
    """Convert the flat form into the current form. Members that belong to neither stay, and the checks of the current
    form report them."""
    if not isinstance(sent, dict):
        return sent
    rest = {name: value for name, value in sent.items() if name not in TOP_LEVEL_MEMBERS}
    for name, old in FLAT_NAMES.items():
        if old in rest:
            rest[name] = rest.pop(old)
    nested = {name: sent[name] for name in sent if name in TOP_LEVEL_MEMBERS}
    return {**nested, "credentials": rest}
