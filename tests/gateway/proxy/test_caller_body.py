"""The body of the caller's request: framing, back-pressure, early responses, and broken uploads."""

import asyncio
import gzip
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.config import ClientLimitsConfig
from tests.fakes.patience import PATIENCE_S
from tests.fakes.proxy_end import Gateway, gateway_to, opened_at
from tests.fakes.raw_provider import raw_provider

OURS = "Host: gw\r\nAuthorization: Bearer k\r\nProvider-Config-Key: tracker\r\nConnection-Id: u1"


def framing(lines: list[str]) -> list[str]:
    return [line for line in lines if line.lower().startswith(("content-length", "transfer-encoding"))]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "GET", "QUERY"])
async def test_a_declared_length_is_kept(method: str) -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        await gateway.call("/proxy/x", "Content-Length: 5", method=method, body=b"hello")
    assert framing(provider.lines()) == ["Content-Length: 5"]
    assert provider.bodies == [b"hello"]


async def test_a_chunked_body_stays_chunked_without_its_trailers() -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        chunks = b"3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n"
        await gateway.call("/proxy/x", "Transfer-Encoding: chunked", method="POST", body=chunks)
    assert framing(provider.lines()) == ["Transfer-Encoding: chunked"]
    assert provider.bodies[0].endswith(b"\r\n0\r\n\r\n")
    assert b"abc" in provider.bodies[0]
    assert b"de" in provider.bodies[0]


@pytest.mark.parametrize(
    ("method", "lines", "expected"),
    [
        ("GET", (), []),
        ("DELETE", (), []),
        ("POST", (), ["Content-Length: 0"]),
        ("POST", ("Content-Length: 0",), ["Content-Length: 0"]),
        ("DELETE", ("Content-Length: 0",), ["Content-Length: 0"]),
    ],
)
async def test_framing_of_a_request_without_body_is_kept(
    method: str, lines: tuple[str, ...], expected: list[str]
) -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        assert (await gateway.call("/proxy/x", *lines, method=method)).endswith(b"ok")
    assert framing(provider.lines()) == expected


async def test_an_upload_with_a_content_coding_is_sent_unchanged() -> None:
    coded = gzip.compress(b"plain")
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        lines = (f"Content-Length: {len(coded)}", "Content-Encoding: gzip")
        await gateway.call("/proxy/x", *lines, method="POST", body=coded)
    assert provider.bodies == [coded]
    assert "Content-Encoding: gzip" in provider.lines()


async def test_an_upload_that_the_runner_decompressed_is_sent_plain_with_new_framing() -> None:
    coded = gzip.compress(b"plain")
    async with (
        raw_provider() as provider,
        gateway_to(opened_at(provider.port), runner_options={"auto_decompress": True}) as gateway,
    ):
        lines = (f"Content-Length: {len(coded)}", "Content-Encoding: gzip")
        response = await gateway.call("/proxy/x", *lines, method="POST", body=coded)
    assert response.endswith(b"ok")
    assert framing(provider.lines()) == ["Transfer-Encoding: chunked"]
    assert not any(line.startswith("Content-Encoding") for line in provider.lines())
    assert provider.bodies == [b"5\r\nplain\r\n0\r\n\r\n"]


@web.middleware
async def reads_the_body(request: web.Request, handler: Handler) -> web.StreamResponse:
    await request.read()
    return await handler(request)


@pytest.mark.parametrize("inflates", [False, True], ids=["as sent", "decompressed"])
async def test_an_upload_that_a_middleware_of_the_host_application_has_read_is_sent(inflates: bool) -> None:
    plain, coded = b"x" * 100_000, gzip.compress(b"y" * 100_000)
    async with (
        raw_provider() as provider,
        gateway_to(
            opened_at(provider.port),
            under="/gateway",
            host_middlewares=[reads_the_body],
            runner_options={"auto_decompress": inflates},
        ) as gateway,
    ):
        for body, lines in (
            (plain, [f"Content-Length: {len(plain)}"]),
            (b"5\r\nhello\r\n0\r\n\r\n", ["Transfer-Encoding: chunked"]),
            (coded, [f"Content-Length: {len(coded)}", "Content-Encoding: gzip"]),
        ):
            assert (await gateway.call("/gateway/proxy/x", *lines, method="POST", body=body)).endswith(b"ok")
    inflated = b"186a0\r\n" + b"y" * 100_000 + b"\r\n0\r\n\r\n"
    assert provider.bodies == [plain, b"5\r\nhello\r\n0\r\n\r\n", inflated if inflates else coded]


