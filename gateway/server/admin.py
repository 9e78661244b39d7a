"""``GET /metrics`` on `server.admin_port`: the numbers of all workers, from whichever of them is asked. No key, not public."""

import asyncio
import os
import platform
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import hdrs, web

from gateway.metrics import CONTENT_TYPE, Board, Metrics, Sample, exposition, total
from gateway.server.runner import GatewayRunner
from gateway.server.sockets import BACKLOG
from gateway.server.tasks import beside
from middleware.error_shape import error_shape
from middleware.request_id import request_id

CONNECTIONS: Final = 128  # those who scrape, not clients: `server.limits` is theirs
PUBLISH_EVERY_S: Final = 2.0
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
PROCESS: Final = Path("/proc/self")


@dataclass(slots=True)
class Admin:
    """Made before workers are forked: the port, and a page for each of them; where there are several, for their parent too."""

    listener: socket.socket
    board: Board
    started_at: float

    def of_parent(self) -> Metrics:
        """What the parent of several workers counts with."""
        return Metrics(lambda *_: False, self.board.pages[-1])

    @asynccontextmanager
    async def serving(self, metrics: Metrics, place: int) -> AsyncIterator[None]:
        """The port open, and `metrics` written to the page of this worker's `place`, from where the worker before left off."""
        metrics.move_to(self.board.pages[place])
        metrics.watch(process)
        runner = GatewayRunner(self._app(metrics), drain_s=0, connections=CONNECTIONS)
        await runner.setup()
        await web.SockSite(runner, self.listener, backlog=BACKLOG).start()
        try:
            async with beside(self._published(metrics)):
                yield
        finally:
            await runner.cleanup()

    async def _published(self, metrics: Metrics) -> None:
        """For whichever worker is asked: our gauges, and that we live. Counters need no publishing."""
        while len(self.board.pages) > 1:
            metrics.publish()
            await asyncio.sleep(PUBLISH_EVERY_S)

    def _app(self, metrics: Metrics) -> web.Application:
        async def told(_request: web.Request) -> web.Response:
            metrics.publish()
            numbers = total(self.board.pages)
            numbers |= {key: [float(number)] for key, number in about(self.started_at)}
            text = await asyncio.to_thread(exposition, numbers)  # a thousand integrations make a long one
            response = web.Response(body=text.encode(), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})
            response.enable_compression()
            return response

        app = web.Application(middlewares=[request_id, error_shape])
        app.router.add_get("/metrics", told)
        return app


def about(started_at: float) -> Iterator[Sample]:
    """What is the same in every worker."""
    version = metadata.version("integration-gateway")
    yield ("gateway_build_info", version, platform.python_version(), aiohttp.__version__), 1
    yield ("gateway_start_time_seconds",), started_at


def process() -> Iterator[Sample]:
    """What the system says of this process."""
    yield ("gateway_workers",), 1
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield ("gateway_process_cpu_seconds_total",), used.ru_utime + used.ru_stime
    if PROCESS.exists():
        yield ("gateway_process_resident_memory_bytes",), int((PROCESS / "statm").read_text().split()[1]) * PAGE_BYTES
        yield ("gateway_process_open_fds",), len(os.listdir(PROCESS / "fd"))  # noqa: PTH208 (half of what iterdir takes)
