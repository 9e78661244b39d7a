"""Several processes on one listening socket, which the parent opens and they inherit.

A socket of its own for each (SO_REUSEPORT) would lose the connections waiting on it whenever one of them ends.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Final

import structlog

from gateway.server.hardening import end_with_parent

Work = Callable[[Callable[[], None]], int]

WATCHED: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGCHLD})
ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT})
ORDERLY: Final = frozenset({0, -signal.SIGTERM})  # the latter where it had only just begun
SHORT_LIFE_S: Final = 5.0
SHORT_LIVES: Final = 3  # so many in a row, and starting another one will not help

log = structlog.get_logger(__name__)


def supervise(count: int, work: Work, *, ready: Callable[[], None]) -> int:
    """Keep `count` workers alive until SIGTERM or SIGINT; the exit code. A second signal kills them.

    They start one after the other, so that the first alone prepares the store, and a fault is told once. `ready` is
    called when all are.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)  # they are waited for below, and lost nowhere
    workers = Workers(work)
    try:
        for _ in range(count):
            code = workers.start_and_wait()
            if code is not None:
                return workers.stop(code)
        ready()
        return workers.watch()
    finally:
        workers.kill()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Workers:
    """The living ones: process id ▸ when it began."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._began: dict[int, float] = {}
        self._short_lives = 0

    def start(self) -> int:
        """Fork one. The descriptor gets a byte when it serves, and ends when it does."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os._exit(self._run(writing))
        os.close(writing)
        self._began[pid] = time.monotonic()
        return reading

    def _run(self, writing: int) -> int:
        """In the worker: everything up to its exit code, whatever happens."""
        try:
            os.setpgrp()  # Ctrl-C on a terminal is for the parent, who passes it on once
            end_with_parent()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
            return self._work(lambda: _tell(writing))
        except BaseException:
            log.exception("worker_failed")
            return 1

    def start_and_wait(self) -> int | None:
        """Start one and wait until it serves: None. Else the exit code that all of this should end with."""
        reading = self.start()
        try:
            while not select.select([reading], [], [], 0.2)[0]:
                if signal.sigtimedwait(ENDING, 0) is not None:
                    return 0
            return None if os.read(reading, 1) else 1
        finally:
            os.close(reading)

    def watch(self) -> int:
        """Replace whoever dies, until a signal says stop."""
        while True:
            if signal.sigwait(WATCHED) != signal.SIGCHLD:
                return self.stop(0)
            for pid, code in self._reap():
                lived_s = time.monotonic() - self._began.pop(pid)
                self._short_lives = self._short_lives + 1 if lived_s < SHORT_LIFE_S else 0
                log.error("worker_died", pid=pid, exit=code, lived_s=round(lived_s, 1))
                if self._short_lives >= SHORT_LIVES:
                    log.error("giving_up", reason="workers die as soon as they are started")
                    return self.stop(1)
                os.close(self.start())

    def stop(self, code: int) -> int:
        """Let all of them drain; `code`, or 1 where one of them fails at it. Another signal kills them."""
        self._signal(signal.SIGTERM)
        while self._began:
            if signal.sigwait(WATCHED) != signal.SIGCHLD:
                self.kill()
            for pid, exit_code in self._reap():
                del self._began[pid]
                code = code or (0 if exit_code in ORDERLY else 1)
        return code

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._began:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _reap(self) -> list[tuple[int, int]]:
        """Those that have ended, with their exit codes; one SIGCHLD may stand for several."""
        ended = []
        for pid in list(self._began):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                ended.append((pid, os.waitstatus_to_exitcode(status)))
        return ended


def _tell(writing: int) -> None:
    with contextlib.suppress(OSError):  # a replacement serves without anybody waiting for it
        os.write(writing, b".")
    os.close(writing)