@web.middleware
async def reads_the_stream(request: web.Request, handler: Handler) -> web.StreamResponse:
    async for _ in request.content.iter_any():
        pass
    return await handler(request)


@pytest.mark.parametrize(
    ("framing", "body"),
    [("Content-Length: 5", b"hello"), ("Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n")],
    ids=["a length", "chunks"],
)
async def test_an_upload_that_the_host_application_has_read_as_a_stream_is_not_sent_empty(
    framing: str, body: bytes
) -> None:
    async with (
        raw_provider() as provider,
        gateway_to(opened_at(provider.port), under="/gateway", host_middlewares=[reads_the_stream]) as gateway,
    ):
        response = await gateway.call("/gateway/proxy/x", framing, method="POST", body=body)
    assert response.startswith(b"HTTP/1.1 500")
    assert provider.heads == []


async def test_a_response_before_the_end_of_the_upload_passes_immediately() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await reader.read()

    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(f"POST /proxy/x HTTP/1.1\r\n{OURS}\r\nContent-Length: 1000000\r\n\r\nsome".encode())
        head = await asyncio.wait_for(reader.readuntil(b"big"), PATIENCE_S)
        writer.close()
        await asyncio.wait_for(provider.left.wait(), PATIENCE_S)
    assert head.startswith(b"HTTP/1.1 413 Too Large\r\n")


async def test_bytes_flow_both_ways_at_the_same_time() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while (line := await reader.readline()) != b"0\r\n":
            writer.write(line + await reader.readline())
        writer.write(b"0\r\n\r\n")

    async with raw_provider(echo) as provider, gateway_to(opened_at(provider.port)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(f"POST /proxy/x HTTP/1.1\r\n{OURS}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        for word in (b"one", b"two"):
            writer.write(b"3\r\n" + word + b"\r\n")
            assert await asyncio.wait_for(reader.readuntil(word + b"\r\n"), PATIENCE_S) == b"3\r\n" + word + b"\r\n"
        writer.write(b"0\r\n\r\n")
        assert await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), PATIENCE_S)
        writer.close()


@pytest.mark.parametrize("frame", ["Content-Length: 100", "Transfer-Encoding: chunked"])
async def test_a_cut_upload_never_looks_complete_to_the_provider(frame: str) -> None:
    got: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        got.append(await reader.readuntil(b"abc"))
        started.set()
        try:
            got.append(await reader.read())
        except ConnectionError:
            got.append(b"")

    started = asyncio.Event()
    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        piece = b"abc" if "Length" in frame else b"3\r\nabc\r\n"
        writer.write(f"POST /proxy/x HTTP/1.1\r\n{OURS}\r\n{frame}\r\n\r\n".encode() + piece)
        await started.wait()
        writer.close()
        await asyncio.wait_for(provider.left.wait(), PATIENCE_S)
    assert b"0\r\n\r\n" not in got[-1]


async def test_a_badly_framed_upload_is_refused_and_aborted_upstream() -> None:
    got: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readuntil(b"abc"))
        started.set()
        try:
            got.append(await reader.read())
        except ConnectionError:
            got.append(b"")

    started = asyncio.Event()
    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(f"POST /proxy/x HTTP/1.1\r\n{OURS}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n".encode())
        await started.wait()
        writer.write(b"zz\r\n")
        response = await asyncio.wait_for(reader.read(), PATIENCE_S)
        writer.close()
        await asyncio.wait_for(provider.left.wait(), PATIENCE_S)
    assert b"0\r\n\r\n" not in got[-1]
    assert response == b"" or b"bad_framing" in response


async def test_a_caller_who_stops_sending_gets_an_error_that_says_so() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        raw_provider(script) as provider,
        gateway_to(
            opened_at(provider.port),
            limits=ClientLimitsConfig(body_idle_s=0.2),
            # the host application's runner waits 10 s for the rest of the body before it closes the connection
            runner_options={"lingering_time": 0.1},
        ) as gateway,
    ):
        response = await gateway.call("/proxy/x", "Content-Length: 9", method="POST", body=b"half")
    assert response.startswith(b"HTTP/1.1 400")
    assert b"The request body stalled: no byte arrived" in response


