"""Replaces aiohttp's runner: exact bytes, strict framing, limits, and a drain that lets streams finish."""

import asyncio
import contextvars
import math
from collections.abc import Iterator
from typing import Any, Final

import structlog
from aiohttp import http_parser, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.helpers import DEFAULT_CHUNK_SIZE
from aiohttp.http_parser import HttpRequestParser
from aiohttp.web_protocol import MAX_MSG_QUEUE_SIZE
from aiohttp.web_server import Server

from gateway.app.compose import CHECKED_CONFIGURATION, OWN_MIDDLEWARES
from gateway.config import ClientLimitsConfig
from gateway.console.lazy_console import console_alone
from gateway.errors import StartRefused
from gateway.http.abort import abort_connection
from gateway.middleware.request_message import inflates_uploads
from gateway.observe.metrics import REFUSED_CONNECTIONS, Sample
from gateway.runtime import RUNTIME
from gateway.server.client_protocol import ClientProtocol
from gateway.server.fast_path import fast_path_of
from gateway.startup.hardening import hide_versions

DEFAULT_LIMITS: Final = ClientLimitsConfig()
MAX_HEAD_BYTES: Final = 32_768
# longer than in most load balancers, so that the load balancer closes first
KEEP_ALIVE_S: Final = DEFAULT_LIMITS.keep_alive_s
MAX_FIELD_BYTES: Final = 16_384
MAX_LINE_BYTES: Final = 16_384
MAX_HEADER_LINES: Final = 256
LOG_REFUSED_EVERY_S: Final = 60.0
# Maximum number of bytes of all connections that wait for their clients: incomplete heads, and responses of the gateway
# itself that are not read. Without this limit, each of 20,000 connections could keep half a megabyte.
MAX_WAITING_BYTES: Final = 128 << 20
SHUTDOWN_S: Final = 1.0  # time for aiohttp to shut down handlers after the drain
CHECK_EVERY_S: Final = 0.05  # interval of the checks during a drain
# A connection accepted just before the stop gets a response if its request arrives within this time.
FIRST_REQUEST_S: Final = 1.0
ACCEPT_ITERATIONS: Final = 5  # number of event loop iterations from the accept of a connection to its first bytes


log = structlog.get_logger(__name__)


