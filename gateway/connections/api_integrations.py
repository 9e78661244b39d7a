"""Integrations created, changed and deleted through the API. Changes take effect here immediately, elsewhere by the
feed.

Deleting an integration deletes its connections: without the integration's client, their credentials could neither be
used nor revoked. So the integration's row stays, hidden, until its last connection is deleted; an interrupted deletion
is resumed.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from gateway import clock
from gateway.connections.cache import ConnectionCache
from gateway.connections.delete import Deleted, Deleter
from gateway.errors import GatewayError
from gateway.generation import Current
from gateway.records.connection import ConnectionRef
from gateway.records.integration import Integration
from gateway.store import ListFilter, Store
from gateway.vault import VaultError

AT_ONCE: Final = 8  # connections of one integration that are deleted at the same time
RESUME_EVERY_S: Final = 600.0

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Ended:
    """The number of connections deleted with an integration, and the number of tokens by revocation outcome."""

    connections: int = 0
    revocation: Counter[str] = field(default_factory=Counter)


class ApiIntegrations:
    """Creates, changes and deletes integrations for the API."""

    def __init__(self, store: Store, current: Current, live: ConnectionCache, deleter: Deleter) -> None:
        self._store = store
        self._current = current
        self._live = live
        self._deleter = deleter
        self._ending: dict[str, asyncio.Task[Ended]] = {}

    async def add(self, new: Integration) -> Integration | None:
        """Add an integration and return it as stored; None if its key is taken, even by an integration that is being
        deleted."""
        stored = await self._store.integrations.add(new, now=clock.now())
        if stored is not None:
            self._live.integration_is(stored.environment, stored.integration_id, stored)
        return stored

    async def change(self, before: Integration, after: Integration) -> Integration | None:
        """Replace `before` by `after` and return it as stored; None if `before` is outdated, or the new key is not
        allowed."""
        stored = await self._store.integrations.change(before, after, now=clock.now())
        if stored is not None:
            if before.integration_id != stored.integration_id:
                self._live.integration_is(before.environment, before.integration_id, None)
            self._live.integration_is(stored.environment, stored.integration_id, stored)
        return stored

    async def end(self, environment: str, integration_id: str) -> Ended | None:
        """Delete an integration, its connections first; None if it does not exist. Continues if the caller is
        cancelled."""
        found = self._current.generation.integrations.find(environment, integration_id)
        if found is not None and await self._store.integrations.begin_end(found, now=clock.now()):
            self._live.integration_is(environment, integration_id, None)
        for one in await self._store.integrations.ending():
            if (one.environment, one.integration_id) == (environment, integration_id):
                return await asyncio.shield(self._task(one))
        return None

    async def resume_deletions(self) -> None:
        """Finish interrupted deletions, of this process or another."""
        for one in await self._store.integrations.ending():
            await asyncio.shield(self._task(one))

    async def close(self, within_s: float = 15) -> None:
        """Wait for deletions in progress, at most `within_s` seconds; the next start resumes unfinished ones."""
        if self._ending:
            await asyncio.wait(set(self._ending.values()), timeout=within_s)

    def _task(self, one: Integration) -> "asyncio.Task[Ended]":
        assert one.made is not None
        uid = one.made.uid
        task = self._ending.get(uid)
        if task is None:
            task = self._ending[uid] = asyncio.create_task(self._end(one), name="end_integration")
            task.add_done_callback(lambda done: (self._ending.pop(uid, None), done.cancelled() or done.exception()))
        return task

    async def _end(self, integration: Integration) -> Ended:
        ended = Ended()
        its = ListFilter(integration_ids=(integration.integration_id,), limit=100)
        turns = asyncio.Semaphore(AT_ONCE)
        while not await self._store.integrations.end(integration):
            rows = await self._store.connections.list(integration.environment, its)
            deleted = await asyncio.gather(*(self._deleted(row.ref, integration, turns) for row in rows))
            for one in deleted:
                ended.connections += one is not None
                ended.revocation.update(outcome.outcome for outcome in (one.revocation if one else ()))
        log.info(
            "integration_deleted",
            environment=integration.environment,
            integration=integration.integration_id,
            connections=ended.connections,
            revocation=_sorted(ended.revocation),
        )
        return ended

    async def _deleted(self, ref: ConnectionRef, integration: Integration, turns: asyncio.Semaphore) -> Deleted | None:
        async with turns:
            return await self._deleter.delete(ref, integration=integration)


async def resume_deletions_regularly(made: ApiIntegrations) -> None:
    """Call `ApiIntegrations.resume_deletions` regularly while the gateway runs."""
    while True:
        try:
            await made.resume_deletions()
        except (GatewayError, VaultError) as fault:
            log.warning("integration_not_ended", detail=str(fault), again_in_s=RESUME_EVERY_S)
        await asyncio.sleep(RESUME_EVERY_S)


def _sorted(outcomes: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(outcomes.items()))
