"""`gateway serve`: from the configuration to the exit code, in one process or in several workers."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable

import structlog

from gateway import clock, logs
from gateway.app import create_app
from gateway.config import Config
from gateway.errors import StartRefused
from gateway.metrics import Board
from gateway.server.hardening import harden
from gateway.server.seat import Seat
from gateway.server.sockets import listening
from gateway.server.workers import supervise

log = structlog.get_logger(__name__)


def serve(config: Config) -> int:
    """Run until SIGTERM or SIGINT; the exit code. Raises config.Faults; what else forbids a start is one line on stderr."""
    logs.setup()
    harden()
    # A reload asked for during the start waits until somebody can act on it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        with listening(config.server) as (public, admin):
            config = config.at_port(public.getsockname()[1])
            several = config.server.workers > 1
            board = Board(config.server.workers) if several and admin is not None else None
            seat = Seat(create_app(config), config, public, admin, board, clock.now().timestamp())
            if not several:
                return work(seat, 0, ready=lambda: announce(config, admin))
            return supervise(
                config.server.workers,
                lambda place, ready: work(seat, place, ready=ready),
                ready=lambda: announce(config, admin),
                reload=seat.reload,
            )
    except StartRefused as refusal:
        return refused(refusal)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def work(seat: Seat, place: int, *, ready: Callable[[], None]) -> int:
    """Serve in this process until a signal; the exit code."""
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as running:
            return running.run(seat.work(place, ready))
    except StartRefused as refusal:
        return refused(refusal)


def announce(config: Config, admin: socket.socket | None) -> None:
    address = _address(config.server.host, config.server.port)
    print(f"gateway ready on {address}", flush=True)  # noqa: T201 (the line that scripts wait for)
    metrics = f"{_address(config.server.host, admin.getsockname()[1])}/metrics" if admin else None
    log.info("ready", address=address, public_url=config.server.public_url, metrics=metrics)


def refused(refusal: StartRefused) -> int:
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
