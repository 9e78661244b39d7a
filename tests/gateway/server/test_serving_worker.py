"""`gateway.server.serving_worker` on both event loops: it accepts connections in batches, and loses no connection.

This also holds when the worker stops or has no more file descriptors.
"""

import asyncio
import errno
import os
import select
import socket
import sys
from collections.abc import Iterator

import pytest
from aiohttp import ClientSession, web

from gateway.process.sockets import listen
from gateway.server import serving_worker
from gateway.server.serving_worker import MAX_ACCEPTED, BatchSite
from tests.fakes.patience import PATIENCE_S

WAITING = 300


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with listen("127.0.0.1", 0, "server.port") as sock:
        yield sock


def clients(listener: socket.socket, count: int) -> list[socket.socket]:
    return [socket.create_connection(listener.getsockname()) for _ in range(count)]


async def ok(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def running() -> web.AppRunner:
    app = web.Application()
    app.router.add_get("/", ok)
    runner = web.AppRunner(app)
    await runner.setup()
    return runner


async def test_connections_that_wait_are_accepted_in_batches(listener: socket.socket) -> None:
    waiting = clients(listener, WAITING)
    runner = await running()
    assert runner.server is not None
    turns = 0
    await BatchSite(runner, listener).start()
    async with asyncio.timeout(PATIENCE_S):
        while len(runner.server.connections) < WAITING:
            await asyncio.sleep(0)
            turns += 1
            assert turns < WAITING / 2
    assert turns >= WAITING / MAX_ACCEPTED  # a worker leaves a part of a burst to other workers
    await runner.cleanup()
    for client in waiting:
        client.close()


async def test_a_connection_accepted_before_the_stop_gets_its_protocol(listener: socket.socket) -> None:
    waiting = clients(listener, 3)
    address = listener.getsockname()
    runner = await running()
    assert runner.server is not None
    site = BatchSite(runner, listener)
    await site.start()
    async with asyncio.timeout(PATIENCE_S):
        while somebody_waits(listener):
            await asyncio.sleep(0)
    await site.stop()
    assert len(runner.server.connections) == 3
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    await runner.cleanup()
    for client in waiting:
        client.close()


async def test_requests_that_wait_to_be_accepted_at_the_stop_get_responses(listener: socket.socket) -> None:
    runner = await running()
    site = BatchSite(runner, listener)
    await site.start()
    # the event loop does not run in this call, so nothing accepts the connections yet
    waiting = clients(listener, 3 * MAX_ACCEPTED)
    for client in waiting:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        client.settimeout(PATIENCE_S)
    await site.stop()
    listener.close()
    received = await asyncio.gather(*(asyncio.to_thread(begin, client) for client in waiting))
    await runner.cleanup()
    assert set(received) == {b"HTTP/1.1 200"}


class ConnectedToLate(socket.socket):
    """A listening socket. `late` connects to it at the moment when no more connections wait."""

    late: socket.socket

    def accept(self) -> tuple[socket.socket, object]:
        try:
            return super().accept()
        except BlockingIOError:
            self.late.connect_ex(self.getsockname())
            raise


@pytest.mark.skipif(sys.platform != "linux", reason="a socket filter of Linux")
async def test_no_connection_is_made_between_the_last_accept_and_the_close(listener: socket.socket) -> None:
    """The kernel would reset such a connection, and load balancers do not repeat a POST after a reset."""
    runner = await running()
    waiting = clients(listener, 3)
    with ConnectedToLate(fileno=os.dup(listener.fileno())) as closing, socket.socket() as late:
        late.setblocking(False)
        closing.setblocking(False)
        closing.late = late
        site = BatchSite(runner, closing)
        await site.start()
        site.close_ends_listening = True
        await site.stop()
        with pytest.raises(OSError, match="not connected"):
            late.getpeername()
    received = []
    for client in waiting:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        client.settimeout(PATIENCE_S)
        received.append(await asyncio.to_thread(begin, client))
    await runner.cleanup()
    assert set(received) == {b"HTTP/1.1 200"}


def begin(client: socket.socket) -> bytes:
    """Return the first bytes of the response, or the text of the error."""
    with client:
        try:
            return client.recv(12)
        except OSError as fault:
            return repr(fault).encode()


def somebody_waits(listener: socket.socket) -> bool:
    """Return whether a connection waits to be accepted."""
    return bool(select.select([listener], [], [], 0)[0])


class SocketWithoutDescriptors(socket.socket):
    """A socket with a first `accept` that fails, because no file descriptors are left."""

    refused = 0

    def accept(self) -> tuple[socket.socket, object]:
        if not self.refused:
            self.refused += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


async def test_worker_accepts_connections_once_descriptors_are_free_again(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving_worker, "PAUSE_S", 0.01)
    runner = await running()
    with SocketWithoutDescriptors(fileno=os.dup(listener.fileno())) as exhausted:
        exhausted.setblocking(False)
        site = BatchSite(runner, exhausted)
        await site.start()
        async with asyncio.timeout(PATIENCE_S), ClientSession() as session, session.get(site.name) as response:
            assert await response.text() == "ok"
        assert exhausted.refused == 1
        await runner.cleanup()
    assert "connections_not_accepted" in capsys.readouterr().out


async def test_small_responses_are_sent_immediately(listener: socket.socket) -> None:
    """Without TCP_NODELAY, a response in two parts would wait for the client's acknowledgement of the first."""
    runner = await running()
    assert runner.server is not None
    [client] = clients(listener, 1)
    await BatchSite(runner, listener).start()
    async with asyncio.timeout(PATIENCE_S):
        while not runner.server.connections:
            await asyncio.sleep(0)
    transport = runner.server.connections[0].transport
    assert transport is not None
    assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    await runner.cleanup()
    client.close()
