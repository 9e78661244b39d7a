"""Handles the request as an HTTP message: refuses ambiguous heads, sends 100 Continue, reads bodies within limits."""

import asyncio
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

from aiohttp import HttpVersion11, hdrs, web

from gateway import clock
from gateway.config import ClientLimitsConfig
from gateway.errors import BodyTooLarge, InvalidRequest, Unavailable, UnsupportedMediaType
from gateway.http.request_head import check_head
from gateway.middleware.chain import Handler
from gateway.runtime import RUNTIME, generation_of
from gateway.text import counted

# ── Refuses messages that the parser accepts, but that another HTTP parser could read differently (RFC 9112 §11.2).

# The attribute by which a protocol class says that it calls `check_head` itself, before the chain runs.
HEADS_CHECKED: Final = "checks_heads"


@web.middleware
async def strict(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Check the head, and replace a target in absolute form with its path and query.

    Raises the errors of `check_head`; each of these errors closes the client's connection.
    """
    if not getattr(request.protocol, HEADS_CHECKED, False):
        target = check_head(request.method, request.raw_path, request.version, request.headers)
        if target != request.raw_path:
            # `Request.clone` would quote the target again; this assignment keeps the bytes for code that reads
            # raw_path.
            request._message = request._message._replace(path=target)
            request._cache.pop("raw_path", None)
    return await handler(request)


# ── `Expect: 100-continue`: 100 Continue is sent only when the request will be accepted (RFC 9110 §10.1.1).


async def no_early_continue(_request: web.Request) -> None:
    """Do nothing. Replaces aiohttp's handler for Expect, which sends 100 Continue before the key is checked."""


@web.middleware
async def invite_body(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Send 100 Continue, as the last link of a chain. A request that reaches the last link is accepted."""
    if hdrs.EXPECT in request.headers:
        await send_continue(request)
    return await handler(request)


async def send_continue(request: web.Request) -> None:
    """Send 100 Continue if the client waits for it and no part of the body has arrived.

    So a second call, after the body was read, sends nothing. A request whose body is known to be empty gets none.
    """
    expect = request.headers.get(hdrs.EXPECT, "")
    if expect.strip().lower() != "100-continue" or request.version != HttpVersion11:
        return
    if request.content.total_bytes or request.content.is_eof():
        return
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # an interim response does not count as output (RFC 9110 §15.2)


# ── Reads a whole body: within a size limit, without long pauses, and at least at the rate of a slow mobile connection.
#
# All bodies that the gateway itself reads are read here: JSON, forms and webhooks.

DEFAULT_LIMITS: Final = ClientLimitsConfig()
RETRY_AFTER_S: Final = 5


class ArrivingBody:
    """A body that is being read.

    `size`: received bytes. `refused`: whether the body is given up, because all bodies together need too much memory.
    `timer`: the time limit of the present read; None between two reads.
    """

    __slots__ = ("refused", "size", "timer")

    def __init__(self) -> None:
        self.size = 0
        self.refused = False
        self.timer: asyncio.Timeout | None = None

    def refuse(self) -> None:
        """Refuse the body. A read that waits for more bytes ends immediately."""
        self.refused = True
        if self.timer is not None and not self.timer.expired():
            self.timer.reschedule(asyncio.get_running_loop().time())


class ArrivingBodies:
    """Limits the memory of all bodies that have not arrived completely.

    Most of these requests are not identified yet: anybody can send them. Above the limit, the body that began first is
    refused, so bodies that stall cannot block others. `size`: received bytes of all these bodies.
    """

    def __init__(self, max_bytes: int) -> None:
        self.size = 0
        self._max_bytes = max_bytes
        self._bodies: dict[ArrivingBody, None] = {}  # in the order in which they began

    @contextmanager
    def begin(self) -> Iterator[ArrivingBody]:
        """Count a body until the context ends."""
        body = ArrivingBody()
        self._bodies[body] = None
        try:
            yield body
        finally:
            self._end(body)

    def add(self, body: ArrivingBody, size: int) -> None:
        """Count `size` more bytes of `body`. Raises Unavailable if this body is refused."""
        if not body.refused:
            body.size += size
            self.size += size
        while self.size > self._max_bytes:
            oldest = next(iter(self._bodies))
            self._end(oldest)
            oldest.refuse()
        if body.refused:
            raise bodies_full_error()

    def _end(self, body: ArrivingBody) -> None:
        if body in self._bodies:
            del self._bodies[body]
            self.size -= body.size


ARRIVING_BODIES: Final = ArrivingBodies(256 << 20)
"""The bodies that arrive in this process. A body for the gateway itself has at most some megabytes."""


def bodies_full_error() -> Unavailable:
    return Unavailable(
        "busy",
        f"Too many request bodies arrive at the same time. Send the request again in {RETRY_AFTER_S} s.",
        retry_after_s=RETRY_AFTER_S,
        close=True,
    )


async def read_limited_body(request: web.Request, limit_bytes: int, detail: str) -> None:
    """Read the whole body, so that `request.read()` returns the body immediately.

    The body size limit of a host application does not apply. `limit_bytes`: the maximum size. `detail`: the message of
    the error for a larger body. Raises BodyTooLarge, InvalidRequest, and Unavailable if the bodies of all requests need
    too much memory.
    """
    if (request.content_length or 0) > limit_bytes:
        raise BodyTooLarge("body_too_large", detail, close=True)
    await send_continue(request)
    # `_read_bytes` is the attribute where `BaseRequest.read` keeps the body. A middleware of a host application may have
    # read it.
    if request._read_bytes is None and request.content.is_eof():  # the whole body has arrived
        request._read_bytes = request.content.read_nowait()
    if request._read_bytes is not None:
        if len(request._read_bytes) > limit_bytes:
            raise BodyTooLarge("body_too_large", detail, close=True)
        return
    limits = limits_of(request)
    began_at = clock.monotonic()
    body_so_far = bytearray()
    with ARRIVING_BODIES.begin() as arriving:
        while piece := await _next_piece(request, limits, began_at, arriving):
            body_so_far += piece
            if len(body_so_far) > limit_bytes:
                raise BodyTooLarge("body_too_large", detail, close=True)
            ARRIVING_BODIES.add(arriving, len(piece))
    request._read_bytes = bytes(body_so_far)


def limits_of(request: web.Request) -> ClientLimitsConfig:
    """Return `server.limits`, or the defaults in an application without the gateway's runtime."""
    return generation_of(request).config.server.limits if RUNTIME in request.app else DEFAULT_LIMITS


async def _next_piece(
    request: web.Request, limits: ClientLimitsConfig, began_at: float, arriving: ArrivingBody
) -> bytes:
    now, received = clock.monotonic(), arriving.size
    deadline = now + limits.body_idle_s
    if limits.body_bytes_per_s:
        deadline = min(deadline, began_at + max(limits.body_grace_s, received / limits.body_bytes_per_s))
    try:
        async with asyncio.timeout(deadline - now) as arriving.timer:
            return await request.content.readany()
    except TimeoutError:
        if arriving.refused:
            raise bodies_full_error() from None
        spent_s = clock.monotonic() - began_at
        raise InvalidRequest(
            "invalid_body",
            f"The request body arrived too slowly: {counted(received, 'byte')} in {spent_s:.0f} s.",
            close=True,
        ) from None
    finally:
        arriving.timer = None


# ── Another runner than the gateway's can decompress bodies before the gateway sees them.

_INFLATED_CODINGS: Final = frozenset({"gzip", "deflate", "br", "zstd"})
_inflates_by_server: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def arrives_inflated(request: web.Request) -> bool:
    """Return whether the runner has decompressed the body, although Content-Encoding still names the coding.

    The runner of an application that mounts the gateway can decompress bodies, but a request does not show this. So
    this function lets a parser of that runner parse a test message.
    """
    if not request.body_exists or request.headers.get(hdrs.CONTENT_ENCODING, "").lower() not in _INFLATED_CODINGS:
        return False
    server = getattr(request.protocol, "_manager", None)
    if server is None:
        return False
    if server not in _inflates_by_server:
        _inflates_by_server[server] = inflates_uploads(server)
    return _inflates_by_server[server]


def inflates_uploads(server: Any) -> bool:
    """Return whether the connections of `server` decompress request bodies. Tests this with one message."""
    gzipped = zlib.compress(b"probe", wbits=31)
    head = f"POST / HTTP/1.1\r\nHost: probe\r\nContent-Encoding: gzip\r\nContent-Length: {len(gzipped)}\r\n\r\n"
    messages, _, _ = server()._parser.feed_data(head.encode() + gzipped)
    return bool(messages[0][1].read_nowait() != gzipped)


# ── The gateway's own API accepts only JSON: a body with another Content-Type is refused before it is read
# (docs/compatibility.md#requests).

MAX_JSON_BYTES: Final = 1 << 20
TOO_LARGE: Final = "The body is too large. This endpoint accepts at most 1 MiB."


@web.middleware
async def json_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Read the body, so that `request.read()` and `request.json()` return immediately. A missing Content-Type is
    accepted.

    This middleware must be the last link before the handler, because it also sends 100 Continue.
    Raises UnsupportedMediaType, BodyTooLarge, InvalidRequest.
    """
    if not is_json(request.headers.get(hdrs.CONTENT_TYPE)):
        raise UnsupportedMediaType(
            "invalid_content_type", "Send the body as 'Content-Type: application/json'.", close=request.body_exists
        )
    if request.body_exists:
        await read_limited_body(request, MAX_JSON_BYTES, TOO_LARGE)
    return await handler(request)


def is_json(content_type: str | None) -> bool:
    """Return whether a body with this Content-Type is accepted. `content_type`: None if the field is missing."""
    return content_type is None or content_type.strip().lower().startswith("application/json")
