"""Counts the authorizations of the last hour by integration: a wrong callback address is shown by the provider alone."""

import asyncio
from datetime import timedelta
from typing import Final, NamedTuple

from gateway import clock
from gateway.authorization.results import LIFETIME
from gateway.generation import Generation
from gateway.runtime import Runtime
from gateway.text import counted

SUMMED_WITHIN: Final = timedelta(hours=1)
FEWEST: Final = 3
"""Begun authorizations of which too few may have succeeded: end users change their minds, too."""


class AuthorizationSum(NamedTuple):
    """`unreturned`: begun ones whose browser has not come back."""

    integration_id: str
    succeeded: int
    failed: int
    unreturned: int

    @property
    def begun(self) -> int:
        return self.succeeded + self.failed + self.unreturned

    @property
    def too_few(self) -> bool:
        """Return whether fewer than half succeeded, of enough."""
        return self.begun >= FEWEST and 2 * self.succeeded < self.begun

    def sentence(self) -> str:
        return (
            f"In the last hour {counted(self.begun, 'authorization')} began: {self.succeeded:,} succeeded, "
            f"{self.failed:,} failed, and {self.unreturned:,} did not return."
        )


async def authorization_sums(runtime: Runtime, environment: str) -> dict[str, AuthorizationSum]:
    """By integration, of those with an authorization in the last hour."""
    began_after = clock.now() - SUMMED_WITHIN
    unreturned, returned = await asyncio.gather(
        runtime.store.flows.unreturned(environment, expires_after=began_after + LIFETIME),
        runtime.store.flow_results.returned(environment, since=began_after),
    )
    return {
        key: AuthorizationSum(key, *returned.get(key, (0, 0)), unreturned.get(key, 0))
        for key in sorted(unreturned.keys() | returned.keys())
    }


def what_helps(generation: Generation, integration_id: str, environment: str) -> str:
    one = generation.integrations.find(environment, integration_id)
    provider = generation.catalog.get(one.provider) if one is not None else None
    name = provider.display_name if provider is not None else integration_id
    return f"If {name} shows an error, compare the callback address registered there: {generation.config.callback_url}"
