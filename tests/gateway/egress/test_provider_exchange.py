"""Responses from the wire: what is forwarded byte for byte, and what is not valid HTTP."""

import asyncio
import socket
import struct

import pytest

from gateway.egress.egress_errors import EgressError
from gateway.egress.provider_exchange import ProviderResponse
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import OK, Script, raw_provider, read_message
from tests.gateway.egress.test_pool import open_egress, read_all, request_to

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok",
        HEAD + b"X: a\nY: b\r\nContent-Length: 2\r\n\r\nok",
        HEAD + b"X: a\rY: b\r\nContent-Length: 2\r\n\r\nok",
        HEAD + b"X: a\r\n folded\r\nContent-Length: 2\r\n\r\nok",
        HEAD + b"X: a\r\n\tfolded\r\nContent-Length: 2\r\n\r\nok",
        HEAD + b" X: a\r\nContent-Length: 2\r\n\r\nok",
        HEAD + b"Content-Length : 2\r\n\r\nok",
        HEAD + b"Content-Length\t: 2\r\n\r\nok",
        HEAD + b": 2\r\nContent-Length: 2\r\n\r\nok",
        HEAD + b"no colon\r\nContent-Length: 2\r\n\r\nok",
        HEAD + b"X\xe9: a\r\nContent-Length: 2\r\n\r\nok",
        *[HEAD + b"X: a%bb\r\nContent-Length: 2\r\n\r\nok" % bytes([byte]) for byte in (0, 1, 8, 11, 12, 27, 127)],
        b"HTTP/1.1 200 O\x00K\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/0.9 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"http/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        HEAD + b"Content-Length: 2, 2\r\n\r\nok",
        HEAD + b"Content-Length: +2\r\n\r\nok",
        HEAD + b"Content-Length: 0x2\r\n\r\nok",
        HEAD + b"Content-Length:\r\n\r\nok",
        HEAD + "Content-Length: ２\r\n\r\nok".encode(),
        HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n",
        CHUNKED + b" 3\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"3\nabc\r\n0\r\n\r\n",
        CHUNKED + b"3\r\nabc\n0\r\n\r\n",
        CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"2\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"f" * 16 + b"\r\nabc",
        CHUNKED + b"3;" + b"x" * 2000 + b"\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"3;a\rb\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"0\r\nno trailer\r\n\r\n",
        CHUNKED + b"0\r\n" + b"X: " + b"y" * 900 + b"\r\n" * 1 + (b"X: " + b"y" * 900 + b"\r\n") * 20 + b"\r\n",
        HEAD + b"X: y\r\n" * 300 + b"Content-Length: 2\r\n\r\nok",
        HEAD + b"X: " + b"y" * 70_000 + b"\r\n\r\n",
        HEAD + b"X: " + b"y" * 70_000,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 40 + OK,
        b"HTTP/1.1 103 Early Hints\r\n\r\nthis is none",
        b"\x15\x03\x01\x00\x02\x02\x46\r\n\r\n",
    ],
)
@pytest.mark.parametrize("drip", [False, True])
async def test_ambiguous_response_is_refused(response: bytes, drip: bool) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        half = len(response) // 2 if drip else len(response)
        writer.write(response[:half])
        await writer.drain()
        await asyncio.sleep(0)
        writer.write(response[half:])
        await reader.read()

    async with raw_provider(script) as provider, open_egress() as egress:
        with pytest.raises(EgressError) as failure:
            await read_all(await egress.send(request_to(provider)))
        await asyncio.wait_for(provider.left.wait(), PATIENCE_S)
        assert failure.value.kind == "protocol"
        assert "Invalid HTTP response from" in failure.value.message


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
async def test_a_response_may_arrive_in_pieces_of_any_size(step: int) -> None:
    response = (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 Quite \xe9 Fine\r\nX-a:1\r\nx-A: \t 2 \t\r\n"
        b"X-Latin: caf\xe9\r\nEmpty:\r\nTransfer-Encoding: Chunked\r\n\r\n"
        b'3;q="x"\r\nabc\r\n00A\r\n0123456789\r\n0\r\nTrailer: dropped\r\n\r\n'
    )

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await read_message(reader)
            for at in range(0, len(response), step):
                writer.write(response[at : at + step])
                await writer.drain()
                await asyncio.sleep(0)

    async with raw_provider(script) as provider, open_egress() as egress:
        for _ in range(2):
            exchange = await egress.send(request_to(provider))
            assert (exchange.status, exchange.reason, exchange.length) == (200, "Quite \udce9 Fine", None)
            assert exchange.headers == [
                ("X-a", "1"),
                ("x-A", "2"),
                ("X-Latin", "caf\udce9"),
                ("Empty", ""),
                ("Transfer-Encoding", "Chunked"),
            ]
            assert await read_all(exchange) == b"abc0123456789"
    assert provider.connections == 1


