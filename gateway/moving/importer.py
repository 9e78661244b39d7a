"""Imports one source: integrations first, then connections, several at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from gateway.api.integration_shapes import NewIntegration, entry_issues, fields_from_credentials
from gateway.api.request_body import validated
from gateway.auth import modes
from gateway.errors import GatewayError, InvalidRequest, joined_issues
from gateway.moving.foreign_files import SourceItem
from gateway.moving.import_one import ConnectionImporter, ImportOptions
from gateway.moving.moved_connection import ImportOutcome, ImportResult, MovedConnection, UnusableConnection
from gateway.moving.parallel_work import Tally, WorkPace, refresh_now, run_bounded
from gateway.moving.peer import Peer, PeerConnection, PeerIntegration
from gateway.records.connection import ConnectionRef
from gateway.records.integration import Integration
from gateway.runtime import Runtime
from gateway.text import did_you_mean

# ── Integrations of the source. An integration is created if its key is not used in this gateway. Existing integrations
# are never changed.


@dataclass(frozen=True, slots=True)
class IntegrationImport:
    """The result for one integration.

    `created`: whether the integration was created; in a dry run, whether it would be created. `planned`: the
    integration that a dry run would create; else None. `fault`: why the integration could not be created; empty if
    there is no fault.
    """

    key: str
    created: bool
    fault: str = ""
    planned: Integration | None = None


async def create_missing(
    runtime: Runtime, environment: str, key: str, peer_integration: PeerIntegration, *, dry_run: bool
) -> IntegrationImport:
    """Create the integration with the key `key` in this gateway, unless the key is used. Return the result."""
    if runtime.generation.integrations.has(environment, key):
        return IntegrationImport(key, created=False)
    try:
        integration = _integration(runtime, environment, key, peer_integration)
    except GatewayError as fault:
        return IntegrationImport(key, created=False, fault=fault.message)
    if dry_run:
        return IntegrationImport(key, created=True, planned=integration)
    if await runtime.api_integrations.add(integration) is None:
        return IntegrationImport(
            key, created=False, fault="an integration with this key is being deleted here; import again later"
        )
    return IntegrationImport(key, created=True)


def creation_fault(runtime: Runtime, environment: str, key: str, peer_integration: PeerIntegration) -> str:
    """Return why the integration cannot be created in this gateway; an empty text if it can be created."""
    try:
        _integration(runtime, environment, key, peer_integration)
    except GatewayError as fault:
        return fault.message
    return ""


def _integration(runtime: Runtime, environment: str, key: str, peer_integration: PeerIntegration) -> Integration:
    provider = runtime.generation.catalog.get(peer_integration.provider)
    if provider is None:
        hint = did_you_mean(peer_integration.provider, runtime.generation.catalog.providers)
        raise InvalidRequest("invalid_body", f"the catalog here has no provider '{peer_integration.provider}'{hint}")
    if provider.auth_mode not in modes():
        raise InvalidRequest(
            "invalid_body", f"'{peer_integration.provider}' uses {provider.auth_mode}, which is not installed here"
        )
    peer_members = {
        "provider": peer_integration.provider,
        "unique_key": key,
        "forward_webhooks": peer_integration.forward_webhooks,
    }
    if peer_integration.allowed_hosts:
        peer_members["allowed_hosts"] = peer_integration.allowed_hosts
    body = validated(
        {**peer_members, "credentials": _credentials(peer_integration.credentials)}, NewIntegration, "invalid_body"
    )
    if faults := list(entry_issues(provider, body)):
        raise InvalidRequest("invalid_body", joined_issues(faults), errors=faults)
    return Integration(
        environment=environment,
        integration_id=key,
        provider=peer_integration.provider,
        display_name=peer_integration.display_name,
        forward_webhooks=peer_integration.forward_webhooks,
        allowed_hosts=tuple(body.allowed_hosts or ()),
        allow_unsigned_webhooks=peer_integration.allow_unsigned_webhooks,
        **fields_from_credentials(body.credentials),
    )


def _credentials(members: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the credentials without null members. Return None if no member except the type is left."""
    credentials = {name: value for name, value in (members or {}).items() if value is not None}
    return credentials if set(credentials) - {"type"} else None


def _no_progress(_done: int, _total: int) -> None: ...


