"""Refreshes unused connections before their refresh token expires from disuse, and records connections that have ended.

One node does this work for all nodes. The refresh time of a connection depends on its id (`schedule.share`), so that
connections that were made together are not refreshed together.
"""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import structlog

from gateway import clock
from gateway.auth import modes
from gateway.catalog.load_catalog import Catalog
from gateway.catalog.provider import Provider
from gateway.errors import CredentialUnreadable, GatewayError, Unavailable, exc_info_of
from gateway.generation import CurrentGeneration, Generation
from gateway.records.connection import Connection, log_fields
from gateway.refresh.backoff import NOT_REFRESHABLE, token_end_failure
from gateway.refresh.refresher import Refresher
from gateway.refresh.schedule import (
    UNUSED_FROM,
    UNUSED_SPREAD,
    idle_limit,
    lifespan,
    refresh_tokens_expire,
    refreshable_after_expiry,
)
from gateway.store import Store

TASK: Final = "keep_alive"
EVERY_S: Final = 60.0
TASK_CLAIM: Final = timedelta(seconds=180)  # how long a claim keeps other nodes from doing the task
BATCH_ROWS: Final = 100
ROWS_PER_QUERY: Final = 500
ENDED_PER_QUERY: Final = 100  # credentials decrypted before the event loop runs other tasks
POSTPONED_BY: Final = timedelta(hours=1)  # after a failed refresh, so that a failing connection does not block others

log = structlog.get_logger(__name__)


class KeepAlive:
    """Keeps unused connections alive. Each process has a `KeepAlive`, but only one process at a time does the work."""

    def __init__(self, store: Store, refresher: Refresher, current: CurrentGeneration) -> None:
        self._store = store
        self._refresher = refresher
        self._current = current
        self._owner = uuid.uuid4().hex
        self._ended_recorder = EndedConnectionRecorder(store, current)
        self._planned_for: Generation | None = None

    async def run(self) -> None:
        """Call `run_once` every minute until the gateway stops. Then release the task for other nodes."""
        try:
            while True:
                try:
                    await self.run_once()
                except Exception as fault:  # the next run may succeed, and this task must not end
                    log.warning("keep_alive_failed", detail=str(fault), exc_info=exc_info_of(fault))
                await asyncio.sleep(EVERY_S)
        finally:
            try:
                await self._store.tasks.release(TASK, owner=self._owner)
            except GatewayError as fault:
                log.warning("keep_alive_not_handed_over", detail=fault.message)

    async def run_once(self) -> int:
        """Refresh all connections that are due, and return how many were refreshed; 0 if another node does the task."""
        if not await self._claim_task():
            self._planned_for = None
            return 0
        await self._ended_recorder.record()
        generation, refreshed_count = self._current.generation, 0
        catalog = generation.catalog
        provider_names = [
            provider_name
            for provider_name in generation.integrations.providers()
            if (entry := catalog.get(provider_name)) and refresh_tokens_expire(entry)
        ]
        if self._planned_for is not generation:
            for provider_name in provider_names:
                await self._plan(catalog, provider_name)
            self._planned_for = generation
        for provider_name in provider_names:
            refreshed_count += await self._refresh(provider_name)
        return refreshed_count

    async def _claim_task(self) -> bool:
        return await self._store.tasks.hold(TASK, owner=self._owner, now=clock.now(), ttl=TASK_CLAIM)

    async def _refresh(self, provider_name: str) -> int:
        refreshed_count = 0
        while rows := await self._store.keep_alive.due(provider_name, clock.now(), limit=BATCH_ROWS):
            if not await self._claim_task():
                break
            await self._ended_recorder.record()  # before each batch, because the refreshes of a batch can take minutes
            tasks = [self._refresher.start(row) for row in rows]
            pending = set(tasks)
            while pending and await self._claim_task():
                _, pending = await asyncio.wait(pending, timeout=TASK_CLAIM.total_seconds() / 3)
            if any(task.cancelled() for task in tasks):  # the gateway is stopping; another node continues
                break
            failed = [row for row, task in zip(rows, tasks, strict=True) if _has_failed(task)]
            await self._postpone(failed)
            refreshed_count += len(rows) - len(failed)
            log.info("kept_alive", provider=provider_name, refreshed=len(rows) - len(failed), failed=len(failed))
        return refreshed_count

    async def _postpone(self, rows: Sequence[Connection]) -> None:
        retry_at, planned = clock.now() + POSTPONED_BY, []
        for row in rows:
            current_row = await self._store.connections.get(row.ref)
            due_at = current_row.life.keep_alive_at if current_row else None
            if current_row is not None and due_at is not None and due_at < retry_at:
                planned.append((current_row, replace(current_row.life, keep_alive_at=retry_at)))
        await self._store.keep_alive.plan(planned)

    async def _plan(self, catalog: Catalog, provider_name: str) -> None:
        """Schedule the connections that were stored before the catalog entry got a limit for unused refresh tokens.

        Also schedule connections again that were stored before the limit became shorter.
        """
        provider = catalog.get(provider_name)
        if provider is None:
            return
        after_id = 0
        while rows := await self._store.keep_alive.find_unplanned(
            provider_name, after_id=after_id, limit=ROWS_PER_QUERY
        ):
            await self._plan_rows(provider, rows)
            after_id = rows[-1].id
        unused_limit = idle_limit(provider)
        if unused_limit is None:
            return
        latest_time = clock.now() + unused_limit * (UNUSED_FROM + UNUSED_SPREAD) + POSTPONED_BY
        while rows := await self._store.keep_alive.find_planned_after(provider_name, latest_time, limit=ROWS_PER_QUERY):
            if not await self._plan_rows(provider, rows):
                return  # the remaining credentials cannot be decrypted

    async def _plan_rows(self, provider: Provider, rows: Sequence[Connection]) -> int:
        """Compute the schedules of `rows`, store the changed schedules, and return how many have changed."""
        await self._claim_task()
        planned = []
        for row in rows:
            try:
                credential = self._store.open(row.credential)
            except GatewayError:
                continue  # the store has logged the error; continue with the other rows
            life = lifespan(
                provider,
                credential,
                key=row.uid,
                granted_at=row.granted_at or row.created_at,
                refreshed_at=row.last_refreshed_at or row.created_at,
            )
            if life != row.life:
                planned.append((row, life))
        await self._store.keep_alive.plan(planned)
        return len(planned)


