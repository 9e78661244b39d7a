"""Integrations: list, read, create, change, delete (docs/compatibility.md#integrations). Integrations that gateway.yaml
declares are read-only."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final, NoReturn

from aiohttp import web

from gateway import clock
from gateway.access.key_policy import Policy
from gateway.access.refusals import beyond_limits_error, missing_scope_error
from gateway.access.scopes import LIST_INTEGRATIONS
from gateway.api import responses
from gateway.api.integration_shapes import (
    IntegrationChanges,
    NewIntegration,
    credentials_json,
    entry_issues,
    fields_from_credentials,
    integration_json,
    webhook_url,
)
from gateway.api.path_ids import unique_key
from gateway.api.request_body import read_json, read_query, require_empty_body
from gateway.auth import modes
from gateway.catalog.load_catalog import Catalog
from gateway.catalog.provider import Provider
from gateway.errors import Conflict, InvalidRequest, Issue, NotFound, joined_issues
from gateway.generation import Generation
from gateway.middleware.facts import CALLER, CONNECT_SESSION, ENVIRONMENT
from gateway.middleware.key_limits import needs
from gateway.records.integration import Integration
from gateway.runtime import RUNTIME, Runtime, generation_of
from gateway.text import did_you_mean

READ_CREDENTIALS: Final = "environment:integrations:read_credentials"
INCLUDABLE: Final = ("webhook", "credentials")


@needs(LIST_INTEGRATIONS, limits=True)
async def list_integrations(request: web.Request) -> web.Response:
    read_query(request, ())
    require_empty_body(request)
    runtime, generation = request.app[RUNTIME], generation_of(request)
    integrations = generation.integrations.list_in(request[ENVIRONMENT].name)
    session = request.get(CONNECT_SESSION)
    if session is None:
        integrations = [
            integration
            for integration in integrations
            if request[CALLER].policy.reaches_integration(integration.integration_id)
        ]
    elif session.allowed_integrations:
        integrations = [
            integration for integration in integrations if integration.integration_id in session.allowed_integrations
        ]
    return web.json_response(
        responses.IntegrationList(
            data=[integration_json(runtime, generation, integration) for integration in integrations]
        )
    )


@needs("environment:integrations:read", limits=True)
async def get_integration(request: web.Request) -> web.Response:
    query = read_query(request, ("include",), repeatable={"include": INCLUDABLE})
    require_empty_body(request)
    runtime, generation = request.app[RUNTIME], generation_of(request)
    integration = _integration_in_path(request, generation)
    body = integration_json(runtime, generation, integration)
    included_parts = query.get("include", "").split(",")
    if "webhook" in included_parts:
        body["webhook_url"] = webhook_url(generation, integration)
    policy = request[CALLER].policy
    if "credentials" in included_parts and policy.allows(READ_CREDENTIALS) and not policy.limits_connections:
        # Write the audit record before the credentials are returned.
        await request.app[RUNTIME].store.integrations.record_read(integration, now=clock.now())
        body["credentials"] = credentials_json(generation, integration)
        if integration.custom:
            body["custom"] = dict(integration.custom)
    return web.json_response(responses.IntegrationResponse(data=body))


@needs("environment:integrations:create", limits=True)
async def create_integration(request: web.Request) -> web.Response:
    """Create an integration. Respond with 200 and the integration. Raises InvalidRequest with all faults of the body
    itself or, if there are none, with everything in the body that does not fit the provider's entry."""
    read_query(request, ())
    body = await read_json(request, NewIntegration)
    runtime, generation, environment = request.app[RUNTIME], generation_of(request), request[ENVIRONMENT].name
    _check_reach(request[CALLER].policy, body.unique_key)
    provider = generation.catalog.get(body.provider)
    faults = [
        *_provider_issues(provider, body.provider, generation.catalog),
        *(entry_issues(provider, body) if provider else ()),
    ]
    if generation.integrations.has(environment, body.unique_key):
        faults.append(_key_in_use_issue(generation, environment, body.unique_key))
    _raise_if_any(faults)
    integration = Integration(
        environment=environment,
        integration_id=body.unique_key,
        provider=body.provider,
        display_name=body.display_name,
        forward_webhooks=body.forward_webhooks,
        allowed_hosts=tuple(dict.fromkeys(body.allowed_hosts or ())),
        allow_unsigned_webhooks=body.allow_unsigned_webhooks,
        custom=tuple((body.custom or {}).items()),
        **fields_from_credentials(body.credentials),
    )
    stored_integration = await runtime.api_integrations.add(integration)
    if stored_integration is None:
        raise _invalid_body([_key_in_use_issue(generation, environment, body.unique_key)])
    return web.json_response(
        responses.IntegrationResponse(data=integration_json(runtime, generation, stored_integration))
    )


