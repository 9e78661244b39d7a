"""Integrations that move in with their connections: made here where there is none of that key, and never changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.api.body import checked
from gateway.api.integration_body import NewIntegration, fields_of, issues
from gateway.auth import modes
from gateway.errors import GatewayError, InvalidRequest, told_together
from gateway.moving.peer import PeerIntegration
from gateway.nearest import did_you_mean
from gateway.records.integration import Integration
from gateway.services import Services


@dataclass(frozen=True, slots=True)
class MadeOne:
    """`made`: it was not here, and is now, or in a dry run would be, as `planned`. `fault`: why it could not be made."""

    key: str
    made: bool
    fault: str = ""
    planned: Integration | None = None


async def make_missing(
    services: Services, environment: str, key: str, one: PeerIntegration, *, dry_run: bool
) -> MadeOne:
    """`key`: what it is to be called here."""
    if services.integrations.has(environment, key):
        return MadeOne(key, made=False)
    try:
        new = _integration(services, environment, key, one)
    except GatewayError as fault:
        return MadeOne(key, made=False, fault=fault.message)
    if dry_run:
        return MadeOne(key, made=True, planned=new)
    if await services.made.add(new) is None:
        return MadeOne(key, made=False, fault="its key is just being deleted here")
    return MadeOne(key, made=True)


def fault_of(services: Services, environment: str, key: str, one: PeerIntegration) -> str:
    """Why it cannot be made here; empty where it can."""
    try:
        _integration(services, environment, key, one)
    except GatewayError as fault:
        return fault.message
    return ""


def _integration(services: Services, environment: str, key: str, one: PeerIntegration) -> Integration:
    provider = services.catalog.get(one.provider)
    if provider is None:
        hint = did_you_mean(one.provider, services.catalog.providers)
        raise InvalidRequest("invalid_body", f"the catalog here has no provider '{one.provider}'{hint}")
    if provider.auth_mode not in modes():
        raise InvalidRequest("invalid_body", f"'{one.provider}' uses {provider.auth_mode}, which is not installed here")
    given = {"provider": one.provider, "unique_key": key, "forward_webhooks": one.forward_webhooks}
    if one.allowed_hosts:
        given["allowed_hosts"] = one.allowed_hosts
    body = checked({**given, "credentials": _credentials(one.credentials)}, NewIntegration, "invalid_body")
    if faults := list(issues(provider, body)):
        raise InvalidRequest("invalid_body", told_together(faults), errors=faults)
    return Integration(
        environment=environment,
        integration_id=key,
        provider=one.provider,
        display_name=one.display_name,
        forward_webhooks=one.forward_webhooks,
        allowed_hosts=tuple(body.allowed_hosts or ()),
        allow_unsigned_webhooks=one.allow_unsigned_webhooks,
        **fields_of(body.credentials),
    )


def _credentials(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Without members that are null; None where nothing is left but the type."""
    held = {name: value for name, value in (given or {}).items() if value is not None}
    return held if set(held) - {"type"} else None
