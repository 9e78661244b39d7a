"""TLS in front of a PostgreSQL server without TLS: accepts libpq's SSLRequest, then forwards the bytes."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Final

SSL_REQUEST: Final = bytes.fromhex("0000000804d2162f")  # SSLRequest: PostgreSQL's manual, 55.7 "Message Formats"


@contextlib.asynccontextmanager
async def tls_proxy_before(port: int, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Yield a local port that accepts only TLS connections and forwards them to the server on `port`."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                if await reader.readexactly(len(SSL_REQUEST)) == SSL_REQUEST:
                    writer.write(b"S")
                    await writer.start_tls(context)
                    await _both_ways(reader, writer, port)
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _both_ways(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    server_reader, before = await asyncio.open_connection("127.0.0.1", port)
    copies = [asyncio.create_task(_pass(reader, before)), asyncio.create_task(_pass(server_reader, writer))]
    try:
        await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for copy in copies:
            copy.cancel()
        before.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