class GatewayServer(Server):
    """Makes a `ClientProtocol` for each connection.

    - `draining`: whether every response closes its connection
    - `refused_connections`: number of connections above the limit `max_connections` that are being refused now
    - `fast_path`: None if the application has no fast path
    - `context`: the context in which connections handle requests, so that no connection inherits the trace of another
      request
    """

    def __init__(
        self,
        server: Server,
        app: web.Application,
        *,
        head_s: float,
        head_bytes: int,
        answer_idle_s: float,
        max_connections: int,
        fast_path: bool,
        **options: Any,
    ) -> None:
        super().__init__(server.request_handler, request_factory=server.request_factory, handler_cancellation=True)
        self.app = app
        self.context = contextvars.copy_context()
        self.draining = False
        self.head_bytes = head_bytes
        self.answer_idle_s = answer_idle_s
        self.max_connections = max_connections
        self.refused_connections = 0
        self._log_refused_at = 0.0
        self._head_s = head_s
        self._options = options
        self.fast_path = fast_path_of(app, OWN_MIDDLEWARES) if fast_path else None
        self._overdue_timer: asyncio.TimerHandle | None = None

    def __call__(self) -> ClientProtocol:
        return ClientProtocol(self, loop=self._loop, **self._options)

    def new_parser(self, protocol: BaseProtocol) -> HttpRequestParser:
        """Return a new parser for a client connection, with the options that aiohttp uses for its parser."""
        options = self._options
        return HttpRequestParser(
            protocol,
            self._loop,
            DEFAULT_CHUNK_SIZE,
            max_line_size=options["max_line_size"],
            max_field_size=options["max_field_size"],
            max_headers=options["max_headers"],
            payload_exception=web.RequestPayloadError,
            auto_decompress=False,
            max_msg_queue_size=MAX_MSG_QUEUE_SIZE,
        )

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if self._overdue_timer is None:
            self._schedule_checks()

    @property
    def full(self) -> bool:
        """Whether the number of connections exceeds the limit, so that the newest connection is refused."""
        return len(self._connections) - self.refused_connections > self.max_connections

    def count_refused_connection(self) -> None:
        """Count a refused connection in the metrics, and log it once a minute."""
        runtime = self.app.get(RUNTIME)
        if runtime is not None:
            runtime.metrics.add(REFUSED_CONNECTIONS)
        now = self._loop.time()
        if now >= self._log_refused_at:
            self._log_refused_at = now + LOG_REFUSED_EVERY_S
            log.warning("client_connections_full", most=self.max_connections, setting="server.limits.connections")

    def start_draining(self) -> None:
        """Make every response from now on close its connection."""
        self.draining = True
        for connection in self._connections:
            if isinstance(connection, ClientProtocol):
                connection.announce_close()

    def _schedule_checks(self) -> None:
        interval_s = min(1.0, self._head_s / 4, self._options["keepalive_timeout"])
        self._overdue_timer = self._loop.call_later(interval_s, self._close_overdue)

    def _close_overdue(self) -> None:
        """Close connections that exceed a time limit, and let the fast path forget old request heads.

        One timer serves all connections, because a timer for each request would cost more. After the last connection
        has closed, the timer continues until the fast path has forgotten the heads.
        """
        self._overdue_timer = None
        now = self._loop.time()
        all_forgotten = self.fast_path is None or self.fast_path.sweep(now)
        waiting: list[tuple[ClientProtocol, int]] = []
        for connection in self.connections:
            if isinstance(connection, ClientProtocol):
                connection.enforce_time_limits(now, late_if_before=now - self._head_s)
                if size := connection.waiting_bytes:
                    waiting.append((connection, size))
        _limit_waiting(waiting)
        if self._connections or not all_forgotten:
            self._schedule_checks()

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (aiohttp's signature)
        await super().shutdown(timeout)
        if self._overdue_timer is not None:
            self._overdue_timer.cancel()
            self._overdue_timer = None


def _limit_waiting(waiting_clients: list[tuple[ClientProtocol, int]]) -> None:
    """Close the connections that have waited longest for their clients, if all of them keep too many bytes.

    `waiting_clients`: each connection that waits for its client, and how many bytes it keeps.
    """
    excess_bytes = sum(size for _, size in waiting_clients) - MAX_WAITING_BYTES
    if excess_bytes <= 0:
        return
    closed_count = 0
    for connection, size in sorted(waiting_clients, key=lambda item: item[0].waiting_since):
        abort_connection(connection.transport)
        closed_count += 1
        excess_bytes -= size
        if excess_bytes <= 0:
            break
    log.warning("slow_clients_closed", closed=closed_count, kept_bytes=MAX_WAITING_BYTES)


class GatewayRunner(web.AppRunner):
    """Replaces `web.AppRunner`. All times are in seconds.

    - `drain_s`: how long requests in flight may take after the stop is announced
    - `head_s`: how long a new connection may stay silent, and how long a header block may take to arrive
    - `keep_alive_s`: how long an idle connection stays open
    - `answer_idle_s`: how long a response of the gateway itself may stay unread
    - `connections`: maximum number of open connections
    - `fast_path`: whether ordinary proxied requests can take the fast path; the responses are the same without the fast
      path

    The default of `head_s`, `keep_alive_s`, `answer_idle_s` and `connections` is `server.limits` of the application's
    configuration. Raises StartRefused if aiohttp was installed without its C parser.
    """

    def __init__(
        self,
        app: web.Application,
        *,
        drain_s: float = 30,
        head_s: float | None = None,
        keep_alive_s: float | None = None,
        answer_idle_s: float | None = None,
        connections: int | None = None,
        fast_path: bool = True,
    ) -> None:
        refuse_without_c_parser()
        hide_versions()
        limits = app[CHECKED_CONFIGURATION].config.server.limits if CHECKED_CONFIGURATION in app else DEFAULT_LIMITS
        super().__init__(app, shutdown_timeout=SHUTDOWN_S)
        self._drain_s = drain_s
        self._idle_s = 0.0
        self._drain_end: float | None = None  # the loop's time at which the drain must end
        self._head_s = limits.head_s if head_s is None else head_s
        self._keep_alive_s = limits.keep_alive_s if keep_alive_s is None else keep_alive_s
        self._response_idle_s = limits.answer_idle_s if answer_idle_s is None else answer_idle_s
        self._connections = limits.connections if connections is None else connections
        self._fast_path = fast_path
        self._console_server: GatewayServer | None = None

    @property
    def servers(self) -> list[Server]:
        """The server for all requests and, if the console has its own port, the server for that port."""
        return [server for server in (self._server, self._console_server) if server is not None]

    @property
    def client_connections(self) -> int:
        """Number of open client connections."""
        return sum(len(server.connections) for server in self.servers)

    def counts(self) -> Iterator[Sample]:
        """Yield samples for the metrics: client connections, and requests on the fast path."""
        yield ("gateway_client_connections",), self.client_connections
        fast_path = self._server.fast_path if isinstance(self._server, GatewayServer) else None
        if fast_path is not None:
            yield ("gateway_fast_path_requests_total",), fast_path.taken
            yield ("gateway_fast_path_handed_over_total",), fast_path.handed_over

    def start_draining(self, *, idle_s: float = 0.0) -> None:
        """Announce in each response that its connection closes. New connections are still accepted.

        Call `cleanup` afterwards to stop. `idle_s`: how long an idle connection stays open after the listening socket
        has closed, in seconds. A load balancer might just be sending a request on that connection, and does not repeat
        a POST. Such a request gets a response, and then the connection closes.
        """
        if self._drain_end is None:
            self._idle_s = idle_s
            self._drain_end = asyncio.get_running_loop().time() + self._drain_s
        for server in self.servers:
            if isinstance(server, GatewayServer):
                server.start_draining()

    async def cleanup(self) -> None:
        """Stop listening, let requests finish within `drain_s`, cut off the rest, and clean up the application."""
        for site in list(self.sites):
            await site.stop()
        for server in self.servers:
            if isinstance(server, GatewayServer):
                await self._drain(server)
        if self._console_server is not None:
            await self._console_server.shutdown(SHUTDOWN_S)
        await super().cleanup()

    async def _drain(self, server: GatewayServer) -> None:
        self.start_draining()
        drain_end = self._drain_end
        assert drain_end is not None
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPT_ITERATIONS):
            await asyncio.sleep(0)
        idle_until = loop.time() + self._idle_s
        while busy_connections := self._close_idle(server, idle_until):
            if loop.time() >= drain_end:
                for connection in busy_connections:
                    if isinstance(connection, ClientProtocol):
                        connection.stopped = True
                        connection.send_queued()
                    abort_connection(connection.transport)
                return
            await asyncio.sleep(min(CHECK_EVERY_S, self._drain_s))

    @staticmethod
    def _close_idle(server: GatewayServer, idle_until: float) -> list[web.RequestHandler]:
        """Close the idle connections of clients. Return the connections that are busy or can soon receive a request."""
        busy_connections = []
        now = asyncio.get_running_loop().time()
        for connection in server.connections:
            ends_at = (
                max(idle_until, connection.head_since + FIRST_REQUEST_S)
                if isinstance(connection, ClientProtocol) and connection.idle
                else math.inf
            )
            if now >= ends_at:
                connection.force_close()
            else:
                busy_connections.append(connection)
        return busy_connections

    async def _make_server(self) -> Server:
        aiohttp_server = await super()._make_server()
        server = self._gateway_server(aiohttp_server, fast_path=self._fast_path)
        refuse_inflated(server)
        aiohttp_console_server = Server(
            console_alone(aiohttp_server.request_handler), request_factory=aiohttp_server.request_factory
        )
        self._console_server = self._gateway_server(aiohttp_console_server, fast_path=False)
        return server

    def _gateway_server(self, aiohttp_server: Server, *, fast_path: bool) -> GatewayServer:
        return GatewayServer(
            aiohttp_server,
            self.app,
            head_s=self._head_s,
            head_bytes=MAX_HEAD_BYTES,
            answer_idle_s=self._response_idle_s,
            max_connections=self._connections,
            fast_path=fast_path,
            auto_decompress=False,
            access_log=None,
            keepalive_timeout=self._keep_alive_s,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_FIELD_BYTES,
            max_headers=MAX_HEADER_LINES,
        )


