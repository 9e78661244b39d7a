"""Previews an import from another gateway: what works immediately, what to do, and in which order."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gateway.auth import modes
from gateway.auth.mode import GrantingMode
from gateway.catalog.provider import Provider
from gateway.moving.import_one import ImportOptions
from gateway.moving.importer import creation_fault
from gateway.moving.peer import Peer, PeerIntegration
from gateway.records.integration import Integration
from gateway.runtime import Runtime
from gateway.text import counted, did_you_mean

Verdict = Literal["works", "register_callback", "needs_something", "not_possible"]
"""Whether the connections of an integration work after the import.

``register_callback``: existing connections work immediately, new ones after the operator has registered this gateway's
callback URL at the provider.
"""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The forecast for one integration of the other gateway.

    - `key`: the integration's key in the other gateway
    - `local_key`: the integration's key in this gateway
    - `connections`: the number of all connections
    - `broken`: the number of connections with an invalid credential
    - `already_here`: whether this gateway has the integration
    - `todo`: what the operator must do, in order
    """

    key: str
    local_key: str
    provider: str
    verdict: Verdict
    connections: int
    broken: int
    already_here: bool
    todo: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "integration": self.key,
            "here": self.local_key,
            "provider": self.provider,
            "verdict": self.verdict,
            "connections": self.connections,
            "broken_there": self.broken,
            "already_here": self.already_here,
            "todo": list(self.todo),
        }


@dataclass(frozen=True, slots=True)
class Preview:
    """A preview of an import.

    `orphans`: the number of connections by integration key, for integrations that the other gateway does not list.
    `steps`: the steps of the whole move, in order.
    """

    forecasts: Sequence[Forecast]
    orphans: Mapping[str, int]
    callback_url: str
    webhook_url: str
    steps: Sequence[str] = field(default=())

    def counts(self) -> dict[str, int]:
        """Return the number of connections by verdict. ``reconnect`` counts connections with an invalid credential."""
        numbers: Counter[str] = Counter()
        for forecast in self.forecasts:
            numbers[forecast.verdict] += forecast.connections - forecast.broken
            numbers["reconnect"] += forecast.broken
        numbers["not_possible"] += sum(self.orphans.values())
        return {name: count for name, count in sorted(numbers.items()) if count}


async def preview(runtime: Runtime, peer: Peer, options: ImportOptions, integration_ids: Sequence[str] = ()) -> Preview:
    """Return the preview of an import from `peer`. Raises SourceRefused.

    A preview changes nothing and reads no credentials of end users. `integration_ids`: the keys of the integrations;
    empty: all integrations.
    """
    integrations = await peer.integrations(integration_ids)
    peer_connections = await peer.list_connections(integration_ids)
    connection_counts = Counter(connection.integration_id for connection in peer_connections)
    broken_counts = Counter(connection.integration_id for connection in peer_connections if connection.broken)
    peer_modes = {name: await peer.auth_mode(name) for name in {integration.provider for integration in integrations}}
    forecasts = [
        _forecast(
            runtime,
            options,
            integration,
            connection_counts[integration.integration_id],
            broken_counts[integration.integration_id],
            peer_modes[integration.provider],
        )
        for integration in integrations
    ]
    known_ids = {integration.integration_id for integration in integrations}
    orphans = {key: count for key, count in connection_counts.items() if key not in known_ids}
    webhook_url = f"{runtime.generation.webhook_url(options.environment, '')}<integration>"
    plan = Preview(forecasts, orphans, runtime.generation.config.callback_url, webhook_url)
    return Preview(forecasts, orphans, plan.callback_url, webhook_url, _next_steps(plan))


def _forecast(
    runtime: Runtime,
    options: ImportOptions,
    peer_integration: PeerIntegration,
    connections: int,
    broken: int,
    peer_mode: str | None,
) -> Forecast:
    key = options.integration_keys.get(peer_integration.integration_id, peer_integration.integration_id)
    local = runtime.generation.integrations.find(options.environment, key)
    provider = runtime.generation.catalog.get(local.provider if local else peer_integration.provider)
    verdict, todo = _verdict_and_todo(runtime, options, peer_integration, key, local, provider)
    if provider is not None and (mode_conflict := _mode_conflict(provider, peer_mode)):
        verdict, todo = "not_possible", [mode_conflict]
    if broken:
        todo.append(
            f"the credentials of {counted(broken, 'connection')} no longer work: their end users must connect at this gateway"
        )
    return Forecast(
        key=peer_integration.integration_id,
        local_key=key,
        provider=peer_integration.provider,
        verdict=verdict,
        connections=connections,
        broken=broken,
        already_here=local is not None,
        todo=tuple(todo),
    )


