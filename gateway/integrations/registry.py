"""The integrations there are, by environment and key: those that gateway.yaml declares, and those made through the API."""

from collections.abc import Iterable, Sequence

from gateway.errors import NotFound
from gateway.records.integration import Integration
from gateway.text import nearest

Key = tuple[str, str]


class ManagedIntegrations:
    """The integrations made through the API, as this process knows them. They outlive a configuration.

    `changes` counts the writes, so that code that has read the store can see whether a newer state was put here meanwhile.
    """

    def __init__(self, made: Iterable[Integration] = ()) -> None:
        self.changes = 0
        self._made = _by_key(made)
        self.get = self._made.get

    def learn(self, made: Iterable[Integration]) -> None:
        """Replace all integrations made through the API by these."""
        found = _by_key(made)
        self.changes += 1
        self._made.clear()
        self._made.update(found)

    def put(self, environment: str, integration_id: str, made: Integration | None) -> bool:
        """Replace the integration made under that key, None removes it; return whether anything changed."""
        key = environment, integration_id
        self.changes += 1
        before = self._made.get(key)
        if made is None:
            self._made.pop(key, None)
        else:
            self._made[key] = made
        return before != made

    def items(self) -> Iterable[tuple[Key, Integration]]:
        return self._made.items()


class Integrations:
    """Looked up on every proxied request that is not remembered, so dicts. A declared one wins over one that was made.

    `managed` is shared by all generations; `declared` are those of one configuration.
    """

    def __init__(self, declared: Iterable[Integration], managed: ManagedIntegrations) -> None:
        self.declared = tuple(declared)
        self._declared = _by_key(self.declared)
        self._managed = managed

    def find(self, environment: str, integration_id: str) -> Integration | None:
        key = environment, integration_id
        return self._declared.get(key) or self._managed.get(key)

    def has(self, environment: str, integration_id: str) -> bool:
        return self.find(environment, integration_id) is not None

    def get(self, environment: str, integration_id: str) -> Integration:
        """Raises NotFound, with the nearest key there is."""
        found = self.find(environment, integration_id)
        if found is None:
            near = nearest(integration_id, [one.integration_id for one in self.of(environment)])
            hint = f" Did you mean '{near}'?" if near else " GET /integrations lists those it has."
            raise NotFound(
                "unknown_provider_config",
                f"Environment '{environment}' has no integration '{integration_id}'.{hint}",
                payload={"provider_config_key": integration_id},
            )
        return found

    def providers(self) -> Sequence[str]:
        """The names of the catalog entries in use, each once."""
        return sorted({one.provider for one in self._all().values()})

    def of(self, environment: str) -> Sequence[Integration]:
        """All of one environment: in the order of the file, then in that of their making."""
        return [one for (name, _), one in self._all().items() if name == environment]

    def _all(self) -> dict[Key, Integration]:
        return {**self._declared, **{key: one for key, one in self._managed.items() if key not in self._declared}}


def _by_key(integrations: Iterable[Integration]) -> dict[Key, Integration]:
    return {(one.environment, one.integration_id): one for one in integrations}