def send_and_close(sent: bytes, reset: bool) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(sent)
        await writer.drain()
        if reset:
            lingering = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingering)
            writer.transport.abort()

    return script


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 2",
        HEAD + b"Content-Length: 10\r\n\r\nabc",
        CHUNKED + b"3\r\nabc\r\n",
        CHUNKED + b"3\r\nabc\r\n0\r\n",
        CHUNKED + b"3\r\nab",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
async def test_truncated_response_never_ends_cleanly(sent: bytes, reset: bool) -> None:
    async with raw_provider(send_and_close(sent, reset)) as provider, open_egress() as egress:
        with pytest.raises(EgressError) as failure:
            await read_all(await egress.send(request_to(provider)))
    assert failure.value.kind in ("protocol", "unreachable")


async def test_a_body_without_framing_ends_with_the_connection() -> None:
    async with raw_provider(send_and_close(HEAD + b"\r\nabc", False)) as provider, open_egress() as egress:
        exchange = await egress.send(request_to(provider))
        assert exchange.length is None
        assert await read_all(exchange) == b"abc"


@pytest.mark.parametrize("framing", ["Content-Length: 67108864", "Transfer-Encoding: chunked"])
async def test_a_slow_reader_slows_the_provider_down(framing: str) -> None:
    sent = 0
    piece = bytes(65536)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_message(reader)
        writer.write(f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n".encode())
        for _ in range(1024):
            writer.write(piece if "Length" in framing else b"10000\r\n" + piece + b"\r\n")
            await writer.drain()
            sent += len(piece)
        if "chunked" in framing:
            writer.write(b"0\r\n\r\n")

    async with raw_provider(script) as provider, open_egress() as egress:
        exchange = await egress.send(request_to(provider))
        seen = -1
        async with asyncio.timeout(PATIENCE_S):
            while seen != sent:  # until no more is sent
                seen = sent
                for _ in range(200):
                    await asyncio.sleep(0)
        assert seen < 32 << 20  # the size of the sockets' own buffers
        assert isinstance(exchange, ProviderResponse)
        assert exchange.held_bytes < 1 << 20
        got = 0
        while part := await exchange.read():
            got += len(part)
    assert got == 67108864


async def test_after_101_the_connection_is_returned_with_the_received_bytes() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        provider.heads.append((await read_message(reader))[0])
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhel")
        await writer.drain()
        await asyncio.sleep(0)
        writer.write(b"lo")
        assert await reader.readexactly(3) == b"bye"

    class RecordingProtocol(asyncio.Protocol):
        def __init__(self) -> None:
            self.received = b""
            self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def data_received(self, data: bytes) -> None:
            self.received += data

        def connection_lost(self, exc: Exception | None) -> None:
            self.gone.set_result(None)

    async with raw_provider(script) as provider, open_egress() as egress:
        response = await egress.send(request_to(provider), upgrade="websocket")
        assert response.status == 101
        recording = RecordingProtocol()
        transport, first = response.switch(recording)  # type: ignore[attr-defined]
        response.close()
        transport.resume_reading()
        async with asyncio.timeout(PATIENCE_S):
            while first + recording.received != b"hello":
                await asyncio.sleep(0)
            transport.write(b"bye")
            await recording.gone
        transport.close()
        assert list(egress.load()) == []
    assert provider.lines()[1:] == ["Connection: Upgrade", "Upgrade: websocket"]
