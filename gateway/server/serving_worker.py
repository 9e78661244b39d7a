"""Runs a worker process of `gateway serve`: receives the sockets from the parent, serves, reloads, and drains."""

import asyncio
import errno
import gc
import io
import json
import os
import pickle
import signal
import socket
from contextlib import AsyncExitStack, closing, suppress
from functools import partial
from typing import Any, Final

import structlog
from aiohttp import web

from gateway.api.health import INSTANCE_HEADER, readiness
from gateway.app import reload
from gateway.app.catalog_watch import CatalogWatch
from gateway.app.compose import CHECKED_CONFIGURATION, METRICS_PAGE, PARENT, create
from gateway.app.generations import CheckedConfiguration
from gateway.background import beside
from gateway.catalog.load_catalog import Catalog
from gateway.config import Config
from gateway.errors import StartRefused
from gateway.integrations.declared import CheckResult, integrations
from gateway.observe import logs
from gateway.observe.metrics_page import SharedPages
from gateway.origin import ANY_ADDRESS, origin_of
from gateway.process.admin import process_samples
from gateway.process.channel import Channel
from gateway.process.handshake import Message, receive_now, send_now
from gateway.process.sockets import BACKLOG, ignore_new_connections
from gateway.refresh.through_parent import ParentLink
from gateway.runtime import RUNTIME
from gateway.secret import Secret
from gateway.server.runner import GatewayRunner
from gateway.server.startup_warnings import descriptor_limit, warn
from gateway.startup.hardening import harden
from gateway.startup.imports import return_freed_memory
from gateway.vault import Keyring, instance_id_of

log = structlog.get_logger(__name__)


# ── Accepts connections in batches.
#
# uvloop accepts one connection in each event loop iteration. With a thousand busy clients, an iteration takes a tenth
# of a second. So the last of a hundred new connections, perhaps a health check, would wait ten seconds.

# connections accepted in one iteration; few, so that the workers share a burst of new connections
MAX_ACCEPTED: Final = 16
PAUSE_S: Final = 1.0  # pause after running out of descriptors or memory for connections
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class BatchSite(web.BaseSite):
    """Replaces `web.SockSite`: accepts connections in batches from a non-blocking socket, which `stop` closes."""

    def __init__(self, runner: web.BaseRunner, listener: socket.socket, server: web.Server | None = None) -> None:
        """`server`: handles the connections; None means the runner's own server."""
        super().__init__(runner)
        protocol_factory = server or runner.server
        assert protocol_factory is not None, "the runner is set up"
        self._make_protocol = protocol_factory
        self._listener = listener
        self._opening_tasks = set[asyncio.Task[object]]()
        self._resumption: asyncio.TimerHandle | None = None
        self.close_ends_listening = False

    @property
    def name(self) -> str:
        host, port, *_ = self._listener.getsockname()
        return origin_of("http", host, port)

    async def start(self) -> None:
        await super().start()
        self._resume()

    async def stop(self) -> None:
        """Accept the waiting connections and close the listening socket.

        When this returns, each accepted connection has its protocol. When the last copy of a listening socket is
        closed, the kernel resets connections that still wait, even if a request has arrived on them. So if no
        supervisor keeps the socket open (`close_ends_listening`), the kernel first stops taking new connections.
        """
        if self._resumption is not None:
            self._resumption.cancel()
        asyncio.get_running_loop().remove_reader(self._listener)
        if self.close_ends_listening:
            ignore_new_connections(self._listener)
        with suppress(OSError):
            self._accept_waiting(BACKLOG)
        self._listener.close()
        await asyncio.gather(*self._opening_tasks, return_exceptions=True)
        await super().stop()

    def _resume(self) -> None:
        self._resumption = None
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            self._accept_waiting(MAX_ACCEPTED)
        except OSError as fault:
            if fault.errno not in EXHAUSTED:
                raise
            log.error("connections_not_accepted", detail=fault.strerror, again_in_s=PAUSE_S)
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._listener)
            self._resumption = loop.call_later(PAUSE_S, self._resume)

    def _accept_waiting(self, limit: int) -> None:
        """Accept up to `limit` waiting connections. Raises OSError."""
        loop = asyncio.get_running_loop()
        for _ in range(limit):
            try:
                client, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            client.setblocking(False)
            open_task = loop.create_task(_open_client(loop, self._make_protocol, client), name="accept")
            self._opening_tasks.add(open_task)
            open_task.add_done_callback(self._opening_tasks.discard)


