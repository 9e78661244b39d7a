"""A small application on the gateway's runner, whose handlers record the requests."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop
from aiohttp import web

from gateway.errors import Unauthorized
from gateway.middleware.chain import Chain
from gateway.middleware.facts import READ_BODY
from gateway.middleware.request_message import no_early_continue, read_limited_body, send_continue, strict
from gateway.middleware.response_shape import error_shape, request_id
from gateway.process.sockets import BACKLOG
from gateway.server import GatewayRunner, runner

OPEN = Chain(request_id, error_shape, strict)


class RecordingApplication:
    """The application, and the requests that its handlers received. `release` lets `/wait` and `/stream` continue.

    If a test passes its own application, no routes are added to it.
    """

    def __init__(self, app: web.Application | None = None) -> None:
        self.heads: list[tuple[str, str, tuple[tuple[bytes, bytes], ...]]] = []
        self.last: tuple[web.Request, web.Response] | None = None  # of `/whole`
        self.cancelled = 0
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self.app = app or web.Application(middlewares=[request_id, error_shape])
        if app is None:
            self._add_routes()

    def _add_routes(self) -> None:
        for path, handler in (
            ("/wait", self.wait),
            ("/stream", self.stream),
            ("/crash", self.crash),
            ("/torn", self.torn),
            ("/left", self.left),
            ("/echo", self.echo),
            ("/whole", self.whole),
            ("/refuse", self.refuse),
            ("/{path:.*}", self.show),
        ):
            self.app.router.add_route("*", path, OPEN(handler), expect_handler=no_early_continue)

    def record(self, request: web.Request) -> None:
        self.heads.append((request.method, request.raw_path, request._message.raw_headers))
        self.entered.set()

    async def show(self, request: web.Request) -> web.Response:
        self.record(request)
        return web.Response(text=request.raw_path)

    async def echo(self, request: web.Request) -> web.Response:
        self.record(request)
        await send_continue(request)
        return web.Response(body=await request.content.read())

    async def whole(self, request: web.Request) -> web.Response:
        """Read the whole body as the gateway's own API does, and send the same body."""
        self.record(request)
        await read_limited_body(request, 1 << 20, "too large")
        request[READ_BODY] = await request.read()
        response = web.Response(body=request[READ_BODY])
        self.last = request, response
        return response

    async def refuse(self, request: web.Request) -> web.Response:
        raise Unauthorized("unknown_account", "No.")

    async def wait(self, request: web.Request) -> web.Response:
        self.record(request)
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return web.Response(text="waited")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Send two pieces, and wait for `release` between them."""
        self.record(request)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await self.release.wait()
        await response.write(b"second")
        await response.write_eof()
        return response

    async def crash(self, request: web.Request) -> web.Response:
        raise RuntimeError("Bearer very-secret-token")

    async def left(self, request: web.Request) -> web.StreamResponse:
        """Write to a client that has disconnected."""
        assert request.transport is not None
        request.transport.close()
        await send_continue(request)
        raise AssertionError("the write succeeded")

    async def torn(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        raise RuntimeError("broke")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the event loops on which a test runs, because their transports close connections differently.

    `gateway serve` runs on uvloop; a host application can run on uvloop or asyncio. Tests with a whole gateway and its
    store run only on uvloop.
    """
    shipped = {"uvloop": uvloop.new_event_loop}
    return shipped if item.path.name.startswith("test_fast_path") else {"asyncio": asyncio.new_event_loop, **shipped}


@pytest.fixture
def recording_app() -> RecordingApplication:
    return RecordingApplication()


class Served:
    """A running server. `port`: its port, on which it serves `recording_app.app`. `runner`: a test stops the server with its
    `cleanup`.
    """

    def __init__(self, recording_app: RecordingApplication, run: GatewayRunner, port: int) -> None:
        self.recording_app, self.runner, self.port = recording_app, run, port


async def served(recording_app: RecordingApplication, **options: float) -> Served:
    run = runner(recording_app.app, **{"drain_s": 0.0, **options})
    await run.setup()
    site = web.TCPSite(run, "127.0.0.1", 0, backlog=BACKLOG)
    await site.start()
    return Served(recording_app, run, site.port)


@pytest.fixture
async def server(recording_app: RecordingApplication) -> AsyncIterator[Served]:
    serving = await served(recording_app)
    yield serving
    await serving.runner.cleanup()
