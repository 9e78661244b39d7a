"""`gateway serve`: one process, from its socket to its last answer."""

import asyncio
import contextlib
import signal
import socket
import sys

import structlog
from aiohttp import web

from gateway import logs
from gateway.app import create_app
from gateway.config import Config
from gateway.errors import StartRefused
from gateway.server.hardening import harden
from gateway.server.runner import runner
from gateway.services import SERVICES

LINGER_S = 0.5  # /ready is 503 for this long before the socket closes, so that a load balancer sees it
BACKLOG = 2048

log = structlog.get_logger(__name__)


def serve(config: Config) -> int:
    """Run until SIGTERM or SIGINT; the exit code. Raises config.Faults; what else forbids a start is one line on stderr."""
    logs.setup()
    harden()
    try:
        sock = listen(config.server.host, config.server.port)
        config = config.at_port(sock.getsockname()[1])
        app = create_app(config)
        with asyncio.Runner(loop_factory=loop_factory()) as running:
            return running.run(_serve(app, config, sock))
    except StartRefused as refusal:
        print(f"gateway: {refusal}", file=sys.stderr)  # noqa: T201 (one line, before there is a log to look for)
        return 1


async def _serve(app: web.Application, config: Config, sock: socket.socket) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _asked_to_stop, stop, number)
    loop.set_exception_handler(_log_unhandled)
    run = runner(app, drain_s=config.server.drain_s)
    try:
        await run.setup()
        await web.SockSite(run, sock, backlog=BACKLOG).start()
        address = f"http://{_spelled(config.server.host)}:{config.server.port}"
        print(f"gateway ready on {address}", flush=True)  # noqa: T201 (the line that scripts wait for)
        log.info("ready", address=address, public_url=config.server.public_url)
        await stop.wait()
        log.info("stopping", drain_s=config.server.drain_s)
        app[SERVICES].serving = False
        await asyncio.sleep(min(LINGER_S, config.server.drain_s))
    finally:
        await run.cleanup()
        sock.close()
    log.info("stopped")
    return 0


def _asked_to_stop(stop: asyncio.Event, number: signal.Signals) -> None:
    """The first signal drains; a second one of the same kind ends the process at once."""
    stop.set()
    with contextlib.suppress(ValueError, RuntimeError):
        asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)


def _log_unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    fault = context.get("exception")
    log.error("unhandled", detail=str(context.get("message")), exc_info=fault if isinstance(fault, Exception) else None)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises StartRefused, which names the key to change."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as fault:
        sock.close()
        words = "is in use" if fault.errno == 98 else f"cannot be listened on ({fault.strerror})"
        raise StartRefused(f"{host}:{port} {words}. Set another server.port or server.host in gateway.yaml.") from fault
    sock.setblocking(False)
    return sock


def _spelled(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    """uvloop's loop where it is installed: a third less CPU a request."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
