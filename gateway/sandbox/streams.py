"""Streaming endpoints for tests of the proxy: events, records, WebSockets, and uploads and downloads of any size.

Each endpoint needs a valid access token, but no scope.
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
from gateway.sandbox.callers import AccessRefused, authenticated_caller

MAX_BYTES: Final = 1 << 40
MAX_DIGITS: Final = 15
_RANGE: Final = re.compile(r"bytes=([0-9]{0,15})-([0-9]{0,15})")


async def events(request: web.Request) -> web.StreamResponse:
    """Handle ``GET …/events?count=5&interval_ms=200``: send server-sent events with ids.

    With Last-Event-ID, the stream continues after the event with this id.
    """
    authenticated_caller(request)
    last_event_id = request.headers.get("Last-Event-ID", "")
    ticks = _ticks(
        request,
        int(last_event_id) + 1
        if last_event_id.isdecimal() and last_event_id.isascii() and len(last_event_id) <= MAX_DIGITS
        else 0,
    )
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream", hdrs.CACHE_CONTROL: "no-store"})
    await response.prepare(request)
    async for number in ticks:
        record = json.dumps({"number": number, "at": clock.now().isoformat()})
        await response.write(f"id: {number}\nevent: tick\ndata: {record}\n\n".encode())
    return response


async def records(request: web.Request) -> web.StreamResponse:
    """Handle ``GET …/records?count=5&interval_ms=200``: send `count` JSON objects, one per line."""
    authenticated_caller(request)
    ticks = _ticks(request, 0)
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "application/x-ndjson", hdrs.CACHE_CONTROL: "no-store"})
    await response.prepare(request)
    async for number in ticks:
        await response.write(json.dumps({"number": number, "at": clock.now().isoformat()}).encode() + b"\n")
    return response


async def socket(request: web.Request) -> web.WebSocketResponse:
    """Handle ``GET …/socket`` with an upgrade to a WebSocket (RFC 6455): send every received message back.

    The subprotocol is ``echo`` if the client offers it.
    """
    authenticated_caller(request)
    response = web.WebSocketResponse(protocols=("echo",))
    if not response.can_prepare(request).ok:
        raise AccessRefused(426, "This is a WebSocket: send Upgrade, Connection and Sec-WebSocket-Key.")
    await response.prepare(request)
    async for message in response:
        if message.type is WSMsgType.TEXT:
            await response.send_str(message.data)
        elif message.type is WSMsgType.BINARY:
            await response.send_bytes(message.data)
    return response


async def upload(request: web.Request) -> web.Response:
    """Handle ``POST …/upload`` and ``PUT …/upload``: return the number of bytes received, their SHA-256 and framing.

    A content coding of the body is not decoded.
    """
    authenticated_caller(request)
    body_hash, size = hashlib.sha256(), 0
    async for piece in request.content.iter_any():
        body_hash.update(piece)
        size += len(piece)
    body = {
        "bytes": size,
        "sha256": body_hash.hexdigest(),
        "content_length": request.content_length,
        "content_type": request.headers.get(hdrs.CONTENT_TYPE),
        "content_encoding": request.headers.get(hdrs.CONTENT_ENCODING),
    }
    return web.json_response(body)


async def download(request: web.Request) -> web.StreamResponse:
    """Handle ``GET …/download?bytes=1048576``, also with HEAD: send this number of bytes, always the same bytes.

    A Range selects a part of the bytes (RFC 9110 §14.2). ``coding`` (gzip, deflate, br or zstd) compresses the bytes;
    with ``zeros=1``, the compressed bytes are a decompression bomb. With ``coding`` or ``chunked=1``, the response has
    no Content-Length, and Range is ignored.
    """
    authenticated_caller(request)
    size = _number(request, "bytes", 1 << 20, MAX_BYTES)
    coding = request.query.get("coding")
    if coding is not None and coding not in noise.CODINGS:
        raise AccessRefused(400, f"coding must be one of {', '.join(noise.CODINGS)}.")
    chunked = coding is not None or request.query.get("chunked") == "1"
    start, end = (0, size) if chunked else _requested_range(request, size)
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "application/octet-stream", "ETag": f'"noise-{size}"'})
    if coding is not None:
        response.headers[hdrs.CONTENT_ENCODING] = coding
    if not chunked:
        response.content_length = end - start
        response.headers[hdrs.ACCEPT_RANGES] = "bytes"
    if end - start < size:
        response.set_status(206)
        response.headers[hdrs.CONTENT_RANGE] = f"bytes {start}-{end - 1}/{size}"
    await response.prepare(request)
    if request.method != hdrs.METH_HEAD:
        data_pieces = noise.pieces(start, end, zeros=request.query.get("zeros") == "1")
        for piece in data_pieces if coding is None else noise.compress(data_pieces, coding):
            await response.write(piece)
            await asyncio.sleep(0)  # let other requests run during a long download
    return response


def _ticks(request: web.Request, first_tick: int) -> AsyncIterator[int]:
    """Return the numbers from `first_tick` that are below the query parameter ``count``, one every ``interval_ms``.

    The first number comes immediately. If ``count`` is 0, the numbers never end.
    """
    count = _number(request, "count", 5, MAX_BYTES)
    interval_s = _number(request, "interval_ms", 200, 60_000) / 1000

    async def ticking() -> AsyncIterator[int]:
        number = first_tick
        while not count or number < count:
            yield number
            number += 1
            if not count or number < count:
                await asyncio.sleep(interval_s)

    return ticking()


def _requested_range(request: web.Request, size: int) -> tuple[int, int]:
    """Return the positions of the first byte of the requested range and of the byte after the range.

    Without a range, or with several ranges, return the whole body. Raises AccessRefused with 416 if the body
    has no byte in the range.
    """
    match = _RANGE.fullmatch(request.headers.get(hdrs.RANGE, "").strip())
    if match is None or not (match[1] or match[2]):
        return 0, size
    range_start = int(match[1]) if match[1] else max(0, size - int(match[2]))
    range_end = min(int(match[2]) + 1, size) if match[1] and match[2] else size
    if range_start >= range_end:
        raise AccessRefused(416, f"The body has only {size} bytes.")
    return range_start, range_end


def _number(request: web.Request, name: str, default: int, maximum: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS) or int(text) > maximum:
        raise AccessRefused(400, f"{name} must be a whole number up to {maximum}.")
    return int(text)
