"""What a process serves, and one process at it: from the sockets it was given to the last answer."""

import asyncio
import gc
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiohttp import web

from gateway import reloading
from gateway.app import create_app
from gateway.catalog.faults import CatalogFaults
from gateway.config import Config, Faults
from gateway.metrics import Board
from gateway.server.admin import Numbers, admin_app
from gateway.server.hardening import give_back
from gateway.server.runner import GatewayRunner
from gateway.server.sockets import BACKLOG
from gateway.services import SERVICES

NOTICE_S: Final = 1.0  # /ready is 503 for so long before the socket closes, so that a load balancer sees it
GARBAGE: Final = 10_000  # new objects before the collector looks at them; a request makes some hundred short-lived ones
ENDING: Final = (signal.SIGTERM, signal.SIGINT)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Seat:
    """`app` and `config` are what a worker forked now begins with. `board` is there where there are several."""

    app: web.Application
    config: Config
    public: socket.socket
    admin: socket.socket | None
    board: Board | None
    started_at: float

    def reload(self) -> bool:
        """In the parent of several workers: whether the file is fine, and workers begin with it from now on."""
        try:
            config = reloading.read_again(self.config)
            self.app, self.config = create_app(config), config
        except (Faults, CatalogFaults) as refusal:
            reloading.tell_refusal(refusal)
            return False
        except Exception:
            log.exception("reload_failed", effect="the configuration in use stays")
            return False
        return True

    async def work(self, place: int, ready: Callable[[], None]) -> int:
        """Serve until SIGTERM or SIGINT; the exit code. `ready` is called once ``/ready`` would be 200."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_unhandled)
        stop, reread = asyncio.Event(), asyncio.Event()
        for number in ENDING:
            loop.add_signal_handler(number, _asked_to_stop, stop)
        loop.add_signal_handler(signal.SIGHUP, reread.set)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        drain_s = self.config.server.drain_s
        run = GatewayRunner(self.app, drain_s=drain_s)
        async with AsyncExitStack() as around:
            await around.enter_async_context(self._metrics(run, place))
            around.push_async_callback(run.cleanup)
            await run.setup()
            await around.enter_async_context(_task(_reload_when_asked(self.app, reread)))
            await web.SockSite(run, self.public, backlog=BACKLOG).start()
            settle()
            ready()
            await stop.wait()
            log.info("stopping", drain_s=drain_s)
            self.app[SERVICES].serving = False
            run.start_draining()
            await asyncio.sleep(min(NOTICE_S, drain_s))
        log.info("stopped")
        return 0

    @asynccontextmanager
    async def _metrics(self, run: GatewayRunner, place: int) -> AsyncIterator[None]:
        """The admin port, open from before the first request until after the last."""
        if self.admin is None:
            yield
            return
        metrics = self.app[SERVICES].metrics
        metrics.watch("gateway_client_connections", read=lambda: len(run.server.connections) if run.server else 0)
        numbers = Numbers(metrics, self.started_at, self.board, place)
        admin = GatewayRunner(admin_app(numbers), drain_s=0)
        await admin.setup()
        await web.SockSite(admin, self.admin, backlog=BACKLOG).start()
        try:
            async with _task(numbers.publish_on()):
                yield
        finally:
            await admin.cleanup()


def settle() -> None:
    """What the start has made stays: the collector need not look at a thousand providers again while requests wait."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 20)
    give_back()


async def _reload_when_asked(app: web.Application, asked: asyncio.Event) -> None:
    """One at a time; signals that come meanwhile are one more."""
    while True:
        await asked.wait()
        asked.clear()
        try:
            await reloading.reload(app)
        except Exception:
            log.exception("reload_failed", effect="the configuration in use stays")


@asynccontextmanager
async def _task(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """`work` beside the block, ended with it."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _asked_to_stop(stop: asyncio.Event) -> None:
    """The first signal drains; the next one, of either kind, ends the process at once."""
    stop.set()
    for number in ENDING:
        asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)


def _log_unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    fault = context.get("exception")
    log.error("unhandled", detail=str(context.get("message")), exc_info=fault if isinstance(fault, Exception) else None)
