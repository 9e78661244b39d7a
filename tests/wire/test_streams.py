"""Slow bodies: each piece is forwarded as soon as it arrives.

If the client disconnects, the provider's connection is released.
"""

import asyncio

import pytest

from tests.fakes.patience import PATIENCE_S
from tests.wire.bench import Bench, table
from tests.wire.messages import CHUNKED, request, upload
from tests.wire.recorder import RecordedRequest, turns

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = b"HTTP/1.1 200 OK\r\n"
STREAMS = table(
    ("events", b"Content-Type: text/event-stream\r\n", b"data: %d\n\n", b"no"),
    ("events with parameters", b"Content-Type: text/event-stream; charset=utf-8\r\n", b"data: %d\n\n", b"no"),
    ("lines of JSON", b"Content-Type: application/x-ndjson\r\n", b'{"n": %d}\n', None),
    ("bytes", b"Content-Type: application/octet-stream\r\n", b"piece %d", None),
)


@pytest.mark.parametrize(("fields", "piece", "buffering"), STREAMS)
async def test_each_piece_is_forwarded_before_the_next_is_sent(
    bench: Bench, fields: bytes, piece: bytes, buffering: bytes | None
) -> None:
    heard_of: asyncio.Queue[None] = asyncio.Queue()

    async def script(_heard: RecordedRequest, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + fields + CHUNKED + b"\r\n")
        for n in range(5):
            said = piece % n
            writer.write(b"%x\r\n%s\r\n" % (len(said), said))
            await heard_of.get()  # the caller has this piece, so the gateway did not buffer it
        writer.write(b"0\r\n\r\n")
        await heard_of.get()

    async with bench.talk(request(), script=script) as caller:
        head = await caller.reader.readuntil(b"\r\n\r\n")
        assert (b"X-Accel-Buffering: no" in head) == (buffering is not None) or b"ndjson" in head
        for n in range(5):
            async with asyncio.timeout(PATIENCE_S):
                await caller.reader.readuntil(piece % n + b"\r\n")
            heard_of.put_nowait(None)
        async with asyncio.timeout(PATIENCE_S):
            assert await caller.reader.readuntil(b"0\r\n\r\n") == b"0\r\n\r\n"
        heard_of.put_nowait(None)
        await bench.goes_on(caller, kept=True)
    await bench.serves_others()


async def test_a_streamed_response_is_the_same_however_it_is_split(bench: Bench) -> None:
    data = HEAD + b"Content-Type: text/event-stream\r\n" + CHUNKED + b"\r\n"
    data += b"9;a=b\r\ndata: 1\n\n\r\nA\r\ndata: 22\n\n\r\n0\r\nX-Sum: 3\r\n\r\n"
    for position in range(1, len(data)):

        async def script(
            _heard: RecordedRequest,
            _reader: asyncio.StreamReader,
            writer: asyncio.StreamWriter,
            position: int = position,
        ) -> None:
            writer.write(data[:position])
            await turns()
            writer.write(data[position:])

        response = await bench.responded(script)
        assert (response.status, response.body.data) == (200, b"data: 1\n\ndata: 22\n\n"), position


async def test_a_head_is_forwarded_before_its_body(bench: Bench) -> None:
    go = asyncio.Event()

    async def script(_heard: RecordedRequest, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 2\r\n\r\n")
        await go.wait()
        writer.write(b"ok")
        await turns()

    async with bench.talk(request(), script=script) as caller:
        async with asyncio.timeout(PATIENCE_S):
            assert (await caller.reader.readuntil(b"\r\n\r\n")).startswith(HEAD)
        go.set()
        assert await caller.reader.readexactly(2) == b"ok"
    await turns()
    await bench.serves_others()  # the provider's connection must be closed, so no other request can use it


async def test_bytes_are_forwarded_in_both_directions_at_the_same_time(bench: Bench) -> None:
    """The provider echoes an upload while it receives it."""

    async def script(_heard: RecordedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + CHUNKED + b"\r\n")
        while (line := await reader.readuntil(b"\r\n")) != b"0\r\n":
            writer.write(line + await reader.readexactly(int(line, 16) + 2))
        writer.write(b"0\r\n" + await reader.readexactly(2))
        await turns()

    async with bench.talk(upload(CHUNKED), script=script) as caller:
        async with asyncio.timeout(PATIENCE_S):
            await caller.reader.readuntil(b"\r\n\r\n")
            for n in range(5):
                await caller.send(b"7\r\nping %d\n\r\n" % n)
                echo = await caller.reader.readuntil(b"ping %d\n\r\n" % n)
                assert echo.count(b"ping") == 1, "each message is echoed before the next is sent"
            await caller.send(b"0\r\n\r\n")
            await caller.reader.readuntil(b"0\r\n\r\n")
    await bench.serves_others()


@pytest.mark.parametrize("leaves", ["closed", "reset"])
@pytest.mark.parametrize("when", ["before the head", "in the body"])
async def test_a_caller_that_disconnects_frees_the_providers_connection(bench: Bench, leaves: str, when: str) -> None:
    left = asyncio.Event()

    async def script(_heard: RecordedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if when == "in the body":
            writer.write(HEAD + b"Content-Length: 100\r\n\r\nabc")
        try:
            await reader.read()
        finally:
            left.set()

    async with bench.talk(request(), script=script) as caller:
        if when == "in the body":
            await caller.reader.readuntil(b"abc")
        while not bench.recorder.requests:
            await turns(1)
        if leaves == "closed":
            caller.writer.close()
        else:
            caller.reset()
        async with asyncio.timeout(PATIENCE_S):
            await left.wait()
    await bench.serves_others()
    abandoned, after = [received.connection for received in bench.recorder.requests]
    assert abandoned != after


async def test_a_caller_that_does_not_read_slows_the_provider_down(bench: Bench) -> None:
    """Memory is bounded: no more than a few buffers are in flight, however much the provider sends."""
    said = 0
    stuck = asyncio.Event()

    async def script(_heard: RecordedRequest, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal said
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % (1 << 30))
        while True:
            writer.write(b"x" * 65536)
            said += 65536
            drained = asyncio.ensure_future(writer.drain())
            await turns(2000 if not drained.done() else 1)
            if not drained.done():
                stuck.set()
            await drained

    async with bench.talk(request(), script=script) as caller:
        await caller.reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            await stuck.wait()
        assert said < 64 << 20
    await bench.serves_others()