@needs("environment:integrations:update", limits=True)
async def patch_integration(request: web.Request) -> web.Response:
    """Change an integration. Respond with 200 and the integration. This process uses the change immediately; other
    processes use the change after at most `live.trust_s`."""
    read_query(request, ())
    body = await read_json(request, IntegrationChanges)
    runtime, generation = request.app[RUNTIME], generation_of(request)
    policy = request[CALLER].policy
    _check_reach(policy, unique_key(request))
    if body.unique_key is not None:
        _check_reach(policy, body.unique_key)
    integration = _require_changeable(generation, _integration_in_path(request, generation))
    _check_hosts(policy, integration, body)
    provider = generation.catalog.get(integration.provider)
    faults = [
        *_provider_issues(provider, integration.provider, generation.catalog),
        *(entry_issues(provider, body) if provider else ()),
    ]
    faults += await _rename_issues(runtime, generation, integration, body.unique_key)
    _raise_if_any(faults)
    changes: dict[str, Any] = {
        "integration_id": body.unique_key,
        "display_name": body.display_name,
        "forward_webhooks": body.forward_webhooks,
        "allowed_hosts": None if body.allowed_hosts is None else tuple(dict.fromkeys(body.allowed_hosts)),
        "allow_unsigned_webhooks": body.allow_unsigned_webhooks,
        "custom": None if body.custom is None else tuple(body.custom.items()),
    }
    changed_fields = {
        **fields_from_credentials(body.credentials),
        **{name: value for name, value in changes.items() if value is not None},
    }
    stored_integration = await runtime.api_integrations.change(integration, replace(integration, **changed_fields))
    if stored_integration is None:
        _raise_if_any(await _rename_issues(runtime, generation, integration, body.unique_key))
        raise Conflict(
            "conflict", f"Integration '{integration.integration_id}' was changed meanwhile. Read it and try again."
        )
    return web.json_response(
        responses.IntegrationResponse(data=integration_json(runtime, generation, stored_integration))
    )


@needs("environment:integrations:delete", limits=True)
async def delete_integration(request: web.Request) -> web.Response:
    """Delete the integration and its connections, and revoke the connections' tokens. Then respond with the number of
    deleted connections and of each outcome of a revocation."""
    read_query(request, ())
    require_empty_body(request)
    runtime, generation, environment = request.app[RUNTIME], generation_of(request), request[ENVIRONMENT].name
    key = unique_key(request)
    _check_reach(request[CALLER].policy, key)
    integration = generation.integrations.find(environment, key)
    if integration is not None:
        _require_changeable(generation, integration)
    deletion = await runtime.api_integrations.delete(environment, key)
    if deletion is None:
        _raise_unknown(key)
    body: responses.DeletedIntegration = {"success": True}
    if deletion.connections:  # without deleted connections, return only {"success": true}, as the Nango SDKs expect
        outcomes = {name: count for name, count in sorted(deletion.revocation.items()) if name != "not_offered"}
        body["connections"] = {"deleted": deletion.connections, "revocation": outcomes}
    return web.json_response(body)


