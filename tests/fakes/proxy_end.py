"""The last part of the middleware chain of /proxy, on a real aiohttp server. Fakes replace its first part, with a known
key.
"""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gateway import clock
from gateway.access.caller import Caller
from gateway.app.compose import CHECKED_CONFIGURATION
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import Proxy
from gateway.config import ClientLimitsConfig
from gateway.connections.opened import OpenedConnection, Placement
from gateway.egress.client import Egress, Timeouts
from gateway.egress.guard import Guard
from gateway.egress.limits import EgressLimits
from gateway.errors import GatewayError, NotFound
from gateway.middleware.facts import CALLER, ENVIRONMENT, REQUEST_ID, TIMING
from gateway.middleware.response_shape import cors
from gateway.middleware.upstream import connection, credentials, upstream
from gateway.middleware.wanted_response import decompress
from gateway.origin import ParsedUrl
from gateway.process.sockets import BACKLOG
from gateway.proxy import forward
from gateway.records.access import Environment
from gateway.records.connection import Connection, ConnectionRef, Sealed
from gateway.records.integration import Integration
from gateway.records.proxied_call import CallTiming
from gateway.runtime import RUNTIME
from gateway.server import GatewayRunner

PUBLIC_URL = "https://gw.example.com"
US = {"Authorization": "Bearer gw_sk_secret", "Provider-Config-Key": "tracker", "Connection-Id": "u1"}
BEARER = Placement(slots=(("Authorization", "Bearer at-1"),))


class OpenNetwork(NamedTuple):
    network: ipaddress.IPv4Network | ipaddress.IPv6Network
    port: int | None = None


on_our_runner = False
"""Whether `gateway_to` serves on `gateway.runner`. Set by the loop factories of `tests/gateway/conftest.py`."""

LOOPBACK = (OpenNetwork(ipaddress.ip_network("127.0.0.0/8")),)


def opened_at(
    port: int, path: str = "", placement: Placement = BEARER, *, host: str = "127.0.0.1", **extra: Any
) -> OpenedConnection:
    """Return a connection to a provider that listens on this loopback port."""
    ref = ConnectionRef("dev", "tracker", "u1")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    base = ParsedUrl("http", host, port, path)
    return OpenedConnection(
        connection=Connection(
            ref=ref,
            id=1,
            uid="uid",
            provider="tracker",
            version=1,
            credential=Sealed(b"", "dev", "connections", "uid", "credential", 1),
            expires_at=None,
            created_at=now,
            updated_at=now,
        ),
        integration=Integration(
            environment="dev",
            integration_id="tracker",
            provider="tracker",
            forward_set_cookie=extra.pop("forward_set_cookie", False),
        ),
        provider=Provider(
            name="tracker",
            display_name="Tracker",
            categories=["ticketing"],
            auth_mode="OAUTH2",
            docs="https://docs.example.com",
            proxy=Proxy(base_url="http://127.0.0.1", decompress=extra.pop("decompress", None)),
        ),
        base=base,
        allowed_origins=frozenset({f"http://127.0.0.1:{port}", *extra.pop("allowed_origins", ())}),
        placement=placement,
    )


@dataclass
class Rejections:
    """Records rejected credentials. `counted`: the statuses with which a provider rejected a credential."""

    counted: list[int] = field(default_factory=list)
    suspected: Mapping[ConnectionRef, object] = field(default_factory=dict)

    def record_refusal(self, opened: OpenedConnection, status: int, path: str) -> None:
        self.counted.append(status)


@dataclass
class FakeConnectionCache:
    """A connection cache.

    `known`: connections that are in memory. `stored`: connections that must be awaited. `asked`: the requested
    connections.

    `newer`: the result of a refresh after the provider rejected a credential; None if there is no newer credential.
    `refused`: the connections with a rejected credential.
    """

    known: Mapping[ConnectionRef, OpenedConnection]
    stored: Mapping[ConnectionRef, OpenedConnection] = field(default_factory=dict)
    asked: list[ConnectionRef] = field(default_factory=list)
    newer: OpenedConnection | None = None
    refused: list[OpenedConnection] = field(default_factory=list)
    rejections: Rejections = field(default_factory=Rejections)

    def peek(self, ref: ConnectionRef) -> OpenedConnection | None:
        return self.known.get(ref)

    async def open_connection(self, environment: str, integration_id: str, connection_id: str) -> OpenedConnection:
        ref = ConnectionRef(environment, integration_id, connection_id)
        self.asked.append(ref)
        if ref not in self.stored:
            raise NotFound("unknown_connection", f"There is no connection {connection_id!r}.")
        return self.stored[ref]

    @property
    def early_refreshes(self) -> "FakeConnectionCache":
        return self

    async def newer_than(self, sent: OpenedConnection) -> OpenedConnection | None:
        self.refused.append(sent)
        return self.newer

    def start(self, sent: OpenedConnection) -> "asyncio.Task[OpenedConnection | None]":
        return asyncio.create_task(self.newer_than(sent))