async def send_slowly(limits: ClientLimitsConfig, framing: str, pieces: int) -> bytes:
    """Send one byte every 20 ms, and return the response. The provider reads the whole body before it responds."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end = b"0\r\n\r\n" if "chunked" in framing else b"x" * pieces
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(end)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    one, end = (b"1\r\nx\r\n", b"0\r\n\r\n") if "chunked" in framing else (b"x", b"")
    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port), limits=limits) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(f"POST /proxy/x HTTP/1.1\r\n{OURS}\r\n{framing}\r\n\r\n".encode())
        response = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
        for _ in range(pieces):
            if response.done():
                break
            writer.write(one)
            await asyncio.wait([response], timeout=0.02)
        if not response.done():
            writer.write(end)
        try:
            return await asyncio.wait_for(response, PATIENCE_S)
        finally:
            writer.close()


@pytest.mark.parametrize("framing", ["Content-Length: 60", "Transfer-Encoding: chunked"])
async def test_an_upload_below_the_minimum_rate_is_refused(framing: str) -> None:
    response = await send_slowly(ClientLimitsConfig(upload_grace_s=0.1, upload_bytes_per_s=10_000), framing, 60)
    assert response.startswith(b"HTTP/1.1 400")
    assert b"Gateway-Error: invalid_body" in response


@pytest.mark.parametrize("framing", ["Content-Length: 60", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize(
    "limits",
    [
        ClientLimitsConfig(),
        ClientLimitsConfig(upload_grace_s=0.1, upload_bytes_per_s=0),
        ClientLimitsConfig(upload_grace_s=0.1, upload_bytes_per_s=1),
    ],
    ids=["within the grace", "no floor", "above the floor"],
)
async def test_a_slow_upload_above_the_minimum_rate_arrives(limits: ClientLimitsConfig, framing: str) -> None:
    assert (await send_slowly(limits, framing, 20)).startswith(b"HTTP/1.1 200")


async def test_slow_provider_does_not_count_against_the_callers_time_limit() -> None:
    """The upload stalls because the provider does not read. The caller has sent as much as it can, so it gets no
    timeout.
    """
    whole, begin = 64 << 20, asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await begin.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(whole)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    limits = ClientLimitsConfig(body_idle_s=1.0, upload_grace_s=1.0, upload_bytes_per_s=100_000)
    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port), limits=limits) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(f"POST /proxy/x HTTP/1.1\r\n{OURS}\r\nContent-Length: {whole}\r\n\r\n".encode())
        sending = asyncio.create_task(_send_body(writer, whole))
        await asyncio.wait([sending], timeout=2.5)
        assert not sending.done()
        begin.set()
        response = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        await sending
        writer.close()
    assert response.startswith(b"HTTP/1.1 200")


async def _send_body(writer: asyncio.StreamWriter, size: int) -> None:
    block = bytes(1 << 16)
    for _ in range(size // len(block)):
        writer.write(block)
        await writer.drain()


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def _download_size(gateway: Gateway, size: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(f"GET /proxy/x HTTP/1.1\r\nConnection: close\r\n{OURS}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    got = 0
    while piece := await reader.read(1 << 18):
        got += len(piece)
    writer.close()
    return got


@pytest.mark.heavy
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
async def test_64_mib_in_both_directions_are_not_buffered() -> None:
    size, block = 64 << 20, bytes(1 << 16)
    taken = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        head = await reader.readuntil(b"\r\n\r\n")
        while head.startswith(b"POST") and taken < size:
            taken += len(await reader.read(1 << 18))
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        for _ in range(size // len(block)):
            writer.write(block)
            await writer.drain()

    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        before = rss_bytes()
        assert await _download_size(gateway, size) == size
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(f"POST /proxy/x HTTP/1.1\r\n{OURS}\r\nContent-Length: {size}\r\n\r\n".encode())
        for _ in range(size // len(block)):
            writer.write(block)
            await writer.drain()
        await reader.readuntil(b"\r\n\r\n")
        writer.close()
        grown = rss_bytes() - before
    assert taken == size
    assert grown < 32 << 20


async def test_a_slow_caller_slows_the_provider_down() -> None:
    written = 0
    stuck = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        try:
            while True:
                writer.write(bytes(1 << 16))
                async with asyncio.timeout(0.5):
                    await writer.drain()
                written += 1 << 16
        except TimeoutError:
            stuck.set()

    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1 << 10)
        writer.write(f"GET /proxy/x HTTP/1.1\r\n{OURS}\r\n\r\n".encode())
        await asyncio.wait_for(stuck.wait(), PATIENCE_S)
        writer.close()
        del reader
    assert written < 64 << 20