def _integration_in_path(request: web.Request, generation: Generation) -> Integration:
    key = unique_key(request)
    integration = generation.integrations.find(request[ENVIRONMENT].name, key)
    return (
        integration
        if integration is not None and request[CALLER].policy.reaches_integration(key)
        else _raise_unknown(key)
    )


def _check_reach(policy: Policy, key: str) -> None:
    """Check that the key may create, change or delete this integration.

    Raises NotFound if the key may not use the integration. Raises Forbidden for a key limited to some connections,
    because a change would affect other connections too.
    """
    if policy.limits_connections:
        raise beyond_limits_error("an integration serves all its connections")
    if not policy.reaches_integration(key):
        _raise_unknown(key)


def _check_hosts(policy: Policy, integration: Integration, body: IntegrationChanges) -> None:
    """Raise Forbidden if the change adds hosts to which the stored client secret or private key can be sent, and the
    caller's key may not read it."""
    added_hosts = set(body.allowed_hosts or ()) - set(integration.allowed_hosts)
    kept_secret = integration.client_secret or integration.private_key
    if added_hosts and kept_secret is not None and body.credentials is None and not policy.allows(READ_CREDENTIALS):
        raise missing_scope_error(READ_CREDENTIALS)


def _raise_unknown(key: str) -> NoReturn:
    raise NotFound("not_found", f"There is no integration '{key}'. GET /integrations lists the integrations.")


def _require_changeable(generation: Generation, integration: Integration) -> Integration:
    """Return `integration` if the API may change it. Raises Conflict for an integration that gateway.yaml declares; the
    error names the file and the line."""
    if integration.managed_row is None:
        declared_at = _declared_at(generation, integration.environment, integration.integration_id)
        raise Conflict(
            "conflict",
            f"Integration '{integration.integration_id}' is declared at {declared_at} and is read-only here. Change it there and "
            "send the gateway SIGHUP.",
            payload={"declared_at": declared_at},
        )
    return integration


def _declared_at(generation: Generation, environment: str, key: str) -> str:
    """Return the file and line where the integration is declared, for example ``gateway.yaml:17``. The folder is left
    out, because callers do not need it."""
    location = generation.config.file_and_line("environments", environment, "integrations", key)
    return PurePath(location).name


def _key_in_use_issue(generation: Generation, environment: str, key: str) -> Issue:
    existing = generation.integrations.find(environment, key)
    if existing is None:
        reason = "is being deleted with its connections; try again when that is done, or use another key"
    elif existing.managed_row is None:
        reason = f"is declared at {_declared_at(generation, environment, key)}"
    else:
        reason = "exists already; PATCH changes it"
    return Issue("custom", f"Integration '{key}' {reason}.", ("uniqueKey",))


async def _rename_issues(
    runtime: Runtime, generation: Generation, integration: Integration, key: str | None
) -> list[Issue]:
    if key is None or key == integration.integration_id:
        return []
    if generation.integrations.has(integration.environment, key):
        return [_key_in_use_issue(generation, integration.environment, key)]
    if await runtime.store.integrations.has_connections(integration.environment, integration.integration_id):
        message = f"'{integration.integration_id}' has connections, and callers name them by this key, so it cannot be renamed."
        return [Issue("custom", message, ("uniqueKey",))]
    return []


def _provider_issues(provider: Provider | None, name: str, catalog: Catalog) -> list[Issue]:
    if provider is None:
        suggestion = did_you_mean(name, catalog.providers)
        message = (
            f"The catalog has no provider '{name}'{suggestion or '.'} GET /providers?search=… finds the right name."
        )
        return [Issue("custom", message, ("provider",))]
    if provider.auth_mode not in modes():
        message = f"'{name}' uses {provider.auth_mode}, an auth mode that this installation does not have."
        return [Issue("custom", message, ("provider",))]
    return []


def _raise_if_any(faults: Sequence[Issue]) -> None:
    if faults:
        raise _invalid_body(faults)


def _invalid_body(faults: Sequence[Issue]) -> InvalidRequest:
    return InvalidRequest("invalid_body", joined_issues(faults), errors=faults)
