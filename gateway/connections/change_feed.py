"""Following the store's change log: what another process has written or deleted is known here at once."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from typing import Any, Final, Protocol

import structlog

from gateway import clock
from gateway.config import LiveConfig
from gateway.integrations.registry import Integrations
from gateway.records.connection import ConnectionRef, Mark
from gateway.store import ChangesMissed, LogPosition, Store

SWEEP_EVERY_S: Final = 0.5
LONGEST_LOOK_S: Final = 10.0
LONGEST_END_S: Final = 2.0

log = structlog.get_logger(__name__)


class Follower(Protocol):
    """Who keeps something in memory besides that the same log tells of."""

    def changed(self, ref: ConnectionRef) -> None:
        """Something at this address was written; an address without an integration is a key's (`store.minted_keys`)."""

    def missed(self) -> None:
        """Whatever is kept may be stale."""


class ChangeFeed(ABC):
    """`followers` hear of every change that it hears of. `heard` is called when something has changed in the store."""

    def __init__(self, config: LiveConfig, store: Store, integrations: Integrations) -> None:
        self._config = config
        self._store = store
        self._integrations = integrations
        self._changed_at: dict[ConnectionRef, float] = {}
        self._unread: dict[ConnectionRef, float] = {}
        self._synced_at = clock.monotonic()
        self._swept_at = 0.0
        self._lost = False
        self._missed = False
        self._integrations_missed = False
        self.heard: Callable[[], None] = lambda: None
        self.followers: tuple[Follower, ...] = ()

    @abstractmethod
    async def _refresh_entries(self, refs: Mapping[ConnectionRef, Mark | None]) -> None:
        """Take over what was written of these connections. With each the mark that it has by now, where that is known."""

    @abstractmethod
    async def _refresh_integration(self, ref: ConnectionRef) -> None:
        """Take over what was written of an integration."""

    @abstractmethod
    def _sweep(self) -> None:
        """Forget what is too old."""

    @abstractmethod
    async def _write_back(self) -> None:
        """Store what is newer here than in the database, which may have failed over to a standby that lacked it."""

    @abstractmethod
    def _forget_all(self) -> None:
        """What was written is not known."""

    @property
    def away_s(self) -> float | None:
        """Seconds since the store was last read, while it cannot be; None as long as it can."""
        return clock.monotonic() - self._synced_at if self._lost else None

    @property
    def serves(self) -> bool:
        """Whether what is in memory may be served: always but after a long outage."""
        away_s = self.away_s
        return away_s is None or away_s <= self._config.ttl_s

    async def follow(self, position: LogPosition | None, beside: Callable[[], Awaitable[None]] | None = None) -> None:
        """Follow the store's change log from `position` on, for as long as the gateway runs.

        `beside` is called after each change of whatever kind, and now and then besides.
        """
        version: Hashable = None
        lost_at = 0.0
        while True:
            await self._store.changes.moved(min(max(self._config.trust_s / 10, 0.05), 1.0))
            try:
                if self._missed:
                    await self._write_back()
                    self._missed = False
                position, version = await _to_its_end(self._look(position, version))
                if beside is not None:
                    await beside()
                if self._lost:
                    log.warning("store_readable_again", after_s=round(self._synced_at - lost_at, 1))
                    self._lost = False
            except (
                ChangesMissed
            ):  # what is kept goes at the next look, once what is newer there than stored was written back
                self._store.failover.begin()
                position, version = None, None
                self._missed = self._integrations_missed = True
                self._tell_missed()
            except Exception as fault:  # noqa: BLE001 (this task must not end: it is what makes a delete effective)
                if not self._lost:
                    self._lost, lost_at = True, clock.monotonic()
                    detail = str(fault) or type(fault).__name__
                    log.warning("store_unreadable", detail=detail, effect="what is in memory serves on")
            if clock.monotonic() - self._swept_at >= SWEEP_EVERY_S:
                self._sweep()

    async def _look(self, position: LogPosition | None, version: Hashable) -> tuple[LogPosition, Hashable]:
        """Take over what has changed since. Returns where the log ends now, and the store's version.

        `position` None: it is not known what was missed, so that nothing read before now may be kept.
        """
        async with asyncio.timeout(LONGEST_LOOK_S):
            if position is None:
                position = await self._store.changes.end()
                self._forget_all()
            if self._integrations_missed:
                self._integrations.learn(await self._store.integrations.all())
                self._integrations_missed = False
            seen = await self._store.changes.version()
            newest, changed = position, dict[ConnectionRef, Mark | None]()
            if seen != version or position.missing:
                newest, changed = await self._store.changes.since(position)
                if None in changed.values():  # of a renewal of our own nobody is told
                    self.heard()
            for ref in changed:
                for follower in self.followers:
                    follower.changed(ref)
            changed = {ref: mark for ref, mark in changed.items() if ref.integration_id}  # others are keys
            self._changed_at.update(dict.fromkeys(changed, clock.monotonic()))
            refs = {**dict.fromkeys(self._unread), **changed}
            for ref in refs:
                if not ref.connection_id:  # not a connection, but its integration
                    await self._refresh_integration(ref)
            await self._refresh_entries({ref: mark for ref, mark in refs.items() if ref.connection_id})
            self._synced_at = clock.monotonic()
            return newest, seen

    def _tell_missed(self) -> None:
        for follower in self.followers:
            follower.missed()


async def _to_its_end(look: Coroutine[Any, Any, tuple[LogPosition, Hashable]]) -> tuple[LogPosition, Hashable]:
    """Its outcome. Who is cancelled still waits for it: a statement that is cut off costs its connection."""
    task = asyncio.create_task(look, name="follow_changes")
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=LONGEST_END_S)
        task.cancel()
        raise
