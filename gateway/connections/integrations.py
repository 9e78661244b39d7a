"""The integrations there are, by environment and key."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from gateway.errors import NotFound
from gateway.records.integration import Integration


class Integrations:
    """Looked up on every proxied request that is not remembered, so a dict."""

    def __init__(self, integrations: Iterable[Integration]) -> None:
        self._by_key = {(one.environment, one.integration_id): one for one in integrations}

    def find(self, environment: str, integration_id: str) -> Integration | None:
        return self._by_key.get((environment, integration_id))

    def has(self, environment: str, integration_id: str) -> bool:
        return (environment, integration_id) in self._by_key

    def get(self, environment: str, integration_id: str) -> Integration:
        """Raises NotFound, with the nearest key there is."""
        found = self._by_key.get((environment, integration_id))
        if found is None:
            near = get_close_matches(integration_id, [key for name, key in self._by_key if name == environment], 1)
            hint = f" Did you mean '{near[0]}'?" if near else " GET /integrations lists those it has."
            raise NotFound(
                "unknown_provider_config",
                f"Environment '{environment}' has no integration '{integration_id}'.{hint}",
                payload={"provider_config_key": integration_id},
            )
        return found

    def providers(self) -> Sequence[str]:
        """The names of the catalog entries in use, each once."""
        return sorted({one.provider for one in self._by_key.values()})

    def of(self, environment: str) -> Sequence[Integration]:
        """All of one environment, in the order of the file."""
        return [one for (name, _), one in self._by_key.items() if name == environment]
