"""A provider for traffic that a load balancer might break: events, WebSockets, large bodies, unusual paths, slow
responses.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.fakes.load import SHORT

EVERY_S: Final = 0.02
MIB: Final = 1 << 20
SERVER: Final = "provider/1"
DATE: Final = "Wed, 21 Oct 2015 07:28:00 GMT"


async def pause() -> None:
    """Wait between two events."""
    await asyncio.sleep(EVERY_S)


def piece(number: int) -> bytes:
    """Return mebibyte number `number` of every download. No two mebibytes of a download are equal."""
    return hashlib.sha256(b"%d" % number).digest() * (MIB // 32)


class BalancerTestProvider:
    """A provider behind a load balancer.

    `requests`: number of requests for each raw path. `headers`: header fields of the last request, with names in lower
    case.

    A request to ``/held`` waits until `hold` is set. ``/dialogue/N`` sends N events. After each event it waits until
    the test releases `arrived`.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.headers: dict[str, str] = {}
        self.hold = asyncio.Event()
        self.arrived = asyncio.Semaphore(0)
        self.port = 0

    async def any(self, request: web.Request) -> web.StreamResponse:
        target = request.raw_path
        self.requests[target] += 1
        self.headers = {name.lower(): text for name, text in request.headers.items()}
        kind, _, rest = target.lstrip("/").partition("/")
        match kind:
            case "events":
                return await self._events(request, int(rest))
            case "dialogue":
                return await self._events(request, int(rest), after_each=self.arrived.acquire)
            case "socket":
                return await self._socket(request)
            case "upload":
                return await self._upload(request)
            case "download":
                return await self._download(request, int(rest))
            case "held":
                await self.hold.wait()
        return web.Response(body=SHORT, headers={"Server": SERVER, "Date": DATE})

    async def _events(
        self, request: web.Request, count: int, after_each: Callable[[], Awaitable[object]] = pause
    ) -> web.StreamResponse:
        """Send numbered events. The last one is named ``end``."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(count):
            await response.write(b"id: %d\ndata: event\n\n" % number)
            await after_each()
        await response.write(b"event: end\ndata:\n\n")
        await response.write_eof()
        return response

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        async for message in socket:
            await (socket.send_str(message.data) if isinstance(message.data, str) else socket.send_bytes(message.data))
        return socket

    async def _upload(self, request: web.Request) -> web.Response:
        digest, length = hashlib.sha256(), 0
        async for content in request.content.iter_any():
            digest.update(content)
            length += len(content)
        return web.json_response({"sha256": digest.hexdigest(), "bytes": length})

    async def _download(self, request: web.Request, count: int) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(count * MIB)})
        await response.prepare(request)
        for number in range(count):
            await response.write(piece(number))
        return response

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["BalancerTestProvider"]:
        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/{any:.*}", self.any)
        server = TestServer(app, skip_url_asserts=True)
        await server.start_server(max_line_size=32_768, max_field_size=32_768)
        assert server.port is not None
        self.port = server.port
        try:
            yield self
        finally:
            self.hold.set()
            await server.close()
