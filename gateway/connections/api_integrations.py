"""Creates, changes and deletes integrations for the API.

A change takes effect immediately in this process, and through the change feed in other processes. Deleting an
integration first deletes its connections, because without the integration's client the gateway could neither use nor
revoke their credentials. Until the last connection is deleted, the integration's row stays in the store but is hidden.
An interrupted deletion is resumed.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from gateway import clock
from gateway.connections.cache import ConnectionCache
from gateway.connections.delete import ConnectionDeletion, Deleter
from gateway.errors import exc_info_of
from gateway.generation import CurrentGeneration
from gateway.records.connection import ConnectionRef
from gateway.records.integration import Integration
from gateway.store import ListFilter, Store

MAX_CONCURRENT_DELETIONS: Final = 8  # connections of one integration that are deleted at the same time
RESUME_EVERY_S: Final = 600.0

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class IntegrationDeletion:
    """The number of connections deleted with an integration, and the number of tokens by revocation outcome."""

    connections: int = 0
    revocation: Counter[str] = field(default_factory=Counter)


class ApiIntegrations:
    """Creates, changes and deletes integrations for the API."""

    def __init__(self, store: Store, current: CurrentGeneration, live: ConnectionCache, deleter: Deleter) -> None:
        self._store = store
        self._current = current
        self._live = live
        self._deleter = deleter
        self._deletions: dict[str, asyncio.Task[IntegrationDeletion]] = {}

    async def add(self, new_integration: Integration) -> Integration | None:
        """Add an integration and return it as stored. Return None if its key is already used, even by an integration
        that is being deleted."""
        stored_integration = await self._store.integrations.add(new_integration, now=clock.now())
        if stored_integration is not None:
            self._live.apply_integration(
                stored_integration.environment, stored_integration.integration_id, stored_integration
            )
        return stored_integration

    async def change(self, old_integration: Integration, new_integration: Integration) -> Integration | None:
        """Replace `old_integration` by `new_integration` and return the stored integration. Return None if
        `old_integration` is outdated, or if the new key is not allowed."""
        stored_integration = await self._store.integrations.change(old_integration, new_integration, now=clock.now())
        if stored_integration is not None:
            if old_integration.integration_id != stored_integration.integration_id:
                self._live.apply_integration(old_integration.environment, old_integration.integration_id, None)
            self._live.apply_integration(
                stored_integration.environment, stored_integration.integration_id, stored_integration
            )
        return stored_integration

    async def delete(self, environment: str, integration_id: str) -> IntegrationDeletion | None:
        """Delete an integration after all its connections. Return None if the integration does not exist. The deletion
        continues if the caller is cancelled."""
        known_integration = self._current.generation.integrations.find(environment, integration_id)
        if known_integration is not None and await self._store.integrations.begin_deletion(
            known_integration, now=clock.now()
        ):
            self._live.apply_integration(environment, integration_id, None)
        for integration in await self._store.integrations.list_ending():
            if (integration.environment, integration.integration_id) == (environment, integration_id):
                return await asyncio.shield(self._deletion_task(integration))
        return None

    async def resume_deletions(self) -> None:
        """Finish interrupted deletions that this process or another process began."""
        for integration in await self._store.integrations.list_ending():
            await asyncio.shield(self._deletion_task(integration))

    async def close(self, within_s: float = 15) -> None:
        """Wait at most `within_s` seconds for deletions in progress. The next start resumes unfinished deletions."""
        if self._deletions:
            await asyncio.wait(set(self._deletions.values()), timeout=within_s)

    def _deletion_task(self, integration: Integration) -> "asyncio.Task[IntegrationDeletion]":
        assert integration.managed_row is not None
        uid = integration.managed_row.uid
        task = self._deletions.get(uid)
        if task is None:
            task = self._deletions[uid] = asyncio.create_task(self._run_deletion(integration), name="end_integration")
            task.add_done_callback(lambda done: (self._deletions.pop(uid, None), done.cancelled() or done.exception()))
        return task

    async def _run_deletion(self, integration: Integration) -> IntegrationDeletion:
        result = IntegrationDeletion()
        connection_filter = ListFilter(integration_ids=(integration.integration_id,), limit=100)
        limit = asyncio.Semaphore(MAX_CONCURRENT_DELETIONS)
        while not await self._store.integrations.delete_without_connections(integration):
            rows = await self._store.connections.list(integration.environment, connection_filter)
            deletions = await asyncio.gather(*(self._delete_connection(row.ref, integration, limit) for row in rows))
            for deletion in filter(None, deletions):
                result.connections += 1
                result.revocation.update(outcome.outcome for outcome in deletion.revocation)
        log.info(
            "integration_deleted",
            environment=integration.environment,
            integration=integration.integration_id,
            connections=result.connections,
            revocation=_sorted_counts(result.revocation),
        )
        return result

    async def _delete_connection(
        self, ref: ConnectionRef, integration: Integration, limit: asyncio.Semaphore
    ) -> ConnectionDeletion | None:
        async with limit:
            return await self._deleter.delete(ref, integration=integration)


async def resume_deletions_regularly(integrations: ApiIntegrations) -> None:
    """Call `ApiIntegrations.resume_deletions` regularly while the gateway runs."""
    while True:
        try:
            await integrations.resume_deletions()
        except Exception as fault:  # after any failure, because the next run can succeed
            details = {"detail": str(fault), "again_in_s": RESUME_EVERY_S}
            log.warning("integration_not_ended", **details, exc_info=exc_info_of(fault))
        await asyncio.sleep(RESUME_EVERY_S)


def _sorted_counts(outcomes: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(outcomes.items()))
