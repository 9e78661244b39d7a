"""Queues refreshes, and runs one refresh task per connection for all callers in this process.

A client that disconnects does not cancel the refresh. A thousand tokens that expire in one minute must not delay other
calls. So refreshes that a call waits for run first, up to a limit for each integration. Few background refreshes run at
the same time, with pauses between their starts.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from gateway import clock
from gateway.errors import GatewayError, Unavailable
from gateway.generation import CurrentGeneration
from gateway.journal.reader import OpenRecord
from gateway.observe.metrics import REFRESHES, Metrics
from gateway.records.connection import Connection, ConnectionRef
from gateway.records.operation import RecordOperation
from gateway.records.trace import RefreshTrace, current_refresh, current_trace
from gateway.refresh.auth_exchange import AuthDialogueRunner
from gateway.refresh.decision import RefreshStep
from gateway.refresh.protocol import RefreshProtocol
from gateway.store import Store

# Limits for each integration, so that a slow provider delays only its own calls.
MAX_URGENT: Final = 64  # maximum number of running refreshes that calls wait for
MAX_BACKGROUND: Final = 4  # maximum number of running background refreshes

# The pace of all background refreshes of this process.
PACE_S: Final = 0.1  # pause between background refreshes, so that they hardly delay other calls
MIN_PACE_S: Final = 0.024  # the shortest pause, used if the queue would not be finished in time with `PACE_S`
TIME_SHARE: Final = 0.5  # the queue must be finished within this part of the time until its last token expires


@dataclass(slots=True)
class QueuedRefresh:
    """A connection in the refresh queue.

    `admitted`: done as soon as the refresh may start. `ends_at`: when the token expires, in monotonic seconds.
    """

    admitted: "asyncio.Future[None]"
    ends_at: float


QueuedRefreshes = OrderedDict[ConnectionRef, QueuedRefresh]


@dataclass(slots=True)
class IntegrationQueue:
    """The queue of one integration. `resume_scheduled`: whether a timer will admit the next background refresh."""

    running: set[ConnectionRef] = field(default_factory=set)
    urgent: QueuedRefreshes = field(default_factory=OrderedDict)
    background: QueuedRefreshes = field(default_factory=OrderedDict)
    running_background: set[ConnectionRef] = field(default_factory=set)
    resume_scheduled: bool = False

    @property
    def idle(self) -> bool:
        return not (self.running or self.urgent or self.background)


def pause_s(waiting_count: int, left_s: float, pace_s: float) -> float:
    """Return the pause before the next background refresh, in seconds.

    `waiting_count`: number of queued background refreshes. `left_s`: seconds until the last token in the queue expires. If
    that token has already expired, the pause is `pace_s`. `pace_s`: the normal pause, in seconds.
    """
    in_time_s = left_s * TIME_SHARE / waiting_count
    return max(min(pace_s, in_time_s), min(pace_s, MIN_PACE_S)) if in_time_s > 0 else pace_s


class RefreshQueue:
    """Decides when each refresh may start: one queue for each integration, one pace for all background refreshes."""

    def __init__(self, *, urgent: int = MAX_URGENT, background: int = MAX_BACKGROUND, pace_s: float = PACE_S) -> None:
        self._max_urgent, self._max_background, self._pace_s = urgent, background, pace_s
        self._queues: dict[tuple[str, str], IntegrationQueue] = {}
        self._next_background_at = 0.0
        self._closed = False

    async def acquire(self, ref: ConnectionRef, *, urgent: bool, ends_at: float = 0.0) -> None:
        """Wait until this connection's refresh may start. After the refresh, the caller must call `release`.

        `urgent`: whether a call waits for the refresh. `ends_at`: when the token expires, in monotonic seconds. Raises
        CancelledError if the queue is closed before a background refresh may start.
        """
        if self._closed and not urgent:
            raise asyncio.CancelledError
        queue = self._queues.setdefault(ref[:2], IntegrationQueue())
        queued = QueuedRefresh(asyncio.get_running_loop().create_future(), ends_at)
        (queue.urgent if urgent else queue.background)[ref] = queued
        self._admit(queue)
        try:
            await queued.admitted
        except BaseException:
            self.release(ref)
            raise

    def prioritize(self, ref: ConnectionRef) -> None:
        """Make a queued background refresh urgent, because a call now waits for the refresh."""
        queue = self._queues.get(ref[:2])
        queued = queue.background.pop(ref, None) if queue is not None else None
        if queue is not None and queued is not None:
            queue.urgent[ref] = queued
            self._admit(queue)

    def release(self, ref: ConnectionRef) -> None:
        queue = self._queues.get(ref[:2])
        if queue is None:
            return
        for waiting in (queue.urgent, queue.background):
            waiting.pop(ref, None)
        queue.running.discard(ref)
        queue.running_background.discard(ref)
        self._admit(queue)
        if queue.idle:
            self._queues.pop(ref[:2], None)

    @property
    def idle(self) -> bool:
        """Return whether nothing runs and nothing waits."""
        return not self._queues

    def close(self) -> None:
        """Cancel the background refreshes in the queue: they have not started, and no call waits for them."""
        self._closed = True
        for queue in self._queues.values():
            for queued in queue.background.values():
                queued.admitted.cancel()
            queue.background.clear()

    def _admit(self, queue: IntegrationQueue) -> None:
        while queue.urgent and len(queue.running) - len(queue.running_background) < self._max_urgent:
            self._begin(queue, queue.urgent)
        while queue.background and len(queue.running_background) < self._max_background:
            now = clock.monotonic()
            if now < self._next_background_at:
                if not queue.resume_scheduled:
                    queue.resume_scheduled = True
                    asyncio.get_running_loop().call_later(self._next_background_at - now, self._resume, queue)
                return
            waiting_refreshes = sum(len(queue.background) for queue in self._queues.values())
            newest = next(reversed(queue.background.values()))
            self._next_background_at = now + pause_s(waiting_refreshes, newest.ends_at - now, self._pace_s)
            queue.running_background.add(self._begin(queue, queue.background))

    def _resume(self, queue: IntegrationQueue) -> None:
        queue.resume_scheduled = False
        self._admit(queue)

    @staticmethod
    def _begin(queue: IntegrationQueue, waiting: QueuedRefreshes) -> ConnectionRef:
        ref, queued = waiting.popitem(last=False)
        queue.running.add(ref)
        if not queued.admitted.done():
            queued.admitted.set_result(None)
        return ref


# ── Refreshes a credential in one task for all callers of this process. No client can cancel the task.

WAIT_S: Final = 45.0  # how long a call waits for a refresh
RECENT_S: Final = 60.0  # longer than an asynchronous standby database lags behind
MAX_RECENT: Final = 10_000

log = structlog.get_logger(__name__)


class Refresher:
    """Refreshes credentials. Each process has one `Refresher`."""

    def __init__(
        self,
        store: Store,
        current: CurrentGeneration,
        dialogues: AuthDialogueRunner,
        metrics: Metrics,
        record_operation: RecordOperation = lambda _: None,
    ) -> None:
        self.metrics = metrics
        self._protocol = RefreshProtocol(store, current, dialogues, metrics, record_operation)
        self._current = current
        self._queue = RefreshQueue()
        self._urgent: set[ConnectionRef] = set()  # connections whose background refresh a call now waits for
        self._running: dict[ConnectionRef, asyncio.Task[Connection]] = {}
        self._traces: dict[ConnectionRef, RefreshTrace] = {}
        self._recent: OrderedDict[ConnectionRef, tuple[float, Connection]] = OrderedDict()

    @property
    def recent(self) -> list[Connection]:
        """Return the connections that this process refreshed in the last `RECENT_S` seconds.

        A standby database that takes over might lack their new tokens.
        """
        earliest = clock.monotonic() - RECENT_S
        return [row for refreshed_at, row in self._recent.values() if refreshed_at >= earliest]

    async def refresh(self, connection: Connection, *, force: bool = False) -> Connection:
        """Return the connection with a newer credential than `connection` has.

        `force`: call the token endpoint even if an earlier failure says to wait. Raises GatewayError. Raises
        Unavailable also after a wait of `WAIT_S` seconds, for example because the store does not accept the new token.
        The refresh then continues in the background.
        """
        ends_at = clock.monotonic() + WAIT_S
        while True:
            joined = self.is_refreshing(connection.ref)
            task = self.start(connection, force=force, urgent=True)
            done, _ = await asyncio.wait({task}, timeout=ends_at - clock.monotonic())
            if not done:
                raise Unavailable(
                    "store_unavailable",
                    "Token refresh timed out waiting for the provider or the database. Retry in 5 s.",
                    retry_after_s=5,
                )
            if not (force and joined) or task.cancelled() or not isinstance(task.exception(), GatewayError):
                return task.result()
            # The joined refresh was perhaps not forced. If it has called the token endpoint, its stored failure differs
            # from the one in `connection`, and the next refresh raises it without a call.

    def start(self, connection: Connection, *, force: bool = False, urgent: bool = False) -> "asyncio.Task[Connection]":
        """Return the task that refreshes `connection`: the running task, or a new task.

        The task continues if its callers are cancelled. `force`: call the token endpoint even if an earlier failure
        says to wait. `urgent`: whether a call waits for the refresh.
        """
        task = self._running.get(connection.ref)
        if task is None:
            trace = self._traces[connection.ref] = RefreshTrace(current_trace.get(), clock.monotonic())
            task = asyncio.create_task(self._refresh(connection, force, urgent, trace))
            self._running[connection.ref] = task
            task.add_done_callback(lambda done: self._on_task_done(connection.ref, done))
        else:
            if urgent:
                self._urgent.add(connection.ref)  # needed if the task has not entered the queue yet
                self._queue.prioritize(connection.ref)
            self._traces[connection.ref].add_waiter(current_trace.get())
        return task

    def is_refreshing(self, ref: ConnectionRef) -> bool:
        """Return whether this process refreshes the connection now or has queued its refresh."""
        return ref in self._running

    async def next_step(self, row: Connection, records: Sequence[OpenRecord] | None = None) -> RefreshStep:
        """Return the next step that this node may take with `row`. The caller has just read `row` from the store.

        `records`: the journal's records, for a caller that asks about many rows; None to read the journal.
        """
        return await self._protocol.fact_collector.step(row, records)

    def has_entry(self, row: Connection) -> bool:
        """Return whether the catalog has the provider's entry. Without the entry, no refresh is possible."""
        return self._current.generation.catalog.get(row.provider) is not None

    def start_background_refresh(
        self, connection: Connection, on_done: Callable[["asyncio.Task[Connection]"], None]
    ) -> None:
        """Start a refresh, unless a refresh of the connection is running. Call `on_done` when the new refresh has
        ended."""
        if connection.ref not in self._running:
            self.start(connection).add_done_callback(on_done)

    async def close(self, within_s: float = 30) -> None:
        """Wait up to `within_s` seconds for running refreshes.

        A reply that arrives now can contain the only valid refresh token.
        """
        self._queue.close()
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=within_s)

    def _on_task_done(self, ref: ConnectionRef, task: "asyncio.Task[Connection]") -> None:
        self._running.pop(ref, None)
        self._traces.pop(ref, None)
        self._urgent.discard(ref)
        if task.cancelled():
            return
        fault = task.exception()
        if fault is None:
            self._remember(task.result())
        if fault is not None and not isinstance(fault, GatewayError):
            self.metrics.add(REFRESHES, *ref[:2], "failed")
            log.error("refresh_crashed", connection_id=ref.connection_id, exc_info=fault)

    def _remember(self, row: Connection) -> None:
        now = clock.monotonic()
        self._recent[row.ref] = now, row
        self._recent.move_to_end(row.ref)
        while len(self._recent) > MAX_RECENT or next(iter(self._recent.values()))[0] < now - RECENT_S:
            self._recent.popitem(last=False)

    async def _refresh(self, known_row: Connection, force: bool, urgent: bool, trace: RefreshTrace) -> Connection:
        current_refresh.set(trace)
        left_s = (known_row.expires_at - clock.now()).total_seconds() if known_row.expires_at is not None else 0.0
        urgent = urgent or known_row.ref in self._urgent
        await self._queue.acquire(known_row.ref, urgent=urgent, ends_at=clock.monotonic() + left_s)
        try:
            return await self._protocol.refresh(known_row, force=force)
        finally:
            self._queue.release(known_row.ref)
