"""Counts the last hour's authorizations by integration, to find integrations with too few successes.

The gateway gets no error for a wrong callback URL: the provider shows the error on its own page, and the browser does
not return. So the gateway counts the browsers that did not return.
"""

import asyncio
from datetime import timedelta
from typing import Final, NamedTuple

from gateway import clock
from gateway.authorization.results import LIFETIME
from gateway.generation import Generation
from gateway.runtime import Runtime
from gateway.store.pending_authorizations import ReturnedCounts
from gateway.text import counted

COUNTED_SPAN: Final = timedelta(hours=1)
MIN_STARTED: Final = 3
"""The minimum number of started authorizations for a warning about few successes. Fewer authorizations prove nothing,
because some end users cancel."""
RETURNS_WITHIN: Final = timedelta(minutes=5)
"""The time that an end user has to return from the provider's pages. Authorizations that began more recently are not
counted as `not_returned`."""


class AuthorizationCounts(NamedTuple):
    """The numbers of an integration's authorizations in the last hour.

    `not_returned`: the authorizations from which the browser did not return within `RETURNS_WITHIN`.
    `newest_succeeded`: whether the newest authorization succeeded.
    """

    integration_id: str
    succeeded: int
    failed: int
    not_returned: int
    newest_succeeded: bool

    @property
    def started(self) -> int:
        return self.succeeded + self.failed + self.not_returned

    @property
    def too_few_succeeded(self) -> bool:
        """Whether fewer than half of the authorizations succeeded, and the newest authorization did not succeed.

        False if fewer than `MIN_STARTED` authorizations were started.
        """
        return self.started >= MIN_STARTED and 2 * self.succeeded < self.started and not self.newest_succeeded

    def sentence(self) -> str:
        return (
            f"Of {counted(self.started, 'authorization')} in the last hour {self.succeeded:,} succeeded, {self.failed:,} failed, "
            f"and {self.not_returned:,} did not return within {RETURNS_WITHIN.total_seconds() / 60:.0f} minutes."
        )


async def authorization_counts(runtime: Runtime, environment: str) -> dict[str, AuthorizationCounts]:
    """Return the counts by integration id, for all integrations with an authorization in the last hour."""
    now = clock.now()
    began_after = now - COUNTED_SPAN
    not_returned, returned = await asyncio.gather(
        runtime.store.flows.count_not_returned(
            environment, expires_after=began_after + LIFETIME, expires_until=now - RETURNS_WITHIN + LIFETIME
        ),
        runtime.store.flow_results.count_returned(environment, since=began_after),
    )
    counts = {}
    for key in sorted(not_returned.keys() | returned.keys()):
        returned_counts, (not_returned_count, expires_at) = (
            returned.get(key, ReturnedCounts()),
            not_returned.get(key, (0, None)),
        )
        failure_times = [
            time for time in (returned_counts.failed_at, expires_at and expires_at - LIFETIME) if time is not None
        ]
        newest_succeeded = returned_counts.succeeded_at is not None and all(
            returned_counts.succeeded_at > time for time in failure_times
        )
        counts[key] = AuthorizationCounts(
            key, returned_counts.succeeded, returned_counts.failed, not_returned_count, newest_succeeded
        )
    return counts


def advice_for(generation: Generation, counts: AuthorizationCounts, environment: str) -> str:
    """Return what the operator should check: the callback URL if browsers did not return from the provider, else the
    message of a failed authorization."""
    integration = generation.integrations.find(environment, counts.integration_id)
    provider = generation.catalog.get(integration.provider) if integration is not None else None
    provider_name = provider.display_name if provider is not None else counts.integration_id
    if not counts.not_returned:
        return (
            "Open a failed authorization under Calls, kind authorization: its page shows the error message of "
            f"{provider_name}."
        )
    callback_url = generation.config.callback_url
    return f"If {provider_name} shows an error, compare the callback URL registered at the provider: {callback_url}"
