"""What each fault does. A function gets the request, its handler and the fault's options, all numbers."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from math import ceil
from typing import Final

from aiohttp import web

from gateway import clock

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Act = Callable[[web.Request, Handler, Mapping[str, float]], Awaitable[web.StreamResponse]]

_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER for no time at all: close(2) sends RST instead of FIN


async def late(request: web.Request, handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """Do the work, then keep the answer back: a rotated pair, say, that a hasty client never sees."""
    response = await handler(request)
    await asyncio.sleep(options["seconds"])
    return response


async def truncated(request: web.Request, handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """Declare the whole length, send a part, hang up."""
    cut = await _begun(request, handler, options["share"])
    if request.transport is not None:
        request.transport.close()
    return cut


async def reset(request: web.Request, handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """Reset the connection: before a byte of the answer, or after its head and `share` of its body if `head` is 1."""
    answer: web.StreamResponse = web.Response()
    if options["head"]:
        answer = await _begun(request, handler, options["share"])
    if request.transport is not None:
        peer: socket.socket = request.transport.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        request.transport.abort()
    return answer


async def slow_body(request: web.Request, handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """The head at once, then the body in `pieces`, evenly over `seconds`."""
    whole = await handler(request)
    body = _body(whole)
    answer = _head(whole, len(body))
    await answer.prepare(request)
    pieces = max(1, int(options["pieces"]))
    size = max(1, ceil(len(body) / pieces))
    for start in range(0, len(body), size):
        await asyncio.sleep(options["seconds"] / pieces)
        await answer.write(body[start : start + size])
    await answer.write_eof()
    return answer


async def too_many(_request: web.Request, _handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """429 with Retry-After (RFC 9110 §10.2.3), in seconds or as a date, and nothing done."""
    after_s = ceil(options["retry_after"])
    at = clock.now().timestamp() + after_s
    headers = {
        "Retry-After": formatdate(at, usegmt=True) if options["date"] else str(after_s),
        "X-RateLimit-Limit": "100",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": str(ceil(at)),
    }
    body = {"errorMessages": ["Rate limit exceeded."], "errors": {}}
    return web.json_response(body, status=429, headers=headers)


async def error(_request: web.Request, _handler: Handler, options: Mapping[str, float]) -> web.StreamResponse:
    """Another `status`, and nothing done: 503 for an outage, 401 for a token that was ended at the provider."""
    status = int(options["status"])
    return web.json_response({"errorMessages": [f"The sandbox was told to answer {status}."]}, status=status)


async def _begun(request: web.Request, handler: Handler, share: float) -> web.StreamResponse:
    """An answer of which the head and `share` of the body are on their way."""
    whole = await handler(request)
    body = _body(whole)
    answer = _head(whole, len(body))
    await answer.prepare(request)
    await answer.write(body[: int(len(body) * share)])
    return answer


def _head(whole: web.StreamResponse, length: int) -> web.StreamResponse:
    head = web.StreamResponse(status=whole.status)
    head.content_type = whole.content_type
    head.content_length = length
    return head


def _body(whole: web.StreamResponse) -> bytes:
    return whole.body if isinstance(whole, web.Response) and isinstance(whole.body, bytes) else b""
