"""Bodies that a tracker would not have and a proxy must carry: events, records, sockets, and bytes of any size both ways.

All ask for an access token that works, and for no scope.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import WSMsgType, hdrs, web

from gateway import clock
from gateway.sandbox import noise
from gateway.sandbox.callers import AccessRefused, the_caller

LARGEST: Final = 1 << 40
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")


async def events(request: web.Request) -> web.StreamResponse:
    """GET …/events?count=5&interval_ms=200: server-sent events with ids; Last-Event-ID goes on behind that one."""
    the_caller(request)
    last = request.headers.get("Last-Event-ID", "")
    ticks = _ticks(request, int(last) + 1 if last.isdecimal() and last.isascii() else 0)
    answer = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"})
    await answer.prepare(request)
    async for number in ticks:
        record = json.dumps({"number": number, "at": clock.now().isoformat()})
        await answer.write(f"id: {number}\nevent: tick\ndata: {record}\n\n".encode())
    return answer


async def records(request: web.Request) -> web.StreamResponse:
    """GET …/records?count=5&interval_ms=200: as many JSON objects, one a line."""
    the_caller(request)
    ticks = _ticks(request, 0)
    answer = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "application/x-ndjson", hdrs.CACHE_CONTROL: "no-store"})
    await answer.prepare(request)
    async for number in ticks:
        await answer.write(json.dumps({"number": number, "at": clock.now().isoformat()}).encode() + b"\n")
    return answer


async def socket(request: web.Request) -> web.WebSocketResponse:
    """GET …/socket, upgraded: every message comes back as it went; subprotocol ``echo`` if it is offered (RFC 6455)."""
    the_caller(request)
    answer = web.WebSocketResponse(protocols=("echo",))
    if not answer.can_prepare(request).ok:
        raise AccessRefused(426, "This is a WebSocket: send Upgrade, Connection and Sec-WebSocket-Key.")
    await answer.prepare(request)
    async for message in answer:
        if message.type is WSMsgType.TEXT:
            await answer.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await answer.send_bytes(message.data)
    return answer


async def upload(request: web.Request) -> web.Response:
    """POST or PUT …/upload: how many bytes arrived, their SHA-256, and how they were framed; a coding is left alone."""
    the_caller(request)
    hashed, size = hashlib.sha256(), 0
    async for piece in request.content.iter_any():
        hashed.update(piece)
        size += len(piece)
    body = {
        "bytes": size,
        "sha256": hashed.hexdigest(),
        "content_length": request.content_length,
        "content_type": request.headers.get(hdrs.CONTENT_TYPE),
        "content_encoding": request.headers.get(hdrs.CONTENT_ENCODING),
    }
    return web.json_response(body)


async def download(request: web.Request) -> web.StreamResponse:
    """GET or HEAD …/download?bytes=1048576: so many, always the same, whole or by Range (RFC 9110 §14.2).

    ``coding`` (gzip, deflate, br, zstd) compresses them, ``zeros=1`` makes a bomb of that; then, and with ``chunked=1``,
    the length is not said.
    """
    the_caller(request)
    size = _number(request, "bytes", 1 << 20, LARGEST)
    coding = request.query.get("coding")
    if coding is not None and coding not in noise.CODINGS:
        raise AccessRefused(400, f"coding is one of {', '.join(noise.CODINGS)}.")
    chunked = coding is not None or request.query.get("chunked") == "1"
    start, end = (0, size) if chunked else _asked_range(request, size)
    answer = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "application/octet-stream", "ETag": f'"noise-{size}"'})
    if coding is not None:
        answer.headers[hdrs.CONTENT_ENCODING] = coding
    if not chunked:
        answer.content_length = end - start
        answer.headers[hdrs.ACCEPT_RANGES] = "bytes"
    if end - start < size:
        answer.set_status(206)
        answer.headers[hdrs.CONTENT_RANGE] = f"bytes {start}-{end - 1}/{size}"
    await answer.prepare(request)
    if request.method != hdrs.METH_HEAD:
        plain = noise.pieces(start, end, zeros=request.query.get("zeros") == "1")
        for piece in plain if coding is None else noise.coded(plain, coding):
            await answer.write(piece)
            await asyncio.sleep(0)  # a gigabyte of zeros must not keep the others waiting
    return answer


def _ticks(request: web.Request, first: int) -> AsyncIterator[int]:
    """Numbers below `count`, one each `interval_ms`, the first at once; with a count of 0 until the caller leaves."""
    count = _number(request, "count", 5, LARGEST)
    interval_s = _number(request, "interval_ms", 200, 60_000) / 1000

    async def ticking() -> AsyncIterator[int]:
        number = first
        while not count or number < count:
            yield number
            number += 1
            if not count or number < count:
                await asyncio.sleep(interval_s)

    return ticking()


def _asked_range(request: web.Request, size: int) -> tuple[int, int]:
    """First byte and the one behind the last; all where no single range is requested. Raises Refused with 416."""
    asked = _RANGE.fullmatch(request.headers.get(hdrs.RANGE, "").strip())
    if asked is None or not (asked[1] or asked[2]):
        return 0, size
    first = int(asked[1]) if asked[1] else max(0, size - int(asked[2]))
    end = min(int(asked[2]) + 1, size) if asked[1] and asked[2] else size
    if first >= end:
        raise AccessRefused(416, f"There are {size} bytes.")
    return first, end


def _number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit()) or int(text) > most:
        raise AccessRefused(400, f"{name} is a whole number up to {most}.")
    return int(text)
