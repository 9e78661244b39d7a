"""The request as a message: refuses ambiguous heads, sends 100 Continue when the body will be read,
and reads bodies within limits."""

import asyncio
from typing import Final

from aiohttp import HttpVersion11, hdrs, web

from gateway import clock
from gateway.config import ClientLimitsConfig
from gateway.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from gateway.http.request_head import check_head
from gateway.middleware.chain import Handler
from gateway.runtime import RUNTIME, generation_of
from gateway.text import counted

# ── Refuses messages that pass the parser, but that another reader might understand differently (RFC 9112 §11.2).

# Set on the protocol class of our server, which has called `check_head` before it hands the request over.
HEADS_CHECKED: Final = "checks_heads"


@web.middleware
async def strict(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Check the head, and strip an absolute-form target.

    Raises the errors of `check_head`; each of them closes the connection.
    """
    if not getattr(request.protocol, HEADS_CHECKED, False):
        target = check_head(request.method, request.raw_path, request.version, request.headers)
        if target != request.raw_path:
            # `Request.clone` would quote the target again; this keeps its bytes for readers of raw_path.
            request._message = request._message._replace(path=target)
            request._cache.pop("raw_path", None)
    return await handler(request)


# ── `Expect: 100-continue`: 100 Continue is sent only when the request will be accepted (RFC 9110 §10.1.1).


async def no_early_continue(_request: web.Request) -> None:
    """Replaces aiohttp's handler, which sends 100 Continue before the key has been checked."""


@web.middleware
async def invite_body(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Send 100 Continue, as the last link of a chain: a request that reaches this link is admitted."""
    if hdrs.EXPECT in request.headers:
        await send_continue(request)
    return await handler(request)


async def send_continue(request: web.Request) -> None:
    """Send 100 Continue, if the client waits for it and has not begun to send its body. At most once per request."""
    expect = request.headers.get(hdrs.EXPECT, "")
    if expect.strip().lower() != "100-continue" or request.version != HttpVersion11 or request.content.total_bytes:
        return
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # an interim response is not the response (RFC 9110 §15.2)


# ── Reads a whole body: within a size limit, without long pauses, and at least at the rate of a slow mobile connection.
#
# Every body that the gateway itself reads is read here: JSON, forms and webhooks.

DEFAULT_LIMITS: Final = ClientLimitsConfig()


async def read_within(request: web.Request, limit_bytes: int, detail: str) -> None:
    """Read the body, so that `request.read()` returns it immediately, whatever limit the host application sets.

    `detail`: message of the error for our own limit. Raises BodyTooLarge, InvalidRequest.
    """
    if (request.content_length or 0) > limit_bytes:
        raise BodyTooLarge("body_too_large", detail, close=True)
    await send_continue(request)
    if request.content.is_eof():  # the whole body has arrived
        body = request.content.read_nowait()
        if len(body) > limit_bytes:
            raise BodyTooLarge("body_too_large", detail, close=True)
        request._read_bytes = body  # the attribute where `BaseRequest.read` keeps the body
        return
    limits = limits_of(request)
    began = clock.monotonic()
    body_so_far = bytearray()
    while piece := await _next_piece(request, limits, began, len(body_so_far)):
        body_so_far += piece
        if len(body_so_far) > limit_bytes:
            raise BodyTooLarge("body_too_large", detail, close=True)
    request._read_bytes = bytes(body_so_far)


def limits_of(request: web.Request) -> ClientLimitsConfig:
    """Return `server.limits`, or the defaults in an application that is not ours."""
    return generation_of(request).config.server.limits if RUNTIME in request.app else DEFAULT_LIMITS


async def _next_piece(request: web.Request, limits: ClientLimitsConfig, began: float, received: int) -> bytes:
    now = clock.monotonic()
    until = now + limits.body_idle_s
    if limits.body_bytes_per_s:
        until = min(until, began + max(limits.body_grace_s, received / limits.body_bytes_per_s))
    try:
        async with asyncio.timeout(until - now):
            return await request.content.readany()
    except TimeoutError:
        spent_s = clock.monotonic() - began
        raise InvalidRequest(
            "invalid_body",
            f"The request body arrived too slowly: {counted(received, 'byte')} in {spent_s:.0f} s.",
            close=True,
        ) from None


# ── Our own API takes JSON: a body with another Content-Type is refused before it is read
# (docs/compatibility.md#requests).

MAX_JSON_BYTES: Final = 1 << 20
TOO_LARGE: Final = "Bodies to this API have at most 1 MiB."


@web.middleware
async def json_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Read the body, so that `request.read()` and `request.json()` return it immediately. Content-Type may be missing.

    The last link before the handler, since it also sends 100 Continue.
    Raises UnsupportedMediaType, BodyTooLarge, InvalidRequest.
    """
    if not is_json(request.headers.get(hdrs.CONTENT_TYPE)):
        raise UnsupportedMediaType(
            "invalid_content_type", "Send the body as 'Content-Type: application/json'.", close=request.body_exists
        )
    if request.body_exists:
        await read_within(request, MAX_JSON_BYTES, TOO_LARGE)
    return await handler(request)


def is_json(content_type: str | None) -> bool:
    """Return whether a body with this Content-Type is accepted; None: the field is missing."""
    return content_type is None or content_type.strip().lower().startswith("application/json")
