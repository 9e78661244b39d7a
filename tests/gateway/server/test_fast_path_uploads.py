"""Request bodies on the fast path: buffering is limited if the provider is slow, and no body is sent twice."""

import asyncio
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.egress.provider_connection import ProviderConnection
from gateway.server.client_protocol import ClientProtocol
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import OK, RawProvider, raw_provider, read_message
from tests.gateway.server.test_fast_path import NAMES, Client, dial, gateway_to_provider, port_of, warm

MIB = 1 << 20
UPLOAD_BYTES = 32 * MIB


def message(method: bytes, framing: bytes, body: bytes = b"") -> bytes:
    return method + b" /proxy/x HTTP/1.1\r\n" + NAMES + framing + b"\r\n\r\n" + body


def idle_connection(running: RunningGateway, provider: RawProvider) -> ProviderConnection:
    """Return the idle connection to the provider. The connection stays in its pool."""
    pool = running.runtime.generation.egress.pool(("http", "127.0.0.1", provider.port))
    assert pool is not None
    kept = pool.acquire_idle()
    assert kept is not None
    pool.release_unused(kept)
    return kept


def client_connection(running: RunningGateway) -> ClientProtocol:
    server = running.runner.server if running.runner is not None else None
    assert server is not None
    (found,) = [
        connection
        for connection in server.connections
        if isinstance(connection, ClientProtocol) and connection.on_fast_path
    ]
    return found


def is_reading(connection: ClientProtocol) -> bool:
    assert connection.transport is not None
    return cast("asyncio.ReadTransport", connection.transport).is_reading()


async def wait_for_fast_path(running: RunningGateway) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not running.fast_path.taken:
            await asyncio.sleep(0)


@pytest.mark.parametrize("first", [0, 200_000], ids=["head alone", "head with the first of it"])
async def test_an_upload_waits_for_a_provider_that_does_not_read(tmp_path: Path, first: int) -> None:
    """The upload must also wait if the system accepts none of the first bytes."""
    over = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(OK)
        # uvloop's transport class does not derive from asyncio's
        cast("asyncio.Transport", writer.transport).pause_reading()
        await over.wait()

    async def send_on(client: Client) -> None:
        for _ in range(UPLOAD_BYTES // 65_536):
            client.writer.write(b"x" * 65_536)
            await client.writer.drain()

    async with raw_provider(script) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        kept = idle_connection(running, provider)
        kept.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        async with dial(port_of(running)) as client:
            framing = b"Content-Length: %d" % (first + UPLOAD_BYTES)
            await client.send(message(b"POST", framing, b"x" * first))
            await wait_for_fast_path(running)
            connection, sending = client_connection(running), asyncio.create_task(send_on(client))
            async with asyncio.timeout(PATIENCE_S):
                while is_reading(connection) and not sending.done():
                    await asyncio.sleep(0.001)
            assert not is_reading(connection)
            assert kept.transport.get_write_buffer_size() < 2 * MIB
            sending.cancel()
            over.set()


async def test_an_upload_waits_where_the_one_before_is_still_unread(tmp_path: Path) -> None:
    """The provider responded before it read the previous request. Its connection is reused, but accepts no more bytes
    yet.
    """
    over = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)
        # uvloop's transport class does not derive from asyncio's
        cast("asyncio.Transport", writer.transport).pause_reading()
        await over.wait()

    async with raw_provider(script) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        kept = idle_connection(running, provider)
        kept.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        kept.pause_writing()  # as the transport does while it has unsent bytes
        async with dial(port_of(running)) as client:
            await client.send(message(b"POST", b"Content-Length: 2", b"x"))
            await wait_for_fast_path(running)
            assert not is_reading(client_connection(running))
            kept.resume_writing()
            assert is_reading(client_connection(running))
            over.set()


async def test_bytes_after_a_chunked_body_are_the_next_request(tmp_path: Path) -> None:
    """The last chunk and the next, large request arrive together."""
    async with raw_provider() as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.send(message(b"POST", b"Transfer-Encoding: chunked", b"5\r\nhello\r\n"))
            await wait_for_fast_path(running)
            large = message(b"PUT", b"Content-Length: 40000", b"z" * 40_000)
            await client.send(b"0\r\n\r\n" + large)
            assert [(await client.response()).status for _ in range(2)] == [200, 200]
        assert provider.bodies[1:] == [b"5\r\nhello\r\n0\r\n\r\n", b"z" * 40_000]


@pytest.mark.parametrize("fast_path", [True, False], ids=["fast path", "chain"])
@pytest.mark.parametrize(
    ("framing", "sent"),
    [(b"X-None: 1", 2), (b"Content-Length: 0", 2), (b"Content-Length: 2", 1)],
    ids=["no body", "0 bytes", "2 bytes"],
)
async def test_only_a_request_without_a_body_is_sent_again_on_a_new_connection(
    tmp_path: Path, fast_path: bool, framing: bytes, sent: int
) -> None:
    """If an idle connection ends without a response, only a request without a body is sent again on a new connection.

    A body of 0 bytes is none: some clients send Content-Length: 0 with each request.
    """
    arrived = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        while b"/warm" in (await read_message(reader))[0]:
            writer.write(OK)
        arrived += 1

    async with (
        raw_provider(script) as provider,
        gateway_to_provider(provider, tmp_path, fast_path=fast_path) as running,
    ):
        await warm(running)
        async with dial(port_of(running)) as client:
            body = b"xx" if framing.endswith(b"2") else b""
            response = await client.ask(message(b"OPTIONS", framing, body), method=b"OPTIONS")
        assert (response.status, response.code) == (502, "upstream_unreachable")
        assert arrived == sent


@pytest.mark.parametrize(
    ("sends", "first_bytes"), [("send_nowait", 20), ("send_with_upload", 5)], ids=["whole", "in pieces"]
)
async def test_an_upload_that_was_not_sent_is_sent_on_a_new_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sends: str, first_bytes: int
) -> None:
    """The provider's idle connection ends in the loop iteration in which a request was about to be written to it."""
    body = bytes(range(20))
    send = getattr(ProviderConnection, sends)

    def end_before_write(connection: ProviderConnection, head: bytes, *others: Any, **options: Any) -> object:
        if head.startswith(b"POST"):
            connection.transport.close()
        return send(connection, head, *others, **options)

    monkeypatch.setattr(ProviderConnection, sends, end_before_write)
    async with raw_provider() as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client, asyncio.timeout(PATIENCE_S):
            await client.send(message(b"POST", b"Content-Length: 20", body[:first_bytes]))
            while not running.fast_path.handed_over:
                await asyncio.sleep(0)
            await client.send(body[first_bytes:])
            response = await client.response(b"POST")
        assert (response.status, response.head.one("gateway-attempts")) == (200, b"1")
        assert provider.bodies[-1] == body
