"""Imports the customer's existing credentials as connections (docs/compatibility.md#connections)."""

from collections.abc import Mapping
from typing import Any, Final

import structlog
from aiohttp import web
from pydantic import ValidationError

from gateway import clock
from gateway.access.caller import Caller
from gateway.access.refusals import no_connection_error
from gateway.access.scopes import READ_CONNECTION_CREDENTIALS
from gateway.api.connect_endpoints import check_required_tags
from gateway.api.connection_json import full_connection_json
from gateway.api.minted_key_limits import check_webhook
from gateway.api.path_ids import check_exists
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
from gateway.middleware.key_limits import check_reach, needs
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.integration import Integration
from gateway.runtime import RUNTIME, Runtime, generation_of

# Names in the former flat format: name of a credential's member ▸ the name that old clients send.
FLAT_NAMES: Final[Mapping[str, str]] = {"apiKey": "api_key"}
FLAT_CLIENT_NAMES: Final[Mapping[str, str]] = {
    "client_id": "oauth_client_id_override",
    "client_secret": "oauth_client_secret_override",
}
NO_EXPIRATION: Final = "no_expiration"  # says only that `expires_at` is left out on purpose
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
    """Import a credential. Respond with 201 and the connection. If a connection with this id exists, its credential is
    replaced. If the key may not read credentials, the response leaves the credential out."""
    read_query(request, ())
    runtime, generation, caller = request.app[RUNTIME], generation_of(request), request[CALLER]
    connection, warnings = await store_connection(runtime, generation, caller, await read_any_json(request))
    may_read_credentials = caller.policy.allows(READ_CONNECTION_CREDENTIALS)
    connection_json = full_connection_json(
        runtime.store, connection, credentials=may_read_credentials, with_refresh_token=True, times_in_z=True
    )
    if warnings:
        connection_json["warnings"] = [
            {"code": warning.code, "message": warning.message, "path": list(warning.path)} for warning in warnings
        ]
    return web.json_response(connection_json, status=201)


@needs("environment:connections:create", limits=True)
async def import_flat(request: web.Request) -> web.Response:
    """Import a credential from a body in the former flat format. Respond with 201, the body that was sent, and the
    connection's id."""
    read_query(request, ())
    document = await read_any_json(request)
    connection, _ = await store_connection(
        request.app[RUNTIME], generation_of(request), request[CALLER], _nest_flat_form(document)
    )
    return web.json_response({**document, "connection_id": connection.ref.connection_id}, status=201)


async def store_connection(
    runtime: Runtime, generation: Generation, caller: Caller, document: Any
) -> tuple[Connection, list[Issue]]:
    """Store the imported connection; return the connection and the warnings. Raises InvalidRequest with all faults of
    the body and of the credential, NotFound if the caller's key may not use the connection, and Forbidden."""
    environment = caller.environment.name
    body, credential = _check_import(runtime, generation, caller, document)
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
    for warning in warnings:
        log.warning("unknown_setting", connection_id=connection.ref.connection_id, detail=warning.message)
    return connection, warnings


async def _permitted_settings(
    runtime: Runtime, caller: Caller, integration: Integration, body: Import
) -> Mapping[str, Any] | None:
    """Return the settings of the imported connection. An existing connection keeps its settings if the key may not
    change settings.

    Raises InvalidRequest if the import would change an existing setting that the key may not change.
    """
    sent_settings = body.connection_config
    if not sent_settings or body.connection_id is None or not caller.policy.keeps_settings:
        return sent_settings
    ref = ConnectionRef(integration.environment, integration.integration_id, body.connection_id)
    existing = await runtime.store.connections.get(ref)
    if existing is None:
        return sent_settings
    old_settings = runtime.store.settings_of(existing)
    settings = accepted_settings(runtime.creator.provider_of(integration), sent_settings, ("connection_config",))
    check_unchanged(old_settings, settings, ("connection_config",))
    return {**old_settings, **settings}


