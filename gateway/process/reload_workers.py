"""Reloads all workers: one worker reads and checks the files, and the other workers apply the accepted configuration.

So either all workers run the new configuration or none does, and each fault is logged once.

If a stored value needs a master key that a worker does not have, the worker sends the message ``missing_keys``. The
parent then reloads the configuration as after SIGHUP, with growing pauses for each key. So after a key rotation on
another node, a worker recovers as soon as its configuration has the new key.
"""

import asyncio
import signal
from collections.abc import Collection
from typing import Final

import structlog

from gateway.pauses import FIRST_PAUSE_S, MAX_PAUSE_S, Pauses
from gateway.process.handshake import Message
from gateway.process.workers import WorkerProcess, Workers

# The parent's pauses are this part of a worker's pauses. The parent's pauses must be shorter, so that the parent does
# not ignore the next message of a worker.
PAUSE_SHARE: Final = 0.8
READY_POLL_S: Final = 0.1
RESPONSE_S: Final = 60.0  # a worker on a busy machine needs seconds for a large configuration

log = structlog.get_logger(__name__)


class Reloads:
    """Reloads the configuration in all workers, on request.

    `generation`: number of accepted configurations. Configuration n is in the shared memory with number n modulo 2.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.generation = 0
        self._requested = asyncio.Event()
        self._pending = False  # whether a reload is requested or running
        self._responses: dict[WorkerProcess, asyncio.Future[bool]] = {}
        self._lock = asyncio.Lock()
        self._pauses = Pauses(first_s=PAUSE_SHARE * FIRST_PAUSE_S, max_pause_s=PAUSE_SHARE * MAX_PAUSE_S)

    def request_reload(self) -> None:
        """Request a reload. Several requests before the reload starts cause only one reload."""
        self._pending = True
        self._requested.set()

    def missing_keys(self, worker: WorkerProcess, ids: Collection[str]) -> None:
        """Request a reload, because a worker does not have the master keys `ids`.

        If the keys stay missing, the pauses between these reloads grow. If no reload is due or pending, reply to the
        worker that there is no new configuration. If a reload is pending, the end of the reload is the reply to this worker,
        because another worker might have reported the same key.
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
        """Run the requested reloads, one at a time, until this task is cancelled."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            await self._wait_until_readable()
            async with self._lock:
                await self._reload()
            self._pending = self._requested.is_set()

    async def _wait_until_readable(self) -> None:
        """Wait until no worker is starting and a worker is ready to read the files.

        A starting worker might still read the shared memory that the reload will overwrite.
        """
        while True:
            for worker in list(self._workers.living.values()):
                await _wait_for_first(worker.ready, worker.exited)
            if self._workers.ready:
                return
            await asyncio.sleep(READY_POLL_S)  # all workers are dead, and are replaced after a pause

    async def _reload(self) -> None:
        next_generation = self.generation + 1
        for loader in self._workers.ready:
            is_accepted = await self._request(loader, {"type": "reload", "memory": next_generation % 2})
            if is_accepted is not None:
                break
        else:
            return  # all workers have died; their replacements run the old configuration
        if not is_accepted:
            self._workers.send({"type": "nothing_new"})
            return
        self.generation = loader.generation = next_generation
        other_workers = [worker for worker in self._workers.ready if worker is not loader]
        await asyncio.gather(*(self._take_over(worker) for worker in other_workers))

    async def bring_up_to_date(self, worker: WorkerProcess) -> None:
        """Let a worker apply the accepted configuration, because it became ready only after the last reload."""
        async with self._lock:
            await self._take_over(worker)

    async def _take_over(self, worker: WorkerProcess) -> None:
        """Let a worker apply the accepted configuration.

        If the worker cannot apply it, stop the worker: its replacement starts with that configuration.
        """
        next_generation = self.generation
        if worker.generation == next_generation:
            return
        is_applied = await self._request(worker, {"type": "take_over", "memory": next_generation % 2})
        if is_applied:
            worker.generation = next_generation
        elif worker.exit_code is None:
            log.error("worker_kept_old_configuration", pid=worker.pid, effect="it is replaced")
            worker.signal(signal.SIGTERM)

    async def _request(self, worker: WorkerProcess, message: Message) -> bool | None:
        """Send `message` and return the worker's response; None if the worker died or did not respond in time.

        A worker that does not respond within `RESPONSE_S` seconds is killed, because its state is unknown.
        """
        response = self._responses[worker] = asyncio.get_running_loop().create_future()
        worker.send(message)
        exit_wait = asyncio.ensure_future(worker.exited.wait())
        try:
            await asyncio.wait({response, exit_wait}, timeout=RESPONSE_S, return_when=asyncio.FIRST_COMPLETED)
            if not response.done() and worker.exit_code is None:
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
