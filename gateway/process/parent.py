"""Runs the parent of `gateway serve`: opens sockets, keeps workers alive, sends token exchanges, passes on signals."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import structlog

from gateway.background import start_background
from gateway.errors import StartRefused
from gateway.observe import logs
from gateway.process import start
from gateway.process.handshake import Message, send_now
from gateway.process.reload_workers import Reloads
from gateway.process.shared_memory import SharedMemory
from gateway.process.sockets import ListeningSockets, PortInUse, listening_sockets
from gateway.process.start import STOP_SIGNALS, SpawnedWorker
from gateway.process.workers import ORDERLY_EXIT_CODES, WorkerProcess, Workers
from gateway.refresh.for_workers import ExchangesForWorkers
from gateway.startup.collector import collect_as_usual
from gateway.startup.hardening import harden
from gateway.startup.imports import load_small_web, return_freed_memory

# ── Checks the terminal of stderr. A terminal that closes sends SIGHUP too, and this SIGHUP must not cause a reload.


class Terminal:
    """Remembers whether stderr was a terminal at the start, and checks whether this terminal has been closed."""

    def __init__(self) -> None:
        self._was_terminal = sys.stderr.isatty()

    def is_closed(self) -> bool:
        """Return whether the terminal has been closed after the start."""
        if self._was_terminal:
            try:
                os.tcgetpgrp(sys.stderr.fileno())
            except OSError:
                return True
        return False


JOURNAL_CHECK_EVERY_S: Final = 1.0

log = structlog.get_logger(__name__)


def run(first_worker: SpawnedWorker, memory: SharedMemory, file: str, *, as_json: bool) -> int:
    """Run the parent until SIGTERM or SIGINT, and return the exit code.

    A second signal kills the workers and ends this process.
    """
    logs.setup()
    harden()
    parent = Parent(first_worker, memory, file, as_json=as_json)
    with asyncio.Runner() as asyncio_runner:
        code = asyncio_runner.run(parent.run())
    if parent.killed_by is not None:
        signal.signal(parent.killed_by, signal.SIG_DFL)
        os.kill(os.getpid(), parent.killed_by)  # has no effect if this is process 1
        return 128 + parent.killed_by
    return code


class Parent:
    """The parent process.

    `first_worker`: the worker that is already started. `killed_by`: the second stop signal; None if there was only one.
    """

    def __init__(self, first_worker: SpawnedWorker, memory: SharedMemory, file: str, *, as_json: bool) -> None:
        self.killed_by: signal.Signals | None = None
        self._first_worker: SpawnedWorker | None = first_worker
        self._memory = memory
        self._start = {"program": sys.argv[0], "file": file, "as_json": as_json}
        self._workers = Workers(self._spawn_worker, self._handle_message)
        self._reloads = Reloads(self._workers)
        self._exchanges = ExchangesForWorkers()
        self._terminal = Terminal()
        self._stop_requested = asyncio.Event()
        self._socket_stack = ExitStack()  # closes the sockets
        self._sockets: ListeningSockets | None = None
        self._admin: Any = None
        self._worker_count = 1
        self._announcement: Message = {}
        self._reported_fault: str | None = None
        self._tasks = set[asyncio.Task[None]]()

    async def run(self) -> int:
        """Run the parent and return the exit code."""
        loop = asyncio.get_running_loop()
        for signal_number in STOP_SIGNALS:
            loop.add_signal_handler(signal_number, self._stop_on_signal, signal_number)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        loop.add_signal_handler(signal.SIGCHLD, self._workers.reap)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP, *STOP_SIGNALS})
        try:
            code = await self._start_all_workers()
            if code is not None:
                return await self._stop(code)
            collect_as_usual()
            return_freed_memory()
            self._announce()
            self._start_task(self._reloads.run())
            self._start_task(self._watch_journal())
            return await self._supervise()
        finally:
            for task in self._tasks:
                task.cancel()
            self._workers.signal(signal.SIGKILL)
            if self.killed_by is None:
                await self._exchanges.close()
            if self._admin is not None:
                await self._admin.close()
            self._socket_stack.close()

    def _spawn_worker(self, worker_number: int) -> tuple[SpawnedWorker, int]:
        spawned_worker, self._first_worker = self._first_worker or start.spawn(self._memory.descriptors), None
        is_accepted = worker_number > 0 or self._announcement
        message = {
            **self._start,
            "place": worker_number,
            "configurations": self._memory.configurations,
            "board": self._memory.metrics_file,
            "start_from": self._reloads.generation % 2 if is_accepted else None,
        }
        with suppress(OSError):  # the worker has already ended; `reap` will notice this
            send_now(spawned_worker.sock, message)
        return spawned_worker, self._reloads.generation

    async def _start_all_workers(self) -> int | None:
        """Start the workers one after another, so that only the first prepares the store, and a fault is printed once.

        Return None when all workers are ready, or the exit code if a worker failed or a stop was requested.
        """
        worker_number = 0
        while worker_number < self._worker_count:
            worker = await self._workers.start(worker_number)
            self._workers.reap()  # the first worker might have ended before this process handled SIGCHLD
            await _first_of(worker.ready.wait(), worker.exited.wait(), self._stop_requested.wait())
            if self._stop_requested.is_set():
                return 0
            if not worker.ready.is_set():
                if worker.exit_code and worker.exit_code > 0:
                    return worker.exit_code  # the worker has printed the reason
                log.error("worker_died", pid=worker.pid, exit=worker.exit_code, effect="the gateway ends")
                return 1
            worker_number += 1
        return None

    async def _supervise(self) -> int:
        """Replace dead workers until a signal stops the gateway."""
        while True:
            self._workers.changed.clear()
            for worker in self._workers.pop_dead():
                self._workers.plan_replacement(worker)
            if self._stop_requested.is_set():
                return await self._stop(0)
            if self._workers.crash_looping:
                log.error(
                    "workers_crash_looping", effect="the gateway ends", detail="workers die as soon as they start"
                )
                return await self._stop(1)
            await self._workers.start_due_workers()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._workers.next_start_in_s):
                    await self._workers.changed.wait()

    async def _stop(self, code: int) -> int:
        """Let all workers drain, and return `code`, or 1 if a worker fails. A second signal kills the workers."""
        if self._admin is not None:
            self._admin.stopping = True
        if self._sockets is not None:
            self._workers.send({"type": "stopping", "close_ends_listening": self._sockets.close_ends_listening()})
            self._sockets.close_to_clients()  # each worker accepts connections until it closes its own copy
        self._workers.signal(signal.SIGTERM)
        while self._workers.living:
            self._workers.changed.clear()
            await self._workers.changed.wait()
        if self.killed_by is not None:
            return 1
        failed = any(worker.exit_code not in ORDERLY_EXIT_CODES for worker in self._workers.pop_dead())
        return code or (1 if failed else 0)

    def _stop_on_signal(self, signal_number: signal.Signals) -> None:
        if self._stop_requested.is_set():
            self.killed_by = signal_number
            self._workers.signal(signal.SIGKILL)
        self._stop_requested.set()
        self._workers.changed.set()

    def _hang_up(self) -> None:
        """Handle SIGHUP: stop if the terminal that started this process was closed; otherwise reload."""
        if self._terminal.is_closed():
            if not self._stop_requested.is_set():
                self._stop_on_signal(signal.SIGHUP)
        else:
            self._reloads.request_reload()

    def _handle_message(self, worker: WorkerProcess, message: Message) -> None:
        match message["type"]:
            case "exchange":
                self._exchanges.begin(message, worker.sock, worker.send)
            case "released":
                self._exchanges.journals.release(message["attempt"])
            case "report":
                worker.report, worker.reported_at = message, time.monotonic()
            case "needs":
                self._open_sockets(worker, message)
            case "ready":
                self._worker_is_ready(worker, message)
            case "reloaded":
                self._reloads.handle_response(worker, message)
            case "missing_keys":
                self._reloads.missing_keys(worker, message["ids"])

    def _open_sockets(self, worker: WorkerProcess, message: Message) -> None:
        """Open the sockets for the first worker; the other workers get the same sockets."""
        if self._sockets is None:
            try:
                addresses = SimpleNamespace(**message["server"])
                self._sockets = self._socket_stack.enter_context(listening_sockets(addresses))
            except StartRefused as refusal:
                send_now(worker.sock, {"refused": str(refusal), "in_use": isinstance(refusal, PortInUse)})
                return
            self._worker_count = message["workers"]
            if self._sockets.admin is not None:
                self._start_task(self._open_admin(self._sockets.admin))
        public, admin, console = self._sockets
        metrics = None if admin is None else admin.getsockname()[:2]
        descriptors = [public.fileno(), *([] if console is None else [console.fileno()])]
        with suppress(OSError):
            send_now(worker.sock, {"metrics": metrics, "pages": self._worker_count + 1}, descriptors)

    async def _open_admin(self, listener: socket.socket) -> None:
        load_small_web()
        from gateway.observe.metrics_page import SharedPages
        from gateway.process.admin import Admin

        shared_pages = SharedPages(self._worker_count + 1, self._memory.metrics_file)
        self._admin = Admin(listener, shared_pages, self._workers, time.time())
        self._admin.stopping = self._stop_requested.is_set()
        await self._admin.open()

    def _worker_is_ready(self, worker: WorkerProcess, message: Message) -> None:
        self._announcement = self._announcement or message
        if message["journal"] is not None:
            self._start_task(self._open_journal(Path(message["journal"]), worker))
        worker.ready.set()
        if worker.generation != self._reloads.generation:  # a new configuration was accepted after the worker's start
            self._start_task(self._reloads.bring_up_to_date(worker))

    async def _open_journal(self, folder: Path, worker: WorkerProcess) -> None:
        """Open the journal before the first token exchange, so that an unwritable folder is reported at the start."""
        await self._exchanges.journals.of(folder).ready()
        worker.send({"type": "journal", "fault": self._exchanges.journals.fault})

    async def _watch_journal(self) -> None:
        while True:
            await asyncio.sleep(JOURNAL_CHECK_EVERY_S)
            await self._exchanges.journals.try_again()
            fault = self._exchanges.journals.fault
            if fault != self._reported_fault:
                self._reported_fault = fault
                self._workers.send({"type": "journal", "fault": fault})

    def _announce(self) -> None:
        print(self._announcement["line"], flush=True)  # noqa: T201 (scripts wait for this line)
        log.info("ready", **self._announcement["about"])

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_background(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
