"""Limits on memory, idle time and total time hold both on the fast path and in the middleware chain."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from gateway import clock as our_clock
from gateway.egress.client import Timeouts
from gateway.server.client_protocol import ClientProtocol
from tests.fakes import raw
from tests.fakes.clock import Clock
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import OK, raw_provider, read_message
from tests.gateway.server.test_fast_path import dial, gateway_to_provider, get, port_of, warm
from tests.wire.recorder import turns


def connections(running: RunningGateway) -> list[ClientProtocol]:
    server: Any = running.runner.server  # type: ignore[union-attr]
    return list(server.connections)


async def test_bytes_after_a_request_stay_limited_after_a_hand_over(tmp_path: Path) -> None:
    """The caller sends more requests without waiting. The gateway reads only a limited number of bytes ahead."""
    request_arrived, may_refuse, stuck = asyncio.Event(), asyncio.Event(), asyncio.Event()
    many, written = get(b"/proxy/behind") * 200, 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            if b"/warm" in head:
                writer.write(OK)
            elif b"/first" in head:
                request_arrived.set()
                await may_refuse.wait()
                writer.write(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")
            else:
                stuck.set()  # send no response, so that later requests wait

    async with raw_provider(script) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:

            async def send_on() -> None:
                nonlocal written
                while written < 64 << 20:
                    await client.send(many)
                    await client.writer.drain()
                    written += len(many)

            await client.send(get(b"/proxy/first"))
            await request_arrived.wait()
            (connection,) = [
                client_connection for client_connection in connections(running) if client_connection.on_fast_path
            ]
            sending = asyncio.create_task(send_on())
            async with asyncio.timeout(PATIENCE_S):
                while connection.transport.is_reading():  # type: ignore[union-attr]
                    await asyncio.sleep(0.01)
            assert connection.held_bytes < 1 << 20
            may_refuse.set()
            await stuck.wait()
            assert running.fast_path.handed_over == 1
            seen = -1
            async with asyncio.timeout(PATIENCE_S):
                while seen != written:  # wait until no more bytes move
                    seen = written
                    await asyncio.sleep(0.2)
            assert not sending.done()
            assert connection.held_bytes < 1 << 20
            assert written < 16 << 20, "the limit includes the bytes in the socket buffers"
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def test_idle_time_counts_from_the_end_of_a_late_head(tmp_path: Path, clock: Clock) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            if b"/warm" in head:
                writer.write(OK)
                continue
            clock.ahead_s += 50  # less than the 60 s allowed until the first byte
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
            began.set()
            await may_end.wait()
            writer.write(b"ok")

    async with raw_provider(late) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.send(get())
            assert b" 200 " in await client.head()
            (connection,) = [
                client_connection for client_connection in connections(running) if client_connection.on_fast_path
            ]
            connection.enforce_time_limits(our_clock.monotonic() + 30, late_if_before=0.0)
            may_end.set()
            assert await client.reader.readexactly(2) == b"ok"
        assert (running.fast_path.taken, running.fast_path.handed_over) == (1, 0)


async def test_a_caller_that_still_reads_from_the_socket_buffer_is_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller reads for 120 s in which the gateway sends no byte, and then stops."""

    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while b"/warm" in (await read_message(reader))[0]:
            writer.write(OK)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        await reader.read()

    async with raw_provider(stall) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.send(get())
            await client.reader.readuntil(b"half")
            (connection,) = [
                client_connection for client_connection in connections(running) if client_connection.on_fast_path
            ]
            held_up = [400, 300, 200, 100, 100, 100]
            with monkeypatch.context() as patch:
                patch.setattr("gateway.server.client_protocol.bytes_held_up", lambda _: held_up.pop(0))
                at = our_clock.monotonic()
                for _ in range(5):
                    connection.enforce_time_limits(at, late_if_before=0.0)
                    assert connection.on_fast_path
                    at += 40  # less than the 60 s in which a byte must move
                connection.enforce_time_limits(at, late_if_before=0.0)
            assert not connection.on_fast_path


