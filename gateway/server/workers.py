"""Several processes on one listening socket, which the parent opens and they inherit.

A socket of its own for each (SO_REUSEPORT) would lose the connections waiting on it whenever one of them ends.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from typing import Final, Literal

import structlog

from gateway.hardening import end_with_parent

Work = Callable[[int, Callable[[], None]], int]
Outcome = Literal["taken", "refused", "stop"]

ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT})
ASKED: Final = signal.SIGUSR1  # a worker wants the file read again; and back to it: there is nothing new
HEARD_LATE: Final = frozenset({signal.SIGHUP, ASKED})  # by a worker, once it can act on them
WATCHED: Final = frozenset({*ENDING, *HEARD_LATE, signal.SIGCHLD})
ORDERLY: Final = frozenset({0, -signal.SIGTERM})  # the latter where it had only just begun
SHORT_LIFE_S: Final = 5.0
FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 30.0
SHORT_LIVES: Final = 5  # so many in a row, nobody left who serves, and starting another one will not help

log = structlog.get_logger(__name__)


def supervise(
    count: int, work: Work, *, ready: Callable[[], None], reload: Callable[[], Outcome], asked: Callable[[], Outcome]
) -> int:
    """Keep `count` workers alive until SIGTERM or SIGINT; the exit code. A second signal kills them.

    They start one after the other, so that the first alone prepares the store, and a fault is told once. `ready` is
    called when all are. `work` gets the number of its place, from 0, which a replacement takes over, and what to call
    once it serves. `reload` is called at SIGHUP, and `asked` at a worker's own signal, which unlike SIGHUP no
    terminal sends. What these have taken the workers are told by SIGHUP; that there was nothing to take, by their own.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)  # they are waited for below, and lost nowhere
    workers = Workers(work)
    try:
        for place in range(count):
            code = workers.start_and_wait(place)
            if code is not None:
                return workers.stop(code)
        ready()
        return workers.watch({signal.SIGHUP: reload, ASKED: asked})
    finally:
        workers.kill()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Workers:
    """The living ones by process id, each with its place and when it began, and the places that wait to be filled."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._living: dict[int, tuple[int, float]] = {}
        self._vacant: dict[int, float] = {}  # place ▸ when to fill it
        self._short_lives = 0

    def start(self, place: int) -> int:
        """Fork one. The descriptor gets a byte when it serves, and ends when it does."""
        reading, writing = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            os._exit(self._run(place, writing, parent))
        os.close(writing)
        self._living[pid] = (place, time.monotonic())
        return reading

    def _run(self, place: int, writing: int, parent: int) -> int:
        """In the worker: everything up to its exit code, whatever happens. HEARD_LATE stays blocked until it can be heard."""
        try:
            os.setpgrp()  # Ctrl-C on a terminal is for the parent, who passes it on once
            if not end_with_parent(parent):
                return 0
            signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED - HEARD_LATE)
            return self._work(place, lambda: _tell(writing))
        except BaseException:
            log.exception("worker_failed")
            return 1

    def start_and_wait(self, place: int) -> int | None:
        """Start one and wait until it serves: None. Else the exit code that all of this should end with."""
        reading = self.start(place)
        try:
            while not select.select([reading], [], [], 0.2)[0]:
                if signal.sigtimedwait(ENDING, 0) is not None:
                    return 0
            return None if os.read(reading, 1) else 1
        finally:
            os.close(reading)

    def watch(self, reloads: Mapping[int, Callable[[], Outcome]]) -> int:
        """Replace whoever dies, until a signal says stop."""
        while True:
            heard = self._next_signal() or 0
            outcome = reloads[heard]() if heard in reloads else None
            if heard in ENDING or outcome == "stop":
                return self.stop(0)
            if outcome == "taken":
                self._signal(signal.SIGHUP)
            elif heard == ASKED:
                self._signal(ASKED)
            for pid, code in self._reap():
                self._mourn(pid, code)
            if self._short_lives >= SHORT_LIVES and not self._living:
                log.error("giving_up", reason="workers die as soon as they are started")
                return self.stop(1)
            self._fill_places()

    def _next_signal(self) -> int | None:
        """None when it is time to fill a place first."""
        if not self._vacant:
            return signal.sigwait(WATCHED)
        heard = signal.sigtimedwait(WATCHED, max(0.0, min(self._vacant.values()) - time.monotonic()))
        return None if heard is None else heard.si_signo

    def _mourn(self, pid: int, code: int) -> None:
        """Plan the replacement: at once after a long life, after a growing pause where lives are short."""
        place, began = self._living.pop(pid)
        lived_s = time.monotonic() - began
        self._short_lives = self._short_lives + 1 if lived_s < SHORT_LIFE_S else 0
        pause_s = min(FIRST_PAUSE_S * 2 ** (self._short_lives - 1), LONGEST_PAUSE_S) if self._short_lives else 0.0
        self._vacant[place] = time.monotonic() + pause_s
        log.error("worker_died", pid=pid, exit=code, lived_s=round(lived_s, 1), replaced_in_s=pause_s)

    def _fill_places(self) -> None:
        now = time.monotonic()
        for place in [place for place, due in self._vacant.items() if due <= now]:
            del self._vacant[place]
            os.close(self.start(place))

    def stop(self, code: int) -> int:
        """Let all of them drain; `code`, or 1 where one of them fails at it. Another signal kills them."""
        self._signal(signal.SIGTERM)
        while self._living:
            if signal.sigwait(WATCHED) in ENDING:
                self.kill()
            for pid, exit_code in self._reap():
                del self._living[pid]
                code = code or (0 if exit_code in ORDERLY else 1)
        return code

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _reap(self) -> list[tuple[int, int]]:
        """Those that have ended, with their exit codes; one SIGCHLD may stand for several."""
        ended = []
        for pid in list(self._living):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                ended.append((pid, os.waitstatus_to_exitcode(status)))
        return ended


def _tell(writing: int) -> None:
    with contextlib.suppress(OSError):  # a replacement serves without anybody waiting for it
        os.write(writing, b".")
    os.close(writing)
