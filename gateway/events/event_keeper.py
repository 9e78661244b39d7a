"""Runs the event tasks that one process does for all processes: reports connections that expire soon, and counts
waiting events."""

import asyncio
import uuid
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Final

import structlog

from gateway import clock
from gateway.errors import GatewayError, exc_info_of
from gateway.store import Store
from gateway.store.deliveries import Backlog
from gateway.store.due_connections import ConnectionCount

EVENTS_TASK: Final = "events"
RUN_EVERY_S: Final = 30.0
LEASE: Final = timedelta(seconds=90)
DAYS_AHEAD: Final = (14, 3)  # `connection.expiring` is sent this many days before the expiry
BATCH_SIZE: Final = 100
COUNT_COST_RATIO: Final = 100  # counting takes at most 1/100 of the time

log = structlog.get_logger(__name__)


class EventKeeper:
    """Runs the tasks; each process has one keeper. `environments` returns the declared environments; `wake` is called
    when there is an event to send.

    Only the process that has the lease for the tasks fills `backlog` and `connections`, so that sums over processes and
    nodes are correct.
    """

    def __init__(self, store: Store, environments: Callable[[], Collection[str]], wake: Callable[[], None]) -> None:
        self._store = store
        self._environments = environments
        self._wake = wake
        self._owner = uuid.uuid4().hex
        self.backlog: Sequence[Backlog] = ()
        self.connections: Sequence[ConnectionCount] = ()
        self._count_at = 0.0

    async def run(self) -> None:
        """Run until the gateway stops."""
        try:
            while True:
                try:
                    await self.run_once()
                except Exception as fault:
                    log.warning("event_tasks_failed", detail=str(fault), exc_info=exc_info_of(fault))
                await asyncio.sleep(RUN_EVERY_S)
        finally:
            try:
                await self._store.tasks.release(EVENTS_TASK, owner=self._owner)
            except GatewayError as fault:
                log.warning("deliveries_not_released", detail=fault.message)

    async def run_once(self) -> None:
        """Do the tasks if this process has the lease for them."""
        if not await self._store.tasks.hold(EVENTS_TASK, owner=self._owner, now=clock.now(), ttl=LEASE):
            self.backlog = self.connections = ()
            return
        for environment in sorted(self._environments()):
            for days in sorted(DAYS_AHEAD):  # ascending, so that an expiry in 2 days is not also reported for 14 days
                await self._report_expiring(environment, days)
        self.backlog = await self._store.deliveries.backlog()
        began_at = clock.monotonic()
        if began_at >= self._count_at:
            self.connections = await self._store.expiring.counts(clock.now())
            self._count_at = clock.monotonic() + COUNT_COST_RATIO * (
                clock.monotonic() - began_at
            )  # counting a million rows takes a second

    async def _report_expiring(self, environment: str, days: int) -> None:
        report = self._store.expiring.report
        while reported_count := await report(environment, days, now=clock.now(), limit=BATCH_SIZE):
            log.info("expiring_reported", environment=environment, within_days=days, connections=reported_count)
            self._wake()
            if reported_count < BATCH_SIZE:
                return