class NoLinks:
    """Creates no reconnect links, as for a key that cannot create connect sessions."""

    async def with_remedy(
        self, fault: GatewayError, policy: object, ref: ConnectionRef, *, key_id: str, pollable: bool
    ) -> GatewayError:
        return fault


@web.middleware
async def stand_in_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Do the work of request_id, access_log, error_shape and bearer_key, with fixed values."""
    request[REQUEST_ID] = "req-1"
    request[TIMING] = CallTiming(clock.monotonic())
    request[CALLER] = Caller(Environment("dev"))
    request[ENVIRONMENT] = Environment("dev")
    try:
        return await handler(request)
    except GatewayError as refusal:
        response = web.json_response({"error": refusal.as_json()}, status=refusal.status)
        response.headers["Gateway-Error"] = refusal.code
        response.headers.update(refusal.headers)
        if refusal.close:
            response.force_close()
        return response


def application(
    live: FakeConnectionCache,
    egress: Egress,
    end: Handler = forward,
    egress_limits: EgressLimits | None = None,
    limits: ClientLimitsConfig | None = None,
) -> web.Application:
    app = web.Application(middlewares=[cors, stand_in_middleware, connection, upstream, credentials, decompress])
    server = SimpleNamespace(public_url=PUBLIC_URL, limits=limits or ClientLimitsConfig())
    config = SimpleNamespace(server=server, egress=SimpleNamespace(trace_headers="pass"))
    generation = SimpleNamespace(egress=egress, config=config, public_url=PUBLIC_URL)
    runtime: Any = SimpleNamespace(
        live=live,
        links=NoLinks(),
        egress_limits=egress_limits or EgressLimits(),
        call_queue=SimpleNamespace(record=lambda _: None),
        tracing=None,
        current=SimpleNamespace(generation=generation),
    )
    app[RUNTIME] = runtime
    seated: Any = SimpleNamespace(config=config)
    app[CHECKED_CONFIGURATION] = seated
    app.router.add_route("*", "/proxy{rest:.*}", end)
    return app


@dataclass
class Gateway:
    port: int
    live: FakeConnectionCache
    egress: Egress

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def raw(self, message: bytes, *, until_eof: bool = True) -> bytes:
        """Send these bytes on a new connection. Return all bytes that the gateway sends until it closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(message)
            await writer.drain()
            return await reader.read(-1 if until_eof else 65536)
        finally:
            writer.close()

    async def call(
        self,
        target: str = "/proxy/x",
        *lines: str,
        method: str = "GET",
        body: bytes = b"",
        us: bool = True,
    ) -> bytes:
        """Send one raw request with the three gateway headers, then `lines`, then ``Connection: close``."""
        ours = [f"{name}: {value}" for name, value in US.items()] if us else []
        head = [f"{method} {target} HTTP/1.1", "Host: gw.example.com", *ours, *lines]
        if not any(line.lower().startswith("connection:") for line in lines):
            head.append("Connection: close")
        return await self.raw("\r\n".join([*head, "", ""]).encode("utf-8", "surrogateescape") + body)


@asynccontextmanager
async def gateway_to(
    opened: OpenedConnection,
    *,
    timeouts: Timeouts | None = None,
    guard: Guard | None = None,
    runner_options: Mapping[str, Any] | None = None,
    under: str = "",
    host_middlewares: Sequence[Middleware] = (),
    egress_limits: EgressLimits | None = None,
    limits: ClientLimitsConfig | None = None,
    end: Handler = forward,
) -> AsyncIterator[Gateway]:
    """Run a gateway with one known connection. `under`: the path prefix at which a host application mounts the gateway.
    `host_middlewares`: the middlewares of that application.
    """
    egress = Egress(guard or Guard(LOOPBACK), timeouts=timeouts)
    live = FakeConnectionCache({opened.connection.ref: opened})
    app = application(live, egress, end, egress_limits=egress_limits, limits=limits)
    if under:
        host = web.Application(middlewares=host_middlewares)
        host.add_subapp(under, app)
        app = host
    options = {"auto_decompress": False, "handler_cancellation": True, "max_field_size": 32768, "access_log": None}
    runner: web.AppRunner
    if on_our_runner and runner_options is None:
        runner = GatewayRunner(app, drain_s=0)
    else:
        runner = web.AppRunner(app, **{**options, **(runner_options or {})})
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=BACKLOG)
    await site.start()
    try:
        yield Gateway(runner.addresses[0][1], live, egress)
    finally:
        await runner.cleanup()
        await egress.close()