def _has_failed(task: "asyncio.Task[Connection]") -> bool:
    return not task.done() or task.cancelled() or task.exception() is not None


# ── Records connections whose access token has expired and cannot be refreshed, even if no call uses them.


class EndedConnectionRecorder:
    """Records connections whose access token has expired and cannot be refreshed.

    Only the process that does the keep-alive uses a recorder.
    """

    def __init__(self, store: Store, current: CurrentGeneration) -> None:
        self._store = store
        self._current = current

    async def record(self) -> int:
        """Record every connection that has ended, and return the number of recorded connections.

        Skip a connection that another process refreshes now; the next run checks the connection again.
        """
        recorded_count, last_row = 0, None
        while rows := await self._store.expiring.token_ended(clock.now(), after=last_row, limit=ENDED_PER_QUERY):
            last_row = rows[-1]
            judged_rows = [(row, self._is_dead(row)) for row in rows]
            dead_rows = [row for row, is_dead in judged_rows if is_dead]
            living_rows = [row for row, is_dead in judged_rows if is_dead is False]
            await self._store.expiring.mark_checked(living_rows, now=clock.now())
            for row in await self._store.expiring.end(dead_rows, token_end_failure(clock.now())):
                log.info("connection_needs_reauth", **log_fields(row.ref), reason=NOT_REFRESHABLE)
                recorded_count += 1
        return recorded_count

    def _is_dead(self, row: Connection) -> bool | None:
        """Return True if the credential can never be refreshed; None if its encryption key is not in the keyring yet.

        Also return False if this method cannot decide: the catalog entry is gone or has another auth mode now, or the
        row is damaged.
        """
        provider = self._current.generation.catalog.get(row.provider)
        mode = modes().get(provider.auth_mode) if provider is not None else None
        if provider is None or mode is None:
            return False
        try:
            credential = self._store.open(row.credential)
        except CredentialUnreadable:
            return False
        except Unavailable:
            return None
        return credential["type"] in mode.types() and not refreshable_after_expiry(provider, credential)
