"""Keep-alive clients that send requests without pause, and an upstream with recognizable responses."""

import asyncio
import hashlib
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.fakes.patience import PATIENCE_S

PIECE = 16_384
SHORT = bytes(range(65, 91)) * 50  # 1,300 bytes


def content(number: int, pieces: int) -> bytes:
    """Return the body of ``/stream/{number}``. No part of the body occurs in another stream."""
    return b"".join(hashlib.sha256(b"%d/%d" % (number, n)).digest() * (PIECE // 32) for n in range(pieces))


class Upstream:
    """A provider. Each stream stops after its first half, until `release` is set. `begun`: number of streams that
    stopped there.
    """

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.begun = 0
        self.port = 0
        self._changed = asyncio.Condition()

    async def has_begun(self, streams: int) -> None:
        """Wait until this many streams have sent their first half."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: self.begun >= streams)

    async def short(self, request: web.Request) -> web.Response:
        return web.Response(body=SHORT)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        number, pieces = int(request.match_info["number"]), int(request.match_info["pieces"])
        body = content(number, pieces)
        response = web.StreamResponse()
        await response.prepare(request)
        half = len(body) // 2
        await response.write(body[:half])
        async with self._changed:
            self.begun += 1
            self._changed.notify_all()
        await self.release.wait()
        await response.write(body[half:])
        await response.write_eof()
        return response

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Upstream"]:
        app = web.Application()
        app.router.add_get("/short", self.short)
        app.router.add_get("/stream/{number}/{pieces}", self.stream)
        server = TestServer(app, skip_url_asserts=True)
        await server.start_server()
        assert server.port is not None
        self.port = server.port
        try:
            yield self
        finally:
            self.release.set()
            await server.close()


class Load:
    """Clients on keep-alive connections. Each client sends requests without pause, or every `each_s` seconds.

    `done`: number of responses by status. `failed`: number of failures by cause. `closed`: number of connections that
    ended after a response with `Connection: close`, which is not a failure. A failure is everything except a complete
    response with the body of `Upstream.short`. A refused connection is a failure too.
    """

    def __init__(
        self, port: int, head: bytes, clients: int, *, tls: ssl.SSLContext | None = None, each_s: float = 0.0
    ) -> None:
        self.done: Counter[int] = Counter()
        self.failed: Counter[str] = Counter()
        self.closed = 0
        self._port, self._head = port, head
        self._tls_options = {"ssl": tls, "server_hostname": "gateway.example.com"} if tls else {}
        self._each_s = each_s
        self._more = True
        self._changed = asyncio.Condition()
        self._tasks = [asyncio.create_task(self._client()) for _ in range(clients)]

    @property
    def total(self) -> int:
        return self.done.total()

    async def further(self, requests: int) -> None:
        """Wait until this many more responses have arrived, or until a request has failed."""
        goal = self.total + requests
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: self.total >= goal or self.failed)

    async def stop(self) -> None:
        """Stop all clients after their outstanding responses have arrived."""
        self._more = False
        await asyncio.gather(*self._tasks)

    async def _client(self) -> None:
        while self._more:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port, **self._tls_options)
            except OSError as fault:
                self.failed[f"connecting: {type(fault).__name__}"] += 1
                await self._notify()
                return
            with suppress(OSError):
                await self._send_requests(reader, writer)
            writer.transport.abort()

    async def _send_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        due = asyncio.get_running_loop().time()
        while self._more:
            try:
                writer.write(self._head)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                body = await reader.readexactly(length)
            except (OSError, EOFError, ValueError) as fault:
                self.failed[type(fault).__name__] += 1
                return
            finally:
                await self._notify()
            self.done[int(head[9:12])] += 1
            if body != SHORT:
                self.failed[f"{head[9:12].decode()} with another body: {body[:200]!r}"] += 1
            if b"\r\nconnection: close\r\n" in head:
                self.closed += 1
                return
            if self._each_s:
                due += self._each_s
                await asyncio.sleep(due - asyncio.get_running_loop().time() + self._each_s * random.uniform(-0.5, 0.5))

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