async def _open_client(loop: asyncio.AbstractEventLoop, make_protocol: web.Server, client: socket.socket) -> None:
    try:
        await loop.connect_accepted_socket(make_protocol, client)
    except OSError:  # the client has gone
        client.close()


# ── The configuration of the workers and its catalog are in shared memory. A worker that replaces another worker loads
# them from there. So all workers run the same configuration, even if the files have changed or have faults.


class _Pickler(pickle.Pickler):
    """Pickles secrets too, because the data is sent only to processes of this gateway and never written to a disk."""

    def reducer_override(self, value: Any) -> Any:
        return (Secret, (value.reveal(),)) if isinstance(value, Secret) else NotImplemented


def write_configuration(descriptor: int, config: Config, catalog: Catalog) -> None:
    """Write the configuration and the catalog to shared memory. Raises OSError."""
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump((config, catalog))
    os.ftruncate(descriptor, 0)
    view = buffer.getbuffer()
    position = 0
    while position < len(view):
        position += os.pwrite(descriptor, view[position:], position)


def read_configuration(descriptor: int) -> tuple[Config, Catalog]:
    """Return the configuration and the catalog from shared memory. Raises OSError."""
    size = os.fstat(descriptor).st_size
    config, catalog = pickle.loads(os.pread(descriptor, size, 0))  # noqa: S301 (written by a worker of this gateway)
    return config, catalog


# new objects before a garbage collection; a request makes some hundred short-lived objects
COLLECTION_THRESHOLD: Final = 10_000
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
REPORT_EVERY_S: Final = 1.0
HEALTH_S: Final = 2.0  # timeout for the health check of a gateway that already listens on `server.port`


def serve(config: Config | None, sock: socket.socket, start: Message) -> int:
    """Run until SIGTERM, or until the parent has ended; return the exit code.

    `config`: the configuration; None means the configuration of the other workers, from shared memory. `sock`: the
    worker's end of the channel to the parent. `start`: the parent's first message. Raises config.Faults for faults in
    the configuration, and StartRefused for any other reason that prevents a start.
    """
    logs.setup()
    harden()
    check_result = None
    if config is None:
        config, catalog = read_configuration(start["configurations"][start["start_from"]])
        declared_integrations, faults, warnings = integrations(config, catalog)
        check_result = CheckResult(catalog, declared_integrations, tuple(faults), tuple(warnings))
    server = config.server
    addresses = {name: getattr(server, name) for name in ("host", "port", "metrics_host", "admin_port")}
    addresses |= {"console_host": config.console_host, "console_port": config.console.port}
    try:
        send_now(sock, {"type": "needs", "server": addresses, "workers": server.workers})
        message, descriptors = receive_now(sock)
    except (EOFError, OSError):
        return 0  # the parent has ended
    if "refused" in message:
        raise StartRefused((message["in_use"] and _refusal_if_running(config)) or message["refused"])
    public_socket, *other_sockets = listeners = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    for listener in listeners:
        listener.setblocking(False)
    if start["start_from"] is None:
        config = config.at_port(
            public_socket.getsockname()[1], other_sockets[0].getsockname()[1] if other_sockets else None
        )
        warn(config, message["metrics"] and message["metrics"][0])
    descriptor_limit()
    app = create(config, check_result)
    if start["start_from"] is None:
        write_configuration(start["configurations"][0], config, app[CHECKED_CONFIGURATION].catalog)
    worker = Worker(app, start, listeners, message)
    with asyncio.Runner(loop_factory=loop_factory()) as asyncio_runner:
        return asyncio_runner.run(worker.run(sock))