async def test_a_caller_that_never_reads_the_end_of_its_last_response_is_cut(tmp_path: Path) -> None:
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while b"/warm" in (await read_message(reader))[0]:
            writer.write(OK)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(await pieces.get())

    async with raw_provider(script) as provider, gateway_to_provider(provider, tmp_path) as running:
        running.document["server"]["limits"] = {"answer_idle_s": 0.2, "head_s": 0.4}
        await running.restart()
        await warm(running)
        loop = asyncio.get_running_loop()
        with socket.socket() as caller:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            caller.setblocking(False)
            await loop.sock_connect(caller, ("127.0.0.1", port_of(running)))
            await loop.sock_sendall(caller, get(more=b"Connection: close\r\n"))
            async with asyncio.timeout(PATIENCE_S):
                while not running.fast_path.taken:
                    await asyncio.sleep(0)
                (connection,) = [found for found in connections(running) if found.on_fast_path]
                assert connection.transport is not None
                while not connection.transport.get_write_buffer_size():  # until the system takes no more bytes
                    pieces.put_nowait(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
                    await turns()
                pieces.put_nowait(b"0\r\n\r\n")
                while connection in connections(running):
                    await asyncio.sleep(0.01)


async def test_the_total_time_limit_continues_after_a_hand_over(tmp_path: Path, clock: Clock) -> None:
    async def tardy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            provider.heads.append(head)
            if b"/warm" in head:
                writer.write(OK)
            elif len(provider.heads) == 2:
                clock.ahead_s += 12
                writer.write(b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")
            else:
                clock.ahead_s += 9  # no response; together with the 12 s of the first attempt, more than `total_s`

    async with raw_provider(tardy) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        running.runtime.generation.egress.timeouts = Timeouts(total_s=20)
        async with dial(port_of(running)) as client, asyncio.timeout(PATIENCE_S):
            response = await client.ask(get(more=b"Retries: 1\r\n"))
        assert response.status == 504
        assert b"\r\nGateway-Error: upstream_timeout\r\n" in response.head.raw
        assert b"\r\nGateway-Attempts: 2\r\n" in response.head.raw
        assert running.fast_path.handed_over == 1


@pytest.mark.parametrize("fast_path", [True, False], ids=["fast path", "chain"])
@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"body_idle_s": 0.2}, b"The request body stalled: no byte arrived"),
        ({"upload_grace_s": 0.1, "upload_bytes_per_s": 100_000}, b"(server.limits.upload_bytes_per_s)"),
    ],
    ids=["stalled", "too slow"],
)
async def test_limits_of_gateway_yaml_end_a_slow_upload(
    tmp_path: Path, fast_path: bool, limits: dict[str, float], message: bytes
) -> None:
    async with raw_provider() as provider, gateway_to_provider(provider, tmp_path, fast_path=fast_path) as running:
        running.document["server"]["limits"] = limits
        await running.restart()
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.send(get(method=b"POST", more=b"Content-Length: 1000000\r\n"))
            response = asyncio.create_task(client.response(b"POST"))
            while not response.done():
                await client.send(b"" if "body_idle_s" in limits else b"x")
                await asyncio.wait([response], timeout=0.02)
        found = await response
        assert (found.status, message in found.body.data) == (400, True), found
        if fast_path:
            assert running.fast_path.taken == 1


@pytest.mark.parametrize("fast_path", [True, False], ids=["fast path", "chain"])
async def test_response_that_stalls_for_idle_s_of_gateway_yaml_is_cut(tmp_path: Path, fast_path: bool) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            writer.write(OK if b"/warm" in head else b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")

    async with (
        raw_provider(script) as provider,
        gateway_to_provider(provider, tmp_path, fast_path=fast_path) as running,
    ):
        running.document["egress"]["timeouts"] = {"idle_s": 0.2}
        await running.restart()
        await warm(running)
        async with raw.dial(port_of(running)) as client, asyncio.timeout(PATIENCE_S / 2):  # the default is 60 s
            client.send(get())
            received = await client.until_closed()
        assert received.startswith(b"HTTP/1.1 200 OK\r\n")
        assert received.endswith(b"\r\n\r\nhalf")
        if fast_path:
            assert running.fast_path.taken == 1