@dataclass(kw_only=True)
class Importer:
    """Imports one source and counts the outcomes.

    - `at_once`: the maximum number of connections that are imported in parallel
    - `create_integrations`: whether to create missing integrations
    - `test_refresh`: whether to refresh each connection after it is stored
    - `refresh_rate`: the maximum number of such refreshes per second
    - `step`: called after each connection with the number of finished connections, and with the total, which is 0 if
      unknown
    """

    runtime: Runtime
    options: ImportOptions
    tally: Tally
    at_once: int = 8
    create_integrations: bool = False
    test_refresh: bool = False
    refresh_rate: float = 5.0
    step: Callable[[int, int], None] = _no_progress
    integrations: list[IntegrationImport] = field(default_factory=list)
    total: int = 0

    def __post_init__(self) -> None:
        self._connection_importer = ConnectionImporter(self.runtime, self.options)
        self._pace = WorkPace(self.refresh_rate)

    async def from_peer(self, peer: Peer, integration_ids: Sequence[str] = ()) -> None:
        """Import from the API of another gateway. Raises SourceRefused.

        `integration_ids`: the keys of the integrations to import; empty: all integrations.
        """
        if self.create_integrations:
            for integration in await peer.integrations(integration_ids):
                await self._import_integration(integration)
        peer_connections = await peer.list_connections(integration_ids)
        self.total = len(peer_connections)

        async def import_from_peer(connection: PeerConnection) -> None:
            outcome = await self._connection_importer.existing_outcome(
                self._connection_importer.ref(connection.integration_id, connection.connection_id)
            )
            if outcome is not None:
                return self._record(outcome)
            try:
                moved = await peer.connection(connection)
            except UnusableConnection as fault:
                return self._record(self._with_local_key(fault.outcome))
            await self._import_one(moved)
            return None

        await run_bounded(peer_connections, import_from_peer, at_once=self.at_once)

    async def from_lines(self, items: Iterable[SourceItem], integration_ids: Sequence[str] = ()) -> None:
        """Import the contents of a bundle or another file. Raises SourceRefused.

        `integration_ids`: the keys of the integrations to import; empty: all integrations.
        """

        async def import_item(item: SourceItem) -> None:
            if isinstance(item, MovedConnection):
                await self._import_one(item)
            elif isinstance(item, PeerIntegration):
                await self._import_integration(item)
            else:
                self._record(self._with_local_key(item.outcome))

        selected_items = (
            item
            for item in items
            if isinstance(item, UnusableConnection) or not integration_ids or item.integration_id in integration_ids
        )
        await run_bounded(await self._create_integrations(iter(selected_items)), import_item, at_once=self.at_once)

    async def _create_integrations(self, items: Iterator[SourceItem]) -> Iterable[SourceItem]:
        """Create the integrations at the beginning of `items`, which the connections need. Return the remaining
        items."""
        for item in items:
            if not isinstance(item, PeerIntegration):
                return chain([item], items)
            await self._import_integration(item)
        return ()

    async def _import_integration(self, peer_integration: PeerIntegration) -> None:
        if not self.create_integrations:
            return
        key = self.options.integration_keys.get(peer_integration.integration_id, peer_integration.integration_id)
        result = await create_missing(
            self.runtime, self.options.environment, key, peer_integration, dry_run=self.options.dry_run
        )
        if result.created or result.fault:
            self.integrations.append(result)
        if result.planned is not None:
            self._connection_importer.planned[key] = result.planned

    async def _import_one(self, moved: MovedConnection) -> None:
        outcome = await self._connection_importer.import_one(moved)
        if (
            self.test_refresh
            and outcome.result in (ImportResult.IMPORTED, ImportResult.REPLACED)
            and not self.options.dry_run
        ):
            outcome = await self._test_refresh(outcome)
        self._record(outcome)

    async def _test_refresh(self, outcome: ImportOutcome) -> ImportOutcome:
        ref = ConnectionRef(self.options.environment, outcome.integration_id, outcome.connection_id)
        await self._pace.wait_turn()
        result, reason = await refresh_now(self.runtime, ref)
        return replace(outcome, renewed=f"{result}: {reason}" if reason else result)

    def _with_local_key(self, outcome: ImportOutcome) -> ImportOutcome:
        key = self.options.integration_keys.get(outcome.integration_id, outcome.integration_id)
        return replace(outcome, integration_id=key)

    def _record(self, outcome: ImportOutcome) -> None:
        self.tally.record(outcome)
        self.step(self.tally.done, self.total)


def rotating_integrations(runtime: Runtime, environment: str) -> list[str]:
    """Return the keys of the environment's integrations with a provider that rotates refresh tokens."""
    names = []
    for integration in runtime.generation.integrations.list_in(environment):
        try:
            provider = runtime.creator.provider_of(integration)
        except GatewayError:
            continue
        if provider.auth_mode in modes() and provider.refresh is not None and provider.refresh.rotating:
            names.append(integration.integration_id)
    return names
