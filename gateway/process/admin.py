"""Serves /health, /ready and /metrics in the parent, on `server.admin_port`, which needs no key and must not be public.

Each worker sends a report every second. A worker counts as blocked only after many seconds without a report, so a busy
worker stays ready. The metrics of all workers are in shared memory.
"""

import asyncio
import logging
import os
import platform
import resource
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import aiohttp
import structlog
from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from gateway.errors import ERROR_HEADER
from gateway.observe.metrics import Metrics, Sample
from gateway.observe.metrics_page import SharedPages
from gateway.observe.metrics_text import CONTENT_TYPE, exposition, total
from gateway.process.sockets import BACKLOG
from gateway.process.workers import WorkerProcess, Workers
from gateway.startup.hardening import hide_versions

SILENT_S: Final = 15.0  # a worker without a report for this time is not ready, because its event loop is blocked
DEAD_S: Final = 60.0  # if no worker has reported for this time, /health returns 503, so that the gateway is restarted
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
PROC_SELF: Final = Path("/proc/self")
STANDARD_NAMES: Final = {
    "process_cpu_seconds_total": "gateway_process_cpu_seconds_total",
    "process_resident_memory_bytes": "gateway_process_resident_memory_bytes",
    "process_open_fds": "gateway_process_open_fds",
    "process_max_fds": "gateway_process_max_fds",
    "process_start_time_seconds": "gateway_start_time_seconds",
}
"""Maps the metric names that common dashboards use to the gateway's metrics. The values are totals of all processes."""

log = structlog.get_logger(__name__)


class Admin:
    """Serves the admin port.

    `listener`: the open listening socket. `shared_pages`: the metrics of all processes. `stopping`: True after the first
    stop signal; /ready then returns 503.
    """

    def __init__(self, listener: socket.socket, shared_pages: SharedPages, workers: Workers, started_at: float) -> None:
        self.stopping = False
        self._listener = listener
        self._shared_pages = shared_pages
        self._workers = workers
        self._started_at = started_at
        self._metrics = Metrics(lambda *_: False, shared_pages.pages[-1])
        self._metrics.watch(process_samples)
        self._runner: web.AppRunner | None = None

    async def open(self) -> None:
        hide_versions()
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_get("/ready", self._ready)
        app.router.add_get("/metrics", self._serve_metrics)
        app.router.add_route("*", "/{path:.*}", _no_such_page)
        logger = AdminServerLog(logging.getLogger(__name__))
        self._runner = web.AppRunner(app, access_log=None, logger=logger, handle_signals=False)
        await self._runner.setup()
        await web.SockSite(self._runner, self._listener, backlog=BACKLOG).start()

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _health(self, _request: web.Request) -> web.Response:
        now = time.monotonic()
        reporting_workers = [worker for worker in self._workers.living.values() if worker.report is not None]
        if reporting_workers and all(now - worker.reported_at > DEAD_S for worker in reporting_workers):
            return _response({"result": "not responding", "detail": f"no worker reported for {DEAD_S:g} s"}, 503)
        return _response({"result": "ok"})

    async def _ready(self, request: web.Request) -> web.Response:
        """Return the response that a worker gives to /ready on the public port, from a ready worker if there is one."""
        required = "required" if request.query.get("store") == "required" else "any"
        report: Mapping[str, Any] = {"status": 503, "body": {"result": "not ready"}}
        if not self.stopping:
            for response in _responses(self._workers.living.values(), required):
                report = response
                if response["status"] == 200:
                    break
        return _response(report["body"], report["status"], "not_ready" if report["status"] != 200 else None)

    async def _serve_metrics(self, _request: web.Request) -> web.Response:
        self._metrics.publish()
        values = total(self._shared_pages.pages)
        values |= {key: [float(value)] for key, value in gateway_samples(self._started_at)}
        values["gateway_workers_wanted",] = [float(len(self._shared_pages.pages) - 1)]  # the last page is the parent's
        values |= {(name,): values[own_name,] for name, own_name in STANDARD_NAMES.items() if (own_name,) in values}
        text = await asyncio.to_thread(exposition, values)  # in a thread, because the text can be long
        response = web.Response(body=text.encode(), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})
        response.enable_compression()
        return response


class AdminServerLog(logging.LoggerAdapter[logging.Logger]):
    """Logs what aiohttp's server reports in the gateway's own words: a malformed request in one line, a bug with its
    traceback."""

    def exception(self, msg: object, *_args: object, exc_info: Any = True, **_options: object) -> None:
        if isinstance(exc_info, HttpProcessingError):
            log.info("admin_request_refused", status=exc_info.code, reason=type(exc_info).__name__)
        else:
            log.error("admin_request_failed", detail=str(msg), exc_info=exc_info)


def _responses(workers: Iterable[WorkerProcess], required: str) -> Iterator[Mapping[str, Any]]:
    now = time.monotonic()
    for worker in workers:
        if worker.report is not None and now - worker.reported_at <= SILENT_S:
            yield worker.report[required]


def _response(body: Mapping[str, Any], status: int = 200, code: str | None = None) -> web.Response:
    headers = {hdrs.CACHE_CONTROL: "no-store", **({ERROR_HEADER: code} if code else {})}
    return web.json_response(dict(body), status=status, headers=headers)


async def _no_such_page(_request: web.Request) -> web.Response:
    message = "No such page on the admin port. It has /health, /ready and /metrics."
    return _response({"error": {"code": "not_found", "message": message}}, 404, "not_found")


def gateway_samples(started_at: float) -> Iterator[Sample]:
    """Yield the metrics that are the same in every worker."""
    version = metadata.version("integration-gateway")
    yield ("gateway_build_info", version, platform.python_version(), aiohttp.__version__), 1
    yield ("gateway_start_time_seconds",), started_at


def process_samples() -> Iterator[Sample]:
    """Yield the metrics of this process that come from the operating system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield ("gateway_process_cpu_seconds_total",), usage.ru_utime + usage.ru_stime
    if PROC_SELF.exists():
        yield ("gateway_process_resident_memory_bytes",), int((PROC_SELF / "statm").read_text().split()[1]) * PAGE_BYTES
        yield ("gateway_process_max_fds",), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        yield ("gateway_process_open_fds",), len(os.listdir(PROC_SELF / "fd"))  # noqa: PTH208 (half the time of iterdir)
