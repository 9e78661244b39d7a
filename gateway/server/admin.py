"""``GET /metrics`` on `server.admin_port`: the numbers of all workers, from whichever of them is asked. No key, not public."""

import asyncio
import os
import platform
import resource
from importlib import metadata
from pathlib import Path
from typing import Final

import aiohttp
import structlog
from aiohttp import web

from gateway.metrics import Board, Metrics, Snapshot, added, exposition
from gateway.metrics.board import TooLarge
from gateway.metrics.exposition import CONTENT_TYPE
from middleware.error_shape import error_shape
from middleware.request_id import request_id

PUBLISH_EVERY_S: Final = 1.0
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

log = structlog.get_logger(__name__)


class Numbers:
    """Those of this worker, and what the others have last written to `board`; without one, this worker is alone."""

    def __init__(self, metrics: Metrics, started_at: float, board: Board | None, slot: int) -> None:
        self._metrics = metrics
        self._board = board
        self._slot = slot
        self._about: Snapshot = about(started_at)
        self._told_of_size = False
        if board is not None and (former := board.read(slot)):
            metrics.go_on_from(Snapshot.from_bytes(former))
        watch_process(metrics)

    def publish(self) -> None:
        """Let the other workers read ours."""
        if self._board is None:
            return
        try:
            self._board.write(self._slot, self._metrics.snapshot().as_bytes())
        except TooLarge:
            if not self._told_of_size:
                log.error("metrics_too_large", effect="numbers of other workers are left out of /metrics from now on")
            self._told_of_size = True

    async def publish_on(self) -> None:
        """Every second, for as long as the worker runs."""
        while True:
            self.publish()
            await asyncio.sleep(PUBLISH_EVERY_S)

    def total(self) -> Snapshot:
        """Summed over the workers. All are read from the board, our own too, so that no two of us tell different totals."""
        if self._board is None:
            return added([self._metrics.snapshot(), self._about])
        self.publish()
        told = [self._board.read(slot) for slot in range(self._board.workers)]
        return added([*(Snapshot.from_bytes(one) for one in told if one), self._about])


def admin_app(numbers: Numbers) -> web.Application:
    async def metrics(_request: web.Request) -> web.Response:
        text = await asyncio.to_thread(exposition, numbers.total())  # a thousand integrations make a long one
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application(middlewares=[request_id, error_shape])
    app.router.add_get("/metrics", metrics)
    return app


def about(started_at: float) -> Snapshot:
    """What is the same in every worker."""
    build = (
        "gateway_build_info",
        metadata.version("integration-gateway"),
        platform.python_version(),
        aiohttp.__version__,
    )
    return Snapshot(gauges={build: 1, ("gateway_start_time_seconds",): started_at})


def watch_process(metrics: Metrics) -> None:
    metrics.watch("gateway_workers", read=lambda: 1)
    metrics.watch("gateway_cpu_seconds_total", read=_cpu_s)
    if Path("/proc/self/statm").exists():
        metrics.watch("gateway_resident_memory_bytes", read=_resident_bytes)
        metrics.watch("gateway_open_fds", read=lambda: len(os.listdir("/proc/self/fd")))  # noqa: PTH208 (quicker)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident_bytes() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
