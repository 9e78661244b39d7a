"""The sandbox's other paths: events, records, sockets, and bodies of any size."""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import brotli
import pytest
import zstandard

from gateway.sandbox import noise
from tests.gateway.sandbox.conftest import Application

UNDO = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "br": brotli.decompress,
    "zstd": lambda coded: zstandard.ZstdDecompressor().decompressobj().decompress(coded),
}


@pytest.fixture
async def caller(application: Application) -> AsyncIterator["Caller"]:
    token = (await application.connect())["access_token"]
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}, auto_decompress=False) as session:
        yield Caller(session, f"{application.base}/streams")


class Caller:
    """A client with an access token that does not decode responses."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session = session
        self.base = base

    async def body(self, path: str, **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
        async with self.session.get(f"{self.base}/{path}", headers=headers) as response:
            return response, await response.read()


async def test_events_come_one_by_one(caller: Caller) -> None:
    async with caller.session.get(f"{caller.base}/events?count=0&interval_ms=5") as response:
        assert response.content_type == "text/event-stream"
        for number in range(3):
            assert await response.content.readline() == f"id: {number}\n".encode()
            assert await response.content.readline() == b"event: tick\n"
            data = (await response.content.readline()).removeprefix(b"data: ")
            assert json.loads(data)["number"] == number
            assert await response.content.readline() == b"\n"


async def test_events_continue_after_the_last_event_id(caller: Caller) -> None:
    _, body = await caller.body("events?count=4&interval_ms=0", **{"Last-Event-ID": "1"})
    assert [line for line in body.splitlines() if line.startswith(b"id:")] == [b"id: 2", b"id: 3"]


async def test_records_are_lines_of_json(caller: Caller) -> None:
    response, body = await caller.body("records?count=3&interval_ms=0")
    assert response.content_type == "application/x-ndjson"
    assert [json.loads(line)["number"] for line in body.splitlines()] == [0, 1, 2]


async def test_socket_echoes_messages(caller: Caller) -> None:
    async with caller.session.ws_connect(f"{caller.base}/socket", protocols=["other", "echo"]) as socket:
        assert socket.protocol == "echo"
        await socket.send_str("grüße")
        assert await socket.receive_str() == "grüße"
        await socket.send_bytes(b"\x00\xff")
        assert await socket.receive_bytes() == b"\x00\xff"


async def test_a_websocket_needs_an_upgrade(caller: Caller) -> None:
    assert (await caller.body("socket"))[0].status == 426


@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_an_upload_is_counted_and_digested(caller: Caller, method: str, framing: str) -> None:
    sent = os.urandom(1_000_000)

    async def pieces() -> AsyncIterator[bytes]:
        yield sent[:1000]
        yield sent[1000:]

    body: Any = sent if framing == "length" else pieces()
    async with caller.session.request(method, f"{caller.base}/upload", data=body) as response:
        body = await response.json()
    assert body["bytes"] == len(sent)
    assert body["sha256"] == hashlib.sha256(sent).hexdigest()
    assert body["content_length"] == (len(sent) if framing == "length" else None)


async def test_a_compressed_upload_is_not_decoded(caller: Caller) -> None:
    coded = gzip.compress(b"x" * 1000)
    headers = {"Content-Encoding": "gzip", "Content-Type": "text/plain"}
    async with caller.session.post(f"{caller.base}/upload", data=coded, headers=headers) as response:
        body = await response.json()
    assert body["sha256"] == hashlib.sha256(coded).hexdigest()
    assert (body["content_encoding"], body["content_type"]) == ("gzip", "text/plain")


@pytest.mark.parametrize("size", [0, 1, noise.BLOCK_BYTES, 3 * noise.BLOCK_BYTES + 17])
async def test_a_download_is_the_same_each_time(caller: Caller, size: int) -> None:
    response, body = await caller.body(f"download?bytes={size}")
    assert response.headers["Content-Length"] == str(size)
    assert hashlib.sha256(body).hexdigest() == noise.digest(size)
    response, again = await caller.body(f"download?bytes={size}&chunked=1")
    assert "Content-Length" not in response.headers
    assert again == body


async def test_head_returns_the_length_of_a_download(caller: Caller) -> None:
    async with caller.session.head(f"{caller.base}/download?bytes=12345") as response:
        assert response.headers["Content-Length"] == "12345"


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=65530-65545", 65530, 65546),
        ("bytes=99990-", 99990, 100000),
        ("bytes=-5", 99995, 100000),
    ],
)
async def test_a_range_returns_that_part_of_the_download(caller: Caller, asked: str, first: int, end: int) -> None:
    _, whole = await caller.body("download?bytes=100000")
    response, part = await caller.body("download?bytes=100000", Range=asked)
    assert response.status == 206
    assert response.headers["Content-Range"] == f"bytes {first}-{end - 1}/100000"
    assert part == whole[first:end]


async def test_a_range_after_the_end_is_416(caller: Caller) -> None:
    assert (await caller.body("download?bytes=10", Range="bytes=10-20"))[0].status == 416


@pytest.mark.parametrize("coding", noise.CODINGS)
async def test_a_compressed_download_decodes_to_the_same_bytes(caller: Caller, coding: str) -> None:
    response, coded = await caller.body(f"download?bytes=200000&coding={coding}")
    assert response.headers["Content-Encoding"] == coding
    assert hashlib.sha256(UNDO[coding](coded)).hexdigest() == noise.digest(200000)


@pytest.mark.parametrize("coding", noise.CODINGS)
async def test_compressed_zeros_are_a_decompression_bomb(caller: Caller, coding: str) -> None:
    _, coded = await caller.body(f"download?bytes=5000000&zeros=1&coding={coding}")
    assert len(coded) * 100 < 5_000_000
    assert UNDO[coding](coded) == bytes(5_000_000)


@pytest.mark.parametrize(
    "path",
    ["download?bytes=many", "download?bytes=-1", f"download?bytes={1 << 41}", "download?coding=lzma", "events?count=²"],
)
async def test_an_invalid_request_is_refused(caller: Caller, path: str) -> None:
    assert (await caller.body(path))[0].status == 400


@pytest.mark.parametrize("path", ["events", "records", "socket", "download", "upload"])
async def test_streams_need_a_token(application: Application, path: str) -> None:
    method = "POST" if path == "upload" else "GET"
    async with application.browser.request(method, f"{application.base}/streams/{path}") as response:
        assert response.status == 401
