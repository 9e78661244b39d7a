"""One process that serves: from the sockets it was given to its last answer."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog
from aiohttp import web

from gateway import reloading
from gateway.app import create_app
from gateway.config import Config
from gateway.courier import Courier
from gateway.lean import give_back_memory
from gateway.server.accepting import BatchSite
from gateway.server.admin import Admin
from gateway.server.asking import Asking
from gateway.server.runner import GatewayRunner
from gateway.server.tasks import beside
from gateway.server.terminal import Terminal
from gateway.server.workers import ASKED, Outcome
from gateway.services import SERVICES
from gateway.watching import Watch

GARBAGE: Final = 10_000  # new objects before the collector looks at them; a request makes some hundred short-lived ones
ENDING: Final = (signal.SIGTERM, signal.SIGINT)
OUT_OF_TURN_S: Final = 0.05  # of two signals that wait together, the kernel has the later handler begin first

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Worker:
    """What a process needs to serve; made before workers are forked, so that each begins with a copy.

    `made_by`: the process that is their parent, or the only one.
    """

    app: web.Application
    config: Config
    public: socket.socket
    admin: Admin | None = None
    terminal: Terminal = field(default_factory=Terminal)
    made_by: int = field(default_factory=os.getpid)
    asking: Asking = field(default_factory=Asking)
    rereading: bool = False

    @property
    def alone(self) -> bool:
        """Whether this process has no parent that reads the file for it."""
        return os.getpid() == self.made_by

    def reload(self) -> Outcome:
        """In the parent of several workers, at SIGHUP: as `read_again`, unless its terminal has sent that."""
        return "stop" if self.terminal.gone() else self.read_again()

    def asked(self) -> Outcome:
        """At a worker's wish: as `read_again`, unless that was in vain a moment ago."""
        return self.read_again() if self.asking.due() else "refused"

    def read_again(self) -> Outcome:
        """In the parent of several workers: whether the file is fine, and workers begin with it from now on."""
        try:
            config = reloading.read_again(self.config)
            self.app, self.config = create_app(config), config
        except Exception as refusal:  # noqa: BLE001 (whatever it was, the workers go on)
            reloading.tell_refusal(refusal, None if self.admin is None else self.admin.of_parent())
            return "refused"
        return "taken"

    async def run(self, place: int, ready: Callable[[], None]) -> int:
        """Serve until SIGTERM or SIGINT; the exit code. `ready` is called once ``/ready`` would be 200.

        `place`, counted from 0, is its own among the workers; who replaces it has the same.
        """
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_unhandled)
        stop, reread = asyncio.Event(), asyncio.Event()
        for number in ENDING:
            loop.add_signal_handler(number, self._stop, stop)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up, stop, reread)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        drain_s, notice_s = self.config.server.drain_s, self.config.server.notice_s
        run = GatewayRunner(self.app, drain_s=drain_s)
        async with AsyncExitStack() as around:
            await around.enter_async_context(self._admin(run, place))
            self.app[SERVICES].courier = Courier()
            around.push_async_callback(run.cleanup)
            await run.setup()
            self._ask_for_missing_keys(reread)
            await around.enter_async_context(beside(self._reload_when_asked(reread)))
            await around.enter_async_context(beside(Watch(self.app, aloud=place == 0).run()))
            await BatchSite(run, self.public).start()
            settle()
            ready()
            await stop.wait()
            log.info("stopping", drain_s=drain_s)
            self.app[SERVICES].serving = False
            run.start_draining()
            await asyncio.sleep(min(notice_s, drain_s))  # /ready is 503 meanwhile, so that a load balancer sees it
        log.info("stopped")
        return 0

    def _stop(self, stop: asyncio.Event) -> None:
        """The first signal drains; the next one, of either kind, ends the process at once.

        Not one that has a parent: a service manager tells each of them, and then their parent does. That has SIGKILL.
        The loop keeps its handlers: removing one sets SIG_DFL first, and a signal in that moment would kill the worker.
        """
        stop.set()
        again = signal.SIG_DFL if self.alone or os.getppid() != self.made_by else signal.SIG_IGN
        for number in ENDING:
            signal.signal(number, again)

    def _hang_up(self, stop: asyncio.Event, reread: asyncio.Event) -> None:
        if self.alone and self.terminal.gone():  # a parent has looked, and sends SIGHUP for no other reason
            self._stop(stop)
        else:
            reread.set()

    def _ask_for_missing_keys(self, reread: asyncio.Event) -> None:
        missing = self.app[SERVICES].store.missing_keys
        if self.alone:
            missing.ask = lambda _ids: reread.set()
            return
        missing.ask = self._ask_parent
        asyncio.get_running_loop().add_signal_handler(ASKED, self._nothing_new, reread)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {ASKED})

    def _nothing_new(self, reread: asyncio.Event) -> None:
        """The parent has nothing that it had not before. A SIGHUP that it sent ahead may come after this one."""
        asyncio.get_running_loop().call_later(OUT_OF_TURN_S, self._answer_unless_reading, reread)

    def _answer_unless_reading(self, reread: asyncio.Event) -> None:
        if not reread.is_set() and not self.rereading:
            self.app[SERVICES].store.missing_keys.answered()

    async def _reload_when_asked(self, asked: asyncio.Event) -> None:
        """One at a time; signals that come meanwhile are one more."""
        while True:
            await asked.wait()
            self.rereading = True
            asked.clear()
            try:
                await reloading.reload(self.app)
            finally:
                self.rereading = False
            self.app[SERVICES].store.missing_keys.answered()

    def _ask_parent(self, ids: Collection[str]) -> None:
        """Have it read the file and tell all workers: whoever replaces one begins with what the parent has read."""
        if os.getppid() == self.made_by:
            self.asking.ask(self.made_by, ids)

    @asynccontextmanager
    async def _admin(self, run: GatewayRunner, place: int) -> AsyncIterator[None]:
        """The admin port, open from before the first request until after the last."""
        if self.admin is None:
            yield
            return
        metrics = self.app[SERVICES].metrics
        async with self.admin.serving(metrics, place):
            metrics.watch(lambda: [(("gateway_client_connections",), run.client_connections)])
            yield


def settle() -> None:
    """What the start has made stays: the collector need not look at a thousand providers again while requests wait."""
    gc.collect()
    give_back_memory()
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 20)


def _log_unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    fault = context.get("exception")
    log.error("unhandled", detail=str(context.get("message")), exc_info=fault if isinstance(fault, Exception) else None)