def runner(
    app: web.Application,
    *,
    drain_s: float = 30,
    head_s: float | None = None,
    keep_alive_s: float | None = None,
    answer_idle_s: float | None = None,
    connections: int | None = None,
    fast_path: bool = True,
) -> GatewayRunner:
    """Return the gateway's runner for `app`. Raises StartRefused if aiohttp was installed without its C parser."""
    return GatewayRunner(
        app,
        drain_s=drain_s,
        head_s=head_s,
        keep_alive_s=keep_alive_s,
        answer_idle_s=answer_idle_s,
        connections=connections,
        fast_path=fast_path,
    )


def refuse_without_c_parser() -> None:
    """Raise StartRefused if aiohttp has no C parser.

    aiohttp's parser in pure Python allowed request smuggling (CVE-2023-47627).
    """
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise StartRefused(
            "aiohttp was installed without its C extensions. Install a wheel of it, or a compiler and aiohttp again; "
            "AIOHTTP_NO_EXTENSIONS must not be set."
        )


def refuse_inflated(server: Server) -> None:
    """Raise StartRefused if the parser decompresses uploads, because this would break signatures and lengths."""
    if inflates_uploads(server):
        raise StartRefused(
            "This version of aiohttp decompresses uploads despite auto_decompress=False. Install the pinned version."
        )
