"""All integrations by environment and key: those declared in gateway.yaml, and those created through the API."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from gateway import clock
from gateway.errors import NotFound
from gateway.records.integration import Integration
from gateway.text import nearest

Key = tuple[str, str]


class ManagedIntegrations:
    """The integrations created through the API, as this process has last read or written them.

    A reload of the configuration keeps this object.
    `changes`: the number of writes to this object. Code that reads the store compares it before and after the read: if
    it differs, this object has newer integrations.
    """

    def __init__(self, integrations: Iterable[Integration] = ()) -> None:
        self.changes = 0
        self._integrations = _by_key(integrations)
        self.get = self._integrations.get

    def replace_all(self, integrations: Iterable[Integration]) -> None:
        """Replace all API-managed integrations of this process by `integrations`."""
        new_integrations = _by_key(integrations)
        self.changes += 1
        self._integrations.clear()
        self._integrations.update(new_integrations)

    def put(self, environment: str, integration_id: str, integration: Integration | None) -> bool:
        """Replace the API-managed integration with that key; None removes it. Return whether anything changed."""
        key = environment, integration_id
        self.changes += 1
        previous_integration = self._integrations.get(key)
        if integration is None:
            self._integrations.pop(key, None)
        else:
            self._integrations[key] = integration
        return previous_integration != integration

    def items(self) -> Iterable[tuple[Key, Integration]]:
        return self._integrations.items()


class Integrations:
    """All integrations. A declared integration hides an API-managed integration with the same key.

    Integrations are kept in dicts, because many requests look one up.
    `declared`: the integrations of one configuration.
    `managed`: the API-managed integrations, shared by all generations.
    `previous`: the registry of the previous generation; None at the start.
    """

    def __init__(
        self,
        declared: Iterable[Integration],
        managed: ManagedIntegrations,
        previous: "Integrations | None" = None,
    ) -> None:
        self.declared = tuple(declared)
        self._declared = _by_key(self.declared)
        self._managed = managed
        self._client_since: dict[Key, datetime] = {}
        if previous is not None:
            for key, integration in self._declared.items():
                if (previous_integration := previous._declared.get(key)) is not None and _client_of(
                    previous_integration
                ) == _client_of(integration):
                    self._client_since[key] = previous._client_since[key]
        self._new_clients = self._declared.keys() - self._client_since.keys()
        self.start_client_times()

    def start_client_times(self) -> None:
        """Record that new and changed clients are used from now on.

        Call this method again if this registry is put into use some time after it was built. Until then, the provider
        might refuse the previous client, which says nothing about the new client.
        """
        # `now` is by this machine's clock: the offset to the database's clock is measured after the start.
        now = clock.now() - clock.offset.value
        self._client_since.update(dict.fromkeys(self._new_clients, now))

    def client_since(self, environment: str, integration_id: str) -> datetime | None:
        """Return since when the integration uses its current client; None if unknown.

        The time is that of the start, of a reload, or of a write through the API.
        """
        key = environment, integration_id
        if (stored_time := self._client_since.get(key)) is not None:
            return stored_time + clock.offset.value
        managed_integration = self._managed.get(key)
        return (
            managed_integration.managed_row.updated_at
            if managed_integration is not None and managed_integration.managed_row is not None
            else None
        )

    @property
    def changes(self) -> int:
        """The number of writes to the API-managed integrations.

        As long as this number stays the same, `list_in` returns the same integrations.
        """
        return self._managed.changes

    def find(self, environment: str, integration_id: str) -> Integration | None:
        key = environment, integration_id
        return self._declared.get(key) or self._managed.get(key)

    def has(self, environment: str, integration_id: str) -> bool:
        return self.find(environment, integration_id) is not None

    def get(self, environment: str, integration_id: str) -> Integration:
        """Return the integration. Raises NotFound, with the most similar existing key as a hint."""
        integration = self.find(environment, integration_id)
        if integration is None:
            suggestion = nearest(
                integration_id, [integration.integration_id for integration in self.list_in(environment)]
            )
            hint = f" Did you mean '{suggestion}'?" if suggestion else " GET /integrations lists the integrations."
            raise NotFound(
                "unknown_provider_config",
                f"Environment '{environment}' has no integration '{integration_id}'.{hint}",
                payload={"provider_config_key": integration_id},
            )
        return integration

    def providers(self) -> Sequence[str]:
        """Return the names of the catalog entries that integrations use, sorted, each name once."""
        return sorted({integration.provider for integration in self._all().values()})

    def list_in(self, environment: str) -> Sequence[Integration]:
        """Return the integrations of an environment.

        Declared integrations come first, in file order. API-managed integrations follow, in the order in which this
        process has read or created them.
        """
        return [integration for (name, _), integration in self._all().items() if name == environment]

    def _all(self) -> dict[Key, Integration]:
        return {
            **self._declared,
            **{key: integration for key, integration in self._managed.items() if key not in self._declared},
        }


def _client_of(integration: Integration) -> tuple[Any, ...]:
    """Return the values of an integration that a provider might refuse in a refresh request."""
    return (
        integration.provider,
        integration.client_id,
        integration.client_secret,
        integration.app_id,
        integration.private_key,
        integration.scopes,
    )


def _by_key(integrations: Iterable[Integration]) -> dict[Key, Integration]:
    return {(integration.environment, integration.integration_id): integration for integration in integrations}
