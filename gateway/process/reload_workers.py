"""Reloads all workers: one of them reads and checks the files, the others apply the configuration that it accepted.

So either all workers run the new configuration or none does, and faults are logged once.

A worker that finds a value sealed under a master key it does not have sends the message ``missing_keys``. The parent
then reloads the configuration, as after SIGHUP, with growing pauses for each key: after a key rotation on another node,
a worker recovers as soon as its configuration has the key.
"""

import asyncio
import signal
from collections.abc import Collection
from typing import Final

import structlog

from gateway.pauses import FIRST_PAUSE_S, LONGEST_PAUSE_S, Pauses
from gateway.process.handshake import Message
from gateway.process.workers import WorkerProcess, Workers

PAUSE_SHARE: Final = 0.8  # of a worker's own pauses: the parent's are shorter, so no worker's request comes too early
READY_POLL_S: Final = 0.1
RESPONSE_S: Final = 60.0  # a large configuration on a busy machine takes seconds

log = structlog.get_logger(__name__)


class Reloads:
    """Runs reloads. `generation` counts accepted configurations;
    configuration n is in the shared memory number n modulo 2."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.generation = 0
        self._requested = asyncio.Event()
        self._pending = False  # a reload is wanted or under way
        self._responses: dict[WorkerProcess, asyncio.Future[bool]] = {}
        self._lock = asyncio.Lock()
        self._pauses = Pauses(first_s=PAUSE_SHARE * FIRST_PAUSE_S, longest_s=PAUSE_SHARE * LONGEST_PAUSE_S)

    def request_reload(self) -> None:
        """Request a reload. Several requests before a reload starts are one reload."""
        self._pending = True
        self._requested.set()

    def missing_keys(self, worker: WorkerProcess, ids: Collection[str]) -> None:
        """Reload because a worker misses these master keys, with growing pauses while the keys stay missing.

        While a reload is pending, its end is also the reply to this worker, because another worker may have reported
        the same key just before.
        """
        if self._pauses.due(set(ids)):
            self.request_reload()
        elif not self._pending:
            worker.send({"type": "nothing_new"})

    def handle_response(self, worker: WorkerProcess, message: Message) -> None:
        """Handle a worker's ``reloaded`` message."""
        response = self._responses.get(worker)
        if response is not None and not response.done():
            response.set_result(message["ok"])

    async def run(self) -> None:
        """Run the reloads that are requested, one at a time, until cancelled."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            await self._wait_until_readable()
            async with self._lock:
                await self._reload()
            self._pending = self._requested.is_set()

    async def _wait_until_readable(self) -> None:
        """Wait until no starting worker still reads the memory that is written next,
        and a worker is ready to read the files."""
        while True:
            for worker in list(self._workers.living.values()):
                await _wait_for_first(worker.ready, worker.exited)
            if self._workers.ready:
                return
            await asyncio.sleep(READY_POLL_S)  # a dead worker is replaced after a pause

    async def _reload(self) -> None:
        next_generation = self.generation + 1
        for loader in self._workers.ready:
            accepted = await self._request(loader, {"type": "reload", "memory": next_generation % 2})
            if accepted is not None:
                break
        else:
            return  # each worker died; the replacements run the old configuration
        if not accepted:
            self._workers.send({"type": "nothing_new"})
            return
        self.generation = loader.generation = next_generation
        others = [worker for worker in self._workers.ready if worker is not loader]
        await asyncio.gather(*(self._take_over(worker) for worker in others))

    async def bring_up_to_date(self, worker: WorkerProcess) -> None:
        """Bring a worker up to date that started before the last reload was accepted and became ready only now."""
        async with self._lock:
            await self._take_over(worker)

    async def _take_over(self, worker: WorkerProcess) -> None:
        """Let a worker apply the accepted configuration. If it cannot, it is replaced by one that starts with it."""
        next_generation = self.generation
        if worker.generation == next_generation:
            return
        done = await self._request(worker, {"type": "take_over", "memory": next_generation % 2})
        if done:
            worker.generation = next_generation
        elif worker.code is None:
            log.error("worker_kept_old_configuration", pid=worker.pid, effect="it is replaced")
            worker.signal(signal.SIGTERM)

    async def _request(self, worker: WorkerProcess, message: Message) -> bool | None:
        """Send `message` and return the worker's response; None if the worker died or did not respond in time.

        A worker that does not respond within `RESPONSE_S` is killed, since its state is unknown.
        """
        response = self._responses[worker] = asyncio.get_running_loop().create_future()
        worker.send(message)
        exit_wait = asyncio.ensure_future(worker.exited.wait())
        try:
            await asyncio.wait({response, exit_wait}, timeout=RESPONSE_S, return_when=asyncio.FIRST_COMPLETED)
            if not response.done() and worker.code is None:
                log.error("worker_silent", pid=worker.pid, effect="it is killed and replaced", waited_s=RESPONSE_S)
                worker.signal(signal.SIGKILL)
            return response.result() if response.done() else None
        finally:
            exit_wait.cancel()
            del self._responses[worker]


async def _wait_for_first(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
