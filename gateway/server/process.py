"""`gateway serve`: from the listening socket to the last answer, in one process or in several workers."""

import asyncio
import errno
import gc
import json
import signal
import socket
import sys
from collections.abc import Callable
from typing import Final

import structlog
from aiohttp import web

from gateway import logs
from gateway.app import create_app
from gateway.config import Config
from gateway.errors import StartRefused
from gateway.server.hardening import give_back_memory, harden
from gateway.server.runner import runner
from gateway.server.workers import supervise
from gateway.services import SERVICES

NOTICE_S: Final = 1.0  # /ready is 503 for so long before the socket closes, so that a load balancer sees it
BACKLOG: Final = 2048
GARBAGE: Final = 10_000  # new objects before the collector looks at them; a request makes some hundred short-lived ones

log = structlog.get_logger(__name__)


def serve(config: Config, *, as_json: bool = False) -> int:
    """Run until SIGTERM or SIGINT; the exit code. Raises config.Faults; what else forbids a start is one line on stderr.

    `as_json`: readiness and such a line are told as JSON on stdout.
    """
    logs.setup()
    harden()
    try:
        with listen(config.server.host, config.server.port) as sock:
            config = config.at_port(sock.getsockname()[1])
            app = create_app(config)
            if config.server.workers == 1:
                return work(app, config, sock, ready=lambda: announce(config, as_json), as_json=as_json)
            return supervise(
                config.server.workers,
                lambda ready: work(app, config, sock, ready=ready, as_json=as_json),
                ready=lambda: announce(config, as_json),
            )
    except StartRefused as refusal:
        return refused(refusal, as_json)


def work(
    app: web.Application, config: Config, sock: socket.socket, *, ready: Callable[[], None], as_json: bool = False
) -> int:
    """Serve `sock` in this process until a signal; the exit code. `ready` is called once ``/ready`` would be 200."""
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as running:
            return running.run(_work(app, config, sock, ready))
    except StartRefused as refusal:
        return refused(refusal, as_json)


async def _work(app: web.Application, config: Config, sock: socket.socket, ready: Callable[[], None]) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_unhandled)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _asked_to_stop, stop)
    run = runner(app, drain_s=config.server.drain_s)
    try:
        await run.setup()
        await web.SockSite(run, sock, backlog=BACKLOG).start()
        settle()
        ready()
        await stop.wait()
        log.info("stopping", drain_s=config.server.drain_s)
        app[SERVICES].serving = False
        run.start_draining()
        await asyncio.sleep(min(NOTICE_S, config.server.drain_s))
    finally:
        await run.cleanup()
    log.info("stopped")
    return 0


def settle() -> None:
    """What the start has made stays: the collector need not look at a thousand providers again while requests wait."""
    gc.collect()
    give_back_memory()
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 20)


def announce(config: Config, as_json: bool) -> None:
    address = f"http://{_spelled(config.server.host)}:{config.server.port}"
    public_url = config.server.public_url
    ready = {"ok": True, "url": address, "public_url": public_url, "callback_url": config.callback_url}
    print(json.dumps(ready) if as_json else f"gateway ready on {address}", flush=True)  # noqa: T201 (the line that scripts wait for)
    log.info("ready", address=address, public_url=public_url)


def refused(refusal: StartRefused, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"ok": False, "faults": [{"message": str(refusal)}]}), flush=True)  # noqa: T201
    print(f"gateway: {refusal}", file=sys.stderr, flush=True)  # noqa: T201 (for the operator, not for the log)
    return 1


def _asked_to_stop(stop: asyncio.Event) -> None:
    """The first signal drains; the next one, of either kind, ends the process at once."""
    stop.set()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)


def _log_unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    fault = context.get("exception")
    log.error("unhandled", detail=str(context.get("message")), exc_info=fault if isinstance(fault, Exception) else None)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises StartRefused, which names the key to change."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as fault:
        sock.close()
        words = "is in use" if fault.errno == errno.EADDRINUSE else f"cannot be listened on ({fault.strerror})"
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
