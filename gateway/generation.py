"""A generation: one configuration and everything built from it.

A reload replaces the generation completely, by one assignment (ADR 46).

State that outlives a configuration (open circuit breakers, counters, running tasks) is in `gateway.runtime`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from gateway.access.known_keys import KeyLookup
from gateway.catalog.load_catalog import Catalog
from gateway.config import Config
from gateway.egress.client import Egress
from gateway.integrations.registry import Integrations
from gateway.vault import SealedTokens


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """One configuration and everything built from it.

    Two generations are equal only if they are the same object, so code can detect that a decision was made under
    another generation and make the decision again. `egress`: stays the same object in the next generation if the
    ``egress`` section of gateway.yaml has not changed. `page_cursors`: the object that seals the cursors of paged
    calls.
    """

    config: Config
    catalog: Catalog
    keys: KeyLookup
    integrations: Integrations
    egress: Egress
    page_cursors: SealedTokens

    @property
    def public_url(self) -> str:
        """The prefix of the gateway's own URLs, without a slash at the end."""
        return self.config.server.public_url

    def webhook_url(self, environment: str, integration_id: str) -> str:
        """Return the URL to enter at the provider for its webhooks (docs/compatibility.md#provider-webhooks)."""
        return f"{self.public_url}/webhook/{quote(environment, safe='')}/{quote(integration_id, safe='')}"


ReplacementListener = Callable[[Generation, Generation], None]  # called with the former and the new generation


class CurrentGeneration:
    """The generation in use. Long-lived objects hold this object and read `generation` when they need a setting.

    Code that needs consistent settings over several steps reads `generation` once and keeps it.
    """

    __slots__ = ("_listeners", "generation")

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self._listeners: list[ReplacementListener] = []

    def add_listener(self, listener: ReplacementListener) -> None:
        """Call `listener` with the former and the new generation after each replacement, before the event loop
        continues."""
        self._listeners.append(listener)

    def replace(self, generation: Generation) -> None:
        former, self.generation = self.generation, generation
        for listener in self._listeners:
            listener(former, generation)
