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

ORDERLY_EXIT_CODES: Final = frozenset(
    {0, -signal.SIGTERM}
)  # SIGTERM kills a worker that has just started and has no signal handler yet
SHORT_LIFE_S: Final = 5.0
FIRST_PAUSE_S: Final = 0.25
MAX_PAUSE_S: Final = 30.0
MAX_SHORT_LIVES: Final = 5  # the gateway ends if this many workers in a row die early and no worker is alive

log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class WorkerProcess:
    """A worker process.

    `place`: number of the worker, from 0; a replacement has the same number. `generation`: number of its configuration.
    `began`: when the worker was started. `report`: its last report, or None. `reported_at`: when the parent received
    the last report. All times are monotonic seconds.
    """

    place: int
    pid: int
    sock: socket.socket
    generation: int
    began: float
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    exited: asyncio.Event = field(default_factory=asyncio.Event)
    code: int | None = None
    report: Mapping[str, Any] | None = None
    reported_at: float = 0.0
    channel: Channel = field(init=False)

    def send(self, message: Mapping[str, Any]) -> None:
        self.channel.send(message)

    def signal(self, number: signal.Signals) -> None:
        if self.code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def pause_after(short_lives: int) -> float:
    """Return the pause in seconds before a replacement starts, after this many workers in a row died too soon."""
    if not short_lives:
        return 0.0
    # Without a limit for the exponent, the product overflows after 1,024 workers that died too soon.
    return min(FIRST_PAUSE_S * 2.0 ** min(short_lives - 1, 30), MAX_PAUSE_S)


class Workers:
    """The workers of the gateway.

    `spawn_worker`: starts a process for a place, and returns the process and the generation of its configuration.
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
        self._vacant_places: dict[int, float] = {}  # place: when to start a worker there, in monotonic seconds
        self._short_lives = 0
        self._dead_workers: list[WorkerProcess] = []
        self.changed = asyncio.Event()  # set when a worker has died or a stop is requested

    async def start(self, place: int) -> WorkerProcess:
        """Start a worker at `place`. Raises OSError."""
        started, generation = self._spawn_worker(place)
        worker = WorkerProcess(place, started.pid, started.sock, generation, time.monotonic())
        self.living[worker.pid] = worker
        worker.channel = Channel(lambda message: self._handle_message(worker, message), lambda: None)
        await worker.channel.open(started.sock)
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
                worker.code = os.waitstatus_to_exitcode(status)
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
        self._vacant_places[worker.place] = time.monotonic() + pause_s
        log.error("worker_died", pid=worker.pid, exit=worker.code, lived_s=round(lived_s, 1), replaced_in_s=pause_s)

    @property
    def next_start_in_s(self) -> float | None:
        """Return the seconds until the next worker starts; None if no place is vacant."""
        return max(0.0, min(self._vacant_places.values()) - time.monotonic()) if self._vacant_places else None

    async def fill_places(self) -> None:
        now = time.monotonic()
        for place in [place for place, due_at in self._vacant_places.items() if due_at <= now]:
            try:
                await self.start(place)
            except OSError as fault:  # no process, descriptor or memory is free now
                self._vacant_places[place] = now + MAX_PAUSE_S
                log.error("worker_not_started", detail=str(fault), again_in_s=MAX_PAUSE_S)
            else:
                del self._vacant_places[place]

    def signal(self, number: signal.Signals) -> None:
        for worker in list(self.living.values()):
            worker.signal(number)

    @property
    def ready(self) -> list[WorkerProcess]:
        """Return the workers that serve. Other workers are still starting, and read only the messages of the start."""
        return [worker for worker in self.living.values() if worker.ready.is_set()]

    def send(self, message: Mapping[str, Any]) -> None:
        for worker in self.ready:
            worker.send(message)
