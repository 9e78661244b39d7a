"""Which of the integrations are the same under another configuration: only what was opened under those stays open."""

from functools import cache

from gateway.catalog.load import Catalog
from gateway.connections.integrations import Integrations


class Turning:
    """From one pair of declarations to the next."""

    def __init__(self, before: tuple[Integrations, Catalog], after: tuple[Integrations, Catalog]) -> None:
        self._before, self._after = before, after
        self.stays = cache(self._stays)

    def _stays(self, environment: str, integration_id: str) -> bool | None:
        """Whether the integration and its catalog entry are as before; None where there is none any more."""
        (integrations, catalog), (former, former_catalog) = self._after, self._before
        one = integrations.find(environment, integration_id)
        if one is None:
            return None
        same = one == former.find(environment, integration_id)
        return same and catalog.get(one.provider) == former_catalog.get(one.provider)
