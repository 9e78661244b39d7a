"""`server.limits.connections` limits the number of client connections. Clients that do not read are disconnected."""

import asyncio
import socket
from contextlib import AsyncExitStack
from importlib import import_module

import pytest
from aiohttp import web

from gateway.server.client_protocol import MAX_REFUSAL_RESPONSES
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw import dial
from tests.gateway.server.conftest import RecordingApplication, Served, served

MAX_CONNECTIONS = 3
PROXY_OPTIONS = b"GET /x HTTP/1.1\r\nHost: gw\r\n\r\n"


async def test_one_connection_too_many_is_refused_and_the_others_stay_usable(
    recording_app: RecordingApplication,
) -> None:
    server = await served(recording_app, connections=MAX_CONNECTIONS)
    async with AsyncExitStack() as around:
        around.push_async_callback(server.runner.cleanup)
        clients = [await around.enter_async_context(dial(server.port)) for _ in range(MAX_CONNECTIONS)]
        for client in clients:
            client.send(PROXY_OPTIONS)
            assert (await client.response()).status == 200
        for asked in (b"", PROXY_OPTIONS, b"POST /x HTTP/1.1\r\nHost: gw\r\nContent-Length: 9\r\n\r\nab"):
            async with dial(server.port) as late:
                late.send(asked)
                response = await late.response()
                assert (response.status, response.error["code"], response.headers["retry-after"]) == (503, "busy", "1")
                assert (response.headers["gateway-error"], response.headers["connection"]) == ("busy", "close")
                assert await late.until_closed() == b""
        for client in clients:
            client.send(PROXY_OPTIONS)
            assert (await client.response()).status == 200
        clients[0].writer.close()
        async with asyncio.timeout(PATIENCE_S):
            while server.runner.client_connections > MAX_CONNECTIONS - 1:
                await asyncio.sleep(0.01)
        async with dial(server.port) as next_one:
            next_one.send(PROXY_OPTIONS)
            assert (await next_one.response()).status == 200


async def test_connections_above_the_limit_use_no_file_descriptors(recording_app: RecordingApplication) -> None:
    """Connections above the limit are closed without a response, so that they use no file descriptors."""
    server = await served(recording_app, connections=MAX_CONNECTIONS)
    async with AsyncExitStack() as around:
        around.push_async_callback(server.runner.cleanup)
        for _ in range(MAX_CONNECTIONS):
            client = await around.enter_async_context(dial(server.port))
            client.send(PROXY_OPTIONS)
            assert (await client.response()).status == 200
        late = [await around.enter_async_context(dial(server.port)) for _ in range(100)]
        first = []
        for item in late:
            try:
                # the server has accepted the connection when it responds or closes
                first.append(await item.reader.read(1))
            except ConnectionError:
                first.append(b"")
        assert server.runner.client_connections <= MAX_CONNECTIONS + MAX_REFUSAL_RESPONSES
        assert first.count(b"H") >= MAX_REFUSAL_RESPONSES


LARGE = bytes(16 << 20)  # more than the kernel's buffers can store


UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


async def client_that_does_not_read(port: int, fields: bytes = b"") -> socket.socket:
    """Return a client that has requested the large response and does not read it."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await loop.sock_connect(sock, ("127.0.0.1", port))
    await loop.sock_sendall(sock, b"GET /large HTTP/1.1\r\nHost: gw\r\n" + fields + b"\r\n")
    return sock


async def all_of(sock: socket.socket) -> int:
    got = 0
    while piece := await asyncio.get_running_loop().sock_recv(sock, 1 << 20):
        got += len(piece)
    return got


async def wait_for_one_connection(server: Served) -> None:
    """Wait until the server has had a connection and has none any more."""
    async with asyncio.timeout(PATIENCE_S):
        while not server.runner.client_connections:
            await asyncio.sleep(0.01)
        while server.runner.client_connections:
            await asyncio.sleep(0.01)


def with_large() -> RecordingApplication:
    async def large(_request: web.Request) -> web.Response:
        return web.Response(body=LARGE)

    app = web.Application()
    app.router.add_get("/large", large)
    return RecordingApplication(app)


async def test_connection_of_a_client_that_does_not_read_the_response_is_cut() -> None:
    server = await served(with_large(), answer_idle_s=0.2, head_s=0.4)
    sock = await client_that_does_not_read(server.port)
    try:
        await wait_for_one_connection(server)
        with pytest.raises(ConnectionResetError):
            await all_of(sock)
    finally:
        sock.close()
        await server.runner.cleanup()


async def test_client_that_does_not_read_the_end_of_a_websocket_is_cut() -> None:
    async def fill(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(timeout=0.01)
        await socket.prepare(request)
        assert request.transport is not None
        while not request.transport.get_write_buffer_size():
            await socket.send_bytes(bytes(16_384))
            await asyncio.sleep(0)  # uvloop writes at the end of the loop iteration
        return socket

    app = web.Application()
    app.router.add_get("/large", fill)
    server = await served(RecordingApplication(app), answer_idle_s=0.2, head_s=0.4)
    sock = await client_that_does_not_read(server.port, UPGRADE)
    try:
        await wait_for_one_connection(server)
    finally:
        sock.close()
        await server.runner.cleanup()


async def test_connections_that_wait_for_their_clients_have_limited_memory_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connections that wait longest are closed: those with an unfinished head, and those with an unread response."""
    monkeypatch.setattr(import_module("gateway.server.runner"), "MAX_WAITING_BYTES", 100_000)
    server = await served(with_large(), head_s=PATIENCE_S)
    async with AsyncExitStack() as around:
        around.push_async_callback(server.runner.cleanup)
        sock = await client_that_does_not_read(server.port)
        around.callback(sock.close)
        quick = await around.enter_async_context(dial(server.port))
        async with asyncio.timeout(PATIENCE_S):
            while server.runner.client_connections < 2:
                await asyncio.sleep(0.01)
            while server.runner.client_connections > 1:  # the unread response is larger than the limit
                await asyncio.sleep(0.01)
        heads = []
        for _ in range(8):
            client = await around.enter_async_context(dial(server.port))
            client.send(b"GET /x HTTP/1.1\r\nHost: gw\r\nX-A: " + b"a" * 15_000)
            await asyncio.sleep(0.01)
            heads.append(client)
        for client in heads[:2]:
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await client.response()
        for client in (*heads[2:], quick):
            client.send(b"\r\n\r\n" if client is not quick else PROXY_OPTIONS)
            assert (await client.response()).status == 404


async def test_a_client_that_reads_slowly_gets_all_of_it() -> None:
    """The client reads a little every 50 ms. The whole response takes many times as long as the idle limit."""
    server = await served(with_large(), answer_idle_s=0.5, head_s=0.4)
    sock = await client_that_does_not_read(server.port)
    loop, got = asyncio.get_running_loop(), 0
    try:
        for _ in range(40):
            got += len(await loop.sock_recv(sock, 4096))
            await asyncio.sleep(0.05)
        assert server.runner.client_connections == 1
        while got < len(LARGE):
            piece = await loop.sock_recv(sock, 1 << 20)
            assert piece
            got += len(piece)
    finally:
        sock.close()
        await server.runner.cleanup()