def _verdict_and_todo(
    runtime: Runtime,
    options: ImportOptions,
    peer_integration: PeerIntegration,
    key: str,
    local: Integration | None,
    provider: Provider | None,
) -> tuple[Verdict, list[str]]:
    if provider is None:
        hint = did_you_mean(peer_integration.provider, runtime.generation.catalog.providers)
        return "not_possible", [
            f"the catalog here has no provider '{peer_integration.provider}'{hint}; write an entry (docs/catalog.md)"
        ]
    if provider.auth_mode not in modes():
        return "not_possible", [f"'{provider.name}' uses {provider.auth_mode}, which is not installed here"]
    todo: list[str] = []
    needs_something = False
    if local is None:
        fault = creation_fault(runtime, options.environment, key, peer_integration)
        if fault and peer_integration.credentials is None:
            needs_something = True
            todo.append(
                "this key cannot read its client secret (scope environment:integrations:read_credentials): declare "
                f"'{key}' in gateway.yaml with the same client ID and client secret"
            )
        elif fault:
            needs_something = True
            todo.append(f"it cannot be created in this gateway: {fault}")
        else:
            todo.append("`--create-integrations` creates it here with the same client")
    elif client_conflict := _client_conflict(peer_integration, local):
        needs_something = True
        todo.append(client_conflict)
    mode = modes()[provider.auth_mode]
    needs_grant = isinstance(mode, GrantingMode)
    if needs_grant:
        todo.append(f"register the callback URL {runtime.generation.config.callback_url} at {provider.display_name}")
    if provider.webhook_routing_script:
        url = runtime.generation.webhook_url(options.environment, key)
        todo.append(f"change the webhook URL at {provider.display_name} to {url}")
    if needs_something:
        return "needs_something", todo
    return ("register_callback" if needs_grant else "works"), todo


def _mode_conflict(provider: Provider, peer_mode: str | None) -> str:
    """Return what to do if the auth mode differs in the other gateway, because the import would refuse the connections.

    Return an empty text if the modes are compatible, or if the other gateway's mode is unknown.
    """
    mode = modes().get(provider.auth_mode)
    if peer_mode is None or mode is None or peer_mode in {provider.auth_mode, *mode.types()}:
        return ""
    return (
        f"its connections use auth mode {peer_mode}, but '{provider.name}' uses {provider.auth_mode} at this gateway: "
        f"write an entry with auth_mode {peer_mode} (docs/catalog.md), or let the end users connect again"
    )


def _client_conflict(peer_integration: PeerIntegration, local: Integration) -> str:
    """Return what to do if the two integrations have different client IDs; otherwise an empty text.

    A refresh token works only for the client that received it (RFC 6749 §6).
    """
    peer_client_id = (peer_integration.credentials or {}).get("client_id")
    if peer_client_id and local.client_id and peer_client_id != local.client_id:
        return (
            f"'{local.integration_id}' has another client ID than at the other gateway, so the provider would refuse the "
            f"refresh tokens: import under another key (--integration {peer_integration.integration_id}=…) or use the same client"
        )
    return ""


def _next_steps(plan: Preview) -> list[str]:
    """Return the steps of the move, in an order in which connections keep working."""
    steps = []
    if any(forecast.verdict in ("needs_something", "not_possible") for forecast in plan.forecasts):
        steps.append("Do what is listed under needs_something and not_possible.")
    if any(plan.callback_url in line for forecast in plan.forecasts for line in forecast.todo):
        steps.append(
            f"Register {plan.callback_url} at the providers, in addition to the present callback URL: both work meanwhile."
        )
    steps += [
        "Try the import: gateway connections import --from-peer … --create-integrations --dry-run",
        "Stop new connections at the other gateway. Repeat the command without --dry-run until nothing is left to import.",
        (
            "Change the host in your application (docs/moving.md) and stop the other gateway: if both gateways refresh "
            "tokens, rotating tokens are lost."
        ),
        "Change the webhook URLs at the providers, and the webhook signature key in your application.",
    ]
    return steps