def _refusal_if_running(config: Config) -> str | None:
    """Return an error message if this gateway already runs on `server.port`; otherwise None.

    A gateway that has one of this configuration's encryption keys counts as this gateway.
    """
    import http.client  # imported here: a gateway that serves does not need it

    host, port = config.server.host, config.server.port
    client = http.client.HTTPConnection(ANY_ADDRESS.get(host, host), port, timeout=HEALTH_S)
    with closing(client), suppress(OSError, http.client.HTTPException):
        client.request("GET", "/health")
        instance_id = client.getresponse().headers.get(INSTANCE_HEADER)
        if instance_id in {instance_id_of(key_id) for key_id in Keyring(config.store.encryption_keys).ids}:
            return f"{host}:{port} is in use: this gateway already runs there. Stop it first."
    return None


class Worker:
    """A worker process.

    `start`: the parent's first message. `listeners`: the public socket and, if the console has its own port, the
    console's socket. `sockets_message`: the parent's message that came with the sockets.
    """

    def __init__(
        self, app: web.Application, start: Message, listeners: list[socket.socket], sockets_message: Message
    ) -> None:
        self._app = app
        self._start = start
        self._listeners = listeners
        self._sockets_message = sockets_message
        self._stop = asyncio.Event()
        self._channel = Channel(self._handle_message, self._parent_lost)
        self._parent = ParentLink(self._channel.send)
        self._commands: asyncio.Queue[Message] = asyncio.Queue()
        self._reloading = False
        self._close_ends_listening = [False for _ in listeners]

    async def run(self, sock: socket.socket) -> int:
        """Run until the stop; return the exit code."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_unhandled)
        for signal_number in STOP_SIGNALS:
            loop.add_signal_handler(signal_number, self._begin_drain)
        server = self._app[CHECKED_CONFIGURATION].config.server
        drain_s, notice_s = server.drain_s, server.notice_s
        runner = GatewayRunner(self._app, drain_s=drain_s)
        async with AsyncExitStack() as exit_stack:
            await self._channel.open(sock)
            exit_stack.push_async_callback(self._channel.close)
            self._app[PARENT] = self._parent
            if self._sockets_message["metrics"] is not None:
                shared_pages = SharedPages(self._sockets_message["pages"], self._start["board"])
                # The counters continue with the last values of the worker that this worker replaces.
                self._app[METRICS_PAGE] = shared_pages.pages[self._start["place"]]
            exit_stack.push_async_callback(runner.cleanup)
            await runner.setup()
            self._add_metrics(runner)
            self._app[RUNTIME].store.missing_keys.start_reload = lambda ids: self._channel.send(
                {"type": "missing_keys", "ids": sorted(ids)}
            )
            await exit_stack.enter_async_context(beside(self._run_reloads()))
            await exit_stack.enter_async_context(beside(CatalogWatch(self._app, logs=self._start["place"] == 0).run()))
            sites = [BatchSite(runner, *pair) for pair in zip(self._listeners, runner.servers, strict=False)]
            for site in sites:
                await site.start()
            freeze_startup_objects()
            await self._report()  # before `ready`, because the admin port responds with it
            await exit_stack.enter_async_context(beside(self._keep_reporting()))
            self._channel.send({"type": "ready", **self._announcement()})
            await self._stop.wait()
            log.info("stopping", drain_s=drain_s)
            self._app[RUNTIME].serving = False
            runner.start_draining(idle_s=notice_s)
            await asyncio.sleep(min(notice_s, drain_s))  # meanwhile /ready returns 503 to load balancers
            for site, close_ends_listening in zip(sites, self._close_ends_listening, strict=False):
                site.close_ends_listening = close_ends_listening
                await site.stop()
        log.info("stopped")
        return 0

    def _begin_drain(self) -> None:
        """Start the drain at the first signal. Ignore further signals; without a parent, the next signal ends the
        worker.

        A worker can get two signals for one stop: from a service manager that signals all processes, and from the
        parent. SIGKILL forces an end. Do not remove the loop's handlers, because this sets SIG_DFL first, and a signal
        at that moment would kill the worker.
        """
        self._stop.set()
        handler = signal.SIG_IGN if self._channel.is_open else signal.SIG_DFL
        for signal_number in STOP_SIGNALS:
            signal.signal(signal_number, handler)

    def _parent_lost(self) -> None:
        self._parent.fail_waiting()
        if not self._stop.is_set():
            log.error(
                "parent_lost", effect="this worker finishes its requests and ends; tokens are not refreshed meanwhile"
            )
            self._stop.set()

    def _handle_message(self, message: Message) -> None:
        match message["type"]:
            case "exchanged":
                self._parent.pass_result(message)
            case "journal":
                self._parent.journal_fault = message["fault"]
            case "stopping":
                self._close_ends_listening = message["close_ends_listening"]
            case "nothing_new":
                if not self._reloading:
                    self._app[RUNTIME].store.missing_keys.reload_finished()
            case "reload" | "take_over":
                self._commands.put_nowait(message)

    async def _run_reloads(self) -> None:
        """Run the reloads that the parent requests, one after the other."""
        while True:
            message = await self._commands.get()
            memory = self._start["configurations"][message["memory"]]
            self._reloading = True
            try:
                if message["type"] == "reload":
                    succeeded = await reload.reload(self._app, accept=partial(_share_configuration, memory))
                else:
                    succeeded = await reload.apply_accepted(self._app, partial(read_configuration, memory))
            finally:
                self._reloading = False
            self._app[RUNTIME].store.missing_keys.reload_finished()
            self._channel.send({"type": "reloaded", "ok": succeeded})

    async def _keep_reporting(self) -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            await self._report()

    async def _report(self) -> None:
        """Send this worker's health to the parent, for the admin port, and publish its metrics."""
        runtime = self._app[RUNTIME]
        responses = {}
        for name, required in (("any", False), ("required", True)):
            status, body = await readiness(runtime, required=required)
            responses[name] = {"status": status, "body": body}
        self._channel.send({"type": "report", **responses})
        if self._sockets_message["metrics"] is not None:
            runtime.metrics.publish()

    def _announcement(self) -> Message:
        runtime = self._app[RUNTIME]
        config, metrics = runtime.generation.config, self._sockets_message["metrics"]
        url, public_url = origin_of("http", config.server.host, config.server.port), config.server.public_url
        optional_urls = (
            {"metrics": f"{origin_of('http', config.server.metrics_host, metrics[1])}/metrics"} if metrics else {}
        )
        if config.console.port is not None:
            optional_urls["console"] = f"{config.console_url}/console"
        ready_facts = {
            "ok": True,
            "url": url,
            "public_url": public_url,
            "callback_url": config.callback_url,
            **optional_urls,
        }
        line = json.dumps(ready_facts) if self._start["as_json"] else f"gateway ready on {url}"
        folder = runtime.store.journal.folder
        worker_facts = {"address": url, "public_url": public_url, **optional_urls}
        return {"line": line, "about": worker_facts, "journal": None if folder is None else str(folder)}

    def _add_metrics(self, runner: GatewayRunner) -> None:
        """Add the worker's own counts to the application's metrics."""
        metrics = self._app[RUNTIME].metrics
        metrics.watch(process_samples)
        metrics.watch(lambda: [(("gateway_workers",), 1), *runner.counts()])


def _share_configuration(descriptor: int, ready: CheckedConfiguration) -> None:
    write_configuration(descriptor, ready.config, ready.catalog)


def freeze_startup_objects() -> None:
    """Exempt the objects made at start-up from garbage collection, so that later collections take less time."""
    gc.collect()
    return_freed_memory()
    gc.freeze()
    gc.set_threshold(COLLECTION_THRESHOLD, 20, 20)


def loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    """Return uvloop's event loop, which takes a third less CPU per request; None if uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


def _log_unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    fault = context.get("exception")
    log.error("unhandled", detail=str(context.get("message")), exc_info=fault if isinstance(fault, Exception) else None)
