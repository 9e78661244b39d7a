"""Keeps the workers alive: replaces each dead worker, after a pause if workers die soon after their start."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from gateway.process.channel import Channel
from gateway.process.handshake import Message
from gateway.process.start import SpawnedWorker

# SIGTERM kills a worker that has just started and has no signal handler yet
ORDERLY_EXIT_CODES: Final = frozenset({0, -signal.SIGTERM})
SHORT_LIFE_S: Final = 5.0
FIRST_PAUSE_S: Final = 0.25
MAX_PAUSE_S: Final = 30.0
MAX_SHORT_LIVES: Final = 5  # the gateway ends if this many workers in a row die early and no worker is alive

log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class WorkerProcess:
    """A worker process.

    - `worker_number`: number of the worker, from 0; a replacement has the same number
    - `generation`: number of its configuration
    - `began`: when the worker was started
    - `report`: its last report, or None
    - `reported_at`: when the parent received the last report

    All times are monotonic seconds.
    """

    worker_number: int
    pid: int
    sock: socket.socket
    generation: int
    began: float
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    exited: asyncio.Event = field(default_factory=asyncio.Event)
    exit_code: int | None = None
    report: Mapping[str, Any] | None = None
    reported_at: float = 0.0
    channel: Channel = field(init=False)

    def send(self, message: Mapping[str, Any]) -> None:
        self.channel.send(message)

    def signal(self, signal_number: signal.Signals) -> None:
        if self.exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal_number)


def pause_after(short_lives: int) -> float:
    """Return the pause in seconds before a replacement starts, after this many workers in a row died too soon."""
    if not short_lives:
        return 0.0
    # Without a limit for the exponent, the product overflows after 1,024 workers that died too soon.
    return min(FIRST_PAUSE_S * 2.0 ** min(short_lives - 1, 30), MAX_PAUSE_S)


class Workers:
    """The workers of the gateway.

    `spawn_worker`: starts a process for the worker with a number; returns the process and the generation of its
    configuration.
    `handle_message`: called with each message of a worker.
    """

    def __init__(
        self,
        spawn_worker: Callable[[int], tuple[SpawnedWorker, int]],
        handle_message: Callable[[WorkerProcess, Message], None],
    ) -> None:
        self._spawn_worker = spawn_worker
        self._handle_message = handle_message
        self.living: dict[int, WorkerProcess] = {}  # by process id
        self._start_times: dict[
            int, float
        ] = {}  # by worker number: when to start the replacement, in monotonic seconds
        self._short_lives = 0
        self._dead_workers: list[WorkerProcess] = []
        self.changed = asyncio.Event()  # set when a worker has died or a stop is requested

    async def start(self, worker_number: int) -> WorkerProcess:
        """Start the worker with this number. Raises OSError."""
        spawned_worker, generation = self._spawn_worker(worker_number)
        worker = WorkerProcess(worker_number, spawned_worker.pid, spawned_worker.sock, generation, time.monotonic())
        self.living[worker.pid] = worker
        worker.channel = Channel(lambda message: self._handle_message(worker, message), lambda: None)
        await worker.channel.open(spawned_worker.sock)
        return worker

    @property
    def crash_looping(self) -> bool:
        return self._short_lives >= MAX_SHORT_LIVES and not self.living

    def reap(self) -> None:
        """Record the child processes that have ended.

        The child processes are workers and, if this is process 1, orphaned processes that the system assigns to it.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            worker = self.living.pop(pid, None)
            if worker is not None:
                worker.exit_code = os.waitstatus_to_exitcode(status)
                worker.exited.set()
                self._dead_workers.append(worker)
                self.changed.set()

    def pop_dead(self) -> list[WorkerProcess]:
        """Return the workers that have ended after the last call of this method."""
        dead_workers, self._dead_workers = self._dead_workers, []
        return dead_workers

    def plan_replacement(self, worker: WorkerProcess) -> None:
        """Schedule the replacement of a dead worker.

        The replacement starts immediately if the worker ran long enough. If workers die soon after their start, the
        pauses before replacements grow.
        """
        lived_s = time.monotonic() - worker.began
        self._short_lives = self._short_lives + 1 if lived_s < SHORT_LIFE_S else 0
        pause_s = pause_after(self._short_lives)
        self._start_times[worker.worker_number] = time.monotonic() + pause_s
        log.error(
            "worker_died", pid=worker.pid, exit=worker.exit_code, lived_s=round(lived_s, 1), replaced_in_s=pause_s
        )

    @property
    def next_start_in_s(self) -> float | None:
        """Return the seconds until the next worker starts; None if no worker must be replaced."""
        return max(0.0, min(self._start_times.values()) - time.monotonic()) if self._start_times else None

    async def start_due_workers(self) -> None:
        now = time.monotonic()
        for worker_number in [worker_number for worker_number, due_at in self._start_times.items() if due_at <= now]:
            try:
                await self.start(worker_number)
            except OSError as fault:  # no process, descriptor or memory is free now
                self._start_times[worker_number] = now + MAX_PAUSE_S
                log.error("worker_not_started", detail=str(fault), again_in_s=MAX_PAUSE_S)
            else:
                del self._start_times[worker_number]

    def signal(self, signal_number: signal.Signals) -> None:
        for worker in list(self.living.values()):
            worker.signal(signal_number)

    @property
    def ready(self) -> list[WorkerProcess]:
        """Return the workers that serve. Other workers are still starting, and read only the messages of the start."""
        return [worker for worker in self.living.values() if worker.ready.is_set()]

    def send(self, message: Mapping[str, Any]) -> None:
        for worker in self.ready:
            worker.send(message)
