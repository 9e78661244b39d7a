"""A provider on a bare socket: it records the received bytes, and sends the responses that a test defines."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gateway.process.sockets import BACKLOG

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class RawProvider:
    """A provider on a bare socket.

    `heads`: the request heads as received. `bodies`: the body that belongs to each head. `connections`: number of
    accepted connections. `left`: set when a connection has ended.
    """

    port: int = 0
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lines(self, index: int = -1) -> list[str]:
        """Return the header lines of one request, in the order in which they were sent."""
        return self.heads[index].decode("latin-1").split("\r\n")[1:-2]

    def request_line(self, index: int = -1) -> str:
        return self.heads[index].decode("latin-1").split("\r\n")[0]


async def read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return head and body. The body keeps its framing. Raises IncompleteReadError at the end of the stream."""
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        return head, await reader.readuntil(b"0\r\n\r\n")
    if b"content-length: " in lower:
        length = int(lower.split(b"content-length: ")[1].split(b"\r\n")[0])
        return head, await reader.readexactly(length)
    return head, b""


@asynccontextmanager
async def raw_provider(response: bytes | Script = OK, *, close: bool = False) -> AsyncIterator[RawProvider]:
    """Respond to each request with these bytes, or pass each connection to a script. `close`: after one response."""
    provider = RawProvider()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        provider.connections += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            if callable(response):
                await response(reader, writer)
                return
            while True:
                head, body = await read_message(reader)
                provider.heads.append(head)
                provider.bodies.append(body)
                writer.write(response)
                await writer.drain()
                if close:
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the gateway closed the connection, or the test is over
        finally:
            provider.left.set()
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20, backlog=BACKLOG)
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
