"""`gateway serve`: from the configuration to the exit code, in one process or in several workers."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Callable

import structlog

from gateway import clock, logs
from gateway.app import create_app
from gateway.config import Config
from gateway.errors import StartRefused
from gateway.hardening import harden
from gateway.metrics import Board
from gateway.server.admin import Admin
from gateway.server.sockets import listening
from gateway.server.warnings import warn
from gateway.server.worker import Worker
from gateway.server.workers import supervise

log = structlog.get_logger(__name__)


def serve(config: Config, *, as_json: bool = False) -> int:
    """Run until SIGTERM or SIGINT; the exit code. Raises config.Faults; what else forbids a start is one line on stderr.

    `as_json`: readiness and such a line are told as JSON on stdout.
    """
    logs.setup()
    harden()
    # A reload that is asked for during the start waits until somebody can act on it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        with listening(config.server) as (public, admin_socket):
            config = config.at_port(public.getsockname()[1])
            admin = admin_of(config, admin_socket)
            warn(config, admin_socket)
            worker = Worker(create_app(config), config, public, admin)
            if config.server.workers == 1:
                return work(worker, 0, ready=lambda: announce(config, admin, as_json), as_json=as_json)
            return supervise(
                config.server.workers,
                lambda place, ready: work(worker, place, ready=ready, as_json=as_json),
                ready=lambda: announce(config, admin, as_json),
                reload=worker.reload,
                asked=worker.asked,
            )
    except StartRefused as refusal:
        return refused(refusal, as_json)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def admin_of(config: Config, listener: socket.socket | None) -> Admin | None:
    if listener is None:
        return None
    workers = config.server.workers
    return Admin(listener, Board(workers if workers == 1 else workers + 1), clock.now().timestamp())


def work(worker: Worker, place: int, *, ready: Callable[[], None], as_json: bool) -> int:
    """Serve in this process until a signal; the exit code."""
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as running:
            return running.run(worker.run(place, ready))
    except StartRefused as refusal:
        return refused(refusal, as_json)


def announce(config: Config, admin: Admin | None, as_json: bool) -> None:
    address = _address(config.server.host, config.server.port)
    public_url = config.server.public_url
    metrics = admin and f"{_address(config.server.metrics_host, admin.listener.getsockname()[1])}/metrics"
    more = {"metrics": metrics} if metrics else {}
    ready = {"ok": True, "url": address, "public_url": public_url, "callback_url": config.callback_url, **more}
    print(json.dumps(ready) if as_json else f"gateway ready on {address}", flush=True)  # noqa: T201 (the line that scripts wait for)
    log.info("ready", address=address, public_url=public_url, **more)


def refused(refusal: StartRefused, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"ok": False, "faults": [{"message": str(refusal)}]}), flush=True)  # noqa: T201
    print(f"gateway: {refusal}", file=sys.stderr, flush=True)  # noqa: T201 (for the operator, not for the log)
    return 1


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    """uvloop's loop where it is installed: a third less CPU a request."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
