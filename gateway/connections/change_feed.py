"""Follows the store's change log, so that writes and deletions by other processes also take effect in this process."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from typing import Any, Final, Protocol

import structlog

from gateway import clock
from gateway.generation import CurrentGeneration
from gateway.integrations.registry import ManagedIntegrations
from gateway.records.connection import ConnectionRef, Mark
from gateway.store import ChangesMissed, LogPosition, Store

SWEEP_EVERY_S: Final = 0.5
MAX_RUN_S: Final = 10.0
MAX_CANCEL_WAIT_S: Final = 2.0

log = structlog.get_logger(__name__)


class Follower(Protocol):
    """Another cache that the same change log keeps up to date."""

    def handle_change(self, ref: ConnectionRef) -> None:
        """Handle a change of the connection `ref`. If `ref` has no integration, it refers to a key
        (`store.minted_keys`)."""

    def handle_missed_changes(self) -> None:
        """Handle missed changes: every entry may be outdated."""


class FedCache(Protocol):
    """The cache that a feed keeps up to date."""

    async def refresh_entries(self, refs: Mapping[ConnectionRef, Mark | None]) -> None:
        """Read the changed rows of these connections. `refs` maps each connection to the mark of its row if this
        process itself refreshed the connection, else to None."""

    async def refresh_integration(self, ref: ConnectionRef) -> None:
        """Read a changed integration again."""

    def sweep(self) -> None:
        """Drop entries that are too old."""

    async def write_back(self) -> None:
        """Write rows back to the database if they are newer in memory. The database may have failed over to a standby
        without these rows."""

    def forget_all(self) -> None:
        """Drop all entries, because changes may have been missed."""


class ChangeFeed:
    """Keeps `cache` up to date. `followers`: other caches that also get every change. `on_change`: called after
    changes, except after refreshes by this process.

    All times are monotonic seconds. `changed_at`: when a connection last changed. `unread`: connections that changed
    but could not be read since their change, with the time of the change. `synced_at`: when the store was last read.
    """

    def __init__(
        self,
        store: Store,
        current: CurrentGeneration,
        managed: ManagedIntegrations,
        cache: FedCache,
        followers: Sequence[Follower],
        on_change: Callable[[], None],
    ) -> None:
        self._store = store
        self._current = current
        self._managed = managed
        self._cache = cache
        self._followers = tuple(followers)
        self._on_change = on_change
        self.changed_at: dict[ConnectionRef, float] = {}
        self.unread: dict[ConnectionRef, float] = {}
        self.synced_at = clock.monotonic()
        self._swept_at = 0.0
        self._store_unreadable = False
        self._changes_missed = False
        self._integrations_missed = False

    @property
    def uncertain(self) -> bool:
        """Whether rows in memory may be newer than the database, because it cannot be read or has lost commits."""
        return self._store_unreadable or self._changes_missed

    @property
    def outage_s(self) -> float | None:
        """Seconds since the store was last read; None while the store is readable."""
        return clock.monotonic() - self.synced_at if self._store_unreadable else None

    @property
    def may_serve(self) -> bool:
        """Whether connections in memory may be used: always, except after a long outage of the store."""
        outage_s = self.outage_s
        return outage_s is None or outage_s <= self._current.generation.config.live.ttl_s

    async def follow(
        self, position: LogPosition | None, after_each_run: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Follow the store's change log from `position` on, until the gateway stops.

        `after_each_run`: called after each run of the feed, which is after each change and at least once a second.
        """
        version: Hashable = None
        unreadable_since = 0.0
        while True:
            await self._store.changes.wait_for_change(
                min(max(self._current.generation.config.live.trust_s / 10, 0.05), 1.0)
            )
            try:
                if self._changes_missed:
                    await self._cache.write_back()
                    self._changes_missed = False
                position, version = await _result_despite_cancellation(self._apply_changes(position, version))
                if after_each_run is not None:
                    await after_each_run()
                if self._store_unreadable:
                    log.warning("store_readable_again", after_s=round(self.synced_at - unreadable_since, 1))
                    self._store_unreadable = False
            except ChangesMissed:
                # The next run writes rows that are newer in memory to the database, then drops all entries.
                self._store.failover.begin()
                position, version = None, None
                self._changes_missed = self._integrations_missed = True
                self.announce_missed()
            except Exception as fault:  # noqa: BLE001 (this task must not end: it makes deletions effective)
                if not self._store_unreadable:
                    self._store_unreadable, unreadable_since = True, clock.monotonic()
                    detail = str(fault) or type(fault).__name__
                    log.warning("store_unreadable", detail=detail, effect="connections in memory stay usable")
            if clock.monotonic() - self._swept_at >= SWEEP_EVERY_S:
                self._swept_at = clock.monotonic()
                self._cache.sweep()

    async def _apply_changes(self, position: LogPosition | None, version: Hashable) -> tuple[LogPosition, Hashable]:
        """Apply the changes since `position`. Return the end of the log, and the store's version.

        `position`: None if changes may have been missed. Then all entries that were read before now are dropped.
        """
        async with asyncio.timeout(MAX_RUN_S):
            if position is None:
                position = await self._store.changes.log_end()
                self._cache.forget_all()
            if self._integrations_missed:
                write_count = self._managed.changes
                integrations = await self._store.integrations.all()
                if write_count == self._managed.changes:  # else the next run reads all integrations again
                    self._managed.replace_all(integrations)
                    self._integrations_missed = False
            store_version = await self._store.changes.version()
            new_position, changed_marks = position, dict[ConnectionRef, Mark | None]()
            if store_version != version or position.missing:
                new_position, changed_marks = await self._store.changes.read_since(position)
                if None in changed_marks.values():  # refreshes by this process need no notification
                    self._on_change()
            for ref in changed_marks:
                for follower in self._followers:
                    follower.handle_change(ref)
            changed_marks = {
                ref: mark for ref, mark in changed_marks.items() if ref.integration_id
            }  # the other references are of keys
            self.changed_at.update(dict.fromkeys(changed_marks, clock.monotonic()))
            refs = {**dict.fromkeys(self.unread), **changed_marks}
            for ref in refs:
                if not ref.connection_id:  # the reference of an integration, not of a connection
                    await self._cache.refresh_integration(ref)
            await self._cache.refresh_entries({ref: mark for ref, mark in refs.items() if ref.connection_id})
            self.synced_at = clock.monotonic()
            return new_position, store_version

    def announce_missed(self) -> None:
        """Notify the followers that their entries may be outdated."""
        for follower in self._followers:
            follower.handle_missed_changes()


async def _result_despite_cancellation(
    run: Coroutine[Any, Any, tuple[LogPosition, Hashable]],
) -> tuple[LogPosition, Hashable]:
    """Return the result of `run`. If the caller is cancelled, wait up to `MAX_CANCEL_WAIT_S` for `run` to end first,
    because an aborted statement closes its database connection."""
    task = asyncio.create_task(run, name="follow_changes")
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=MAX_CANCEL_WAIT_S)
        task.cancel()
        raise