async def _check_required_tags(
    runtime: Runtime, caller: Caller, integration: Integration, connection_id: str | None, tags: dict[str, str] | None
) -> None:
    """Check the tags for a key that is limited to tags: the stored connection and the imported connection must both
    have the key's tags. Raises NotFound, Forbidden."""
    if not caller.policy.limits_tags:
        return
    existing = None
    if connection_id is not None:
        ref = ConnectionRef(integration.environment, integration.integration_id, connection_id)
        existing = await runtime.store.connections.get(ref)
        if existing is not None and not caller.policy.allows_tags(existing.tags):
            raise no_connection_error(integration.integration_id, connection_id)
    check_required_tags(caller, existing.tags if tags is None and existing is not None else tags or {})


def _check_import(
    runtime: Runtime, generation: Generation, caller: Caller, document: Any
) -> tuple[Import, dict[str, Any]]:
    """Return the checked body and the checked credential. Raises InvalidRequest with all faults of both, and NotFound
    for an integration that does not exist or that the caller's key may not use."""
    environment = caller.environment.name
    faults: list[Issue] = []
    body: Import | None = None
    try:
        body = Import.model_validate(document)
    except ValidationError as fault:
        check_fault_count(fault, "invalid_body")
        faults = pydantic_issues(fault, document, Import)
    credential: dict[str, Any] = {}
    key = document.get("provider_config_key") if isinstance(document, dict) else None
    if isinstance(key, str):
        connection_id = document.get("connection_id")
        check_reach(caller, ConnectionRef(environment, key, connection_id if isinstance(connection_id, str) else ""))
    integration = generation.integrations.find(environment, key) if isinstance(key, str) else None
    if integration is not None and isinstance(document.get("credentials"), dict):
        try:
            credential = _check_credential(runtime, integration, document["credentials"])
        except InvalidRequest as fault:
            faults += fault.errors
    elif body is not None:
        check_exists(generation, caller, environment, body.provider_config_key)
    if body is None or faults:
        raise InvalidRequest("invalid_body", joined_issues(faults), errors=faults)
    return body, credential


def _check_credential(runtime: Runtime, integration: Integration, credentials: dict[str, Any]) -> dict[str, Any]:
    provider = runtime.creator.provider_of(integration)
    mode = modes()[provider.auth_mode]
    mode.check_type(credentials.get("type"), f"Integration '{integration.integration_id}'")
    return mode.accept({"type": mode.types()[0], **credentials}, provider, clock.now())


def _unknown_settings(provider: Provider, config: Mapping[str, Any]) -> list[Issue]:
    """Return an issue for each unknown setting. Unknown settings are stored, because a later version of the provider's
    entry may use them. But an unknown name is usually a mistake, so the response reports the name."""
    known_names = {
        name.casefold() for name in (*provider.connection_config, *(provider.connection_configuration or ()))
    }
    known_names.add("oauth_scopes_override")
    return [
        Issue(
            "unrecognized_keys",
            f"'{name[:64]}' was stored, but '{provider.name}' has no such setting. Check the name.",
            ("connection_config", name),
        )
        for name in config
        if name.casefold() not in known_names
    ]


def _nest_flat_form(document: Any) -> Any:
    """Convert a body in the former flat format into the current format. Unknown members become members of
    `credentials`, and the check of the credential reports them."""
    if not isinstance(document, dict):
        return document
    credential_members = {name: value for name, value in document.items() if name not in TOP_LEVEL_MEMBERS}
    for name, old_name in FLAT_NAMES.items():
        if old_name in credential_members:
            credential_members[name] = credential_members.pop(old_name)
    client_names = {name: old_name for name, old_name in FLAT_CLIENT_NAMES.items() if old_name in credential_members}
    if client := {name: credential_members.pop(old_name) for name, old_name in client_names.items()}:
        credential_members["config_override"] = client
    if isinstance(credential_members.get(NO_EXPIRATION), bool):
        del credential_members[NO_EXPIRATION]
    top_level_members = {name: document[name] for name in document if name in TOP_LEVEL_MEMBERS}
    return {**top_level_members, "credentials": credential_members}
