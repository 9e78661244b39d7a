"""Reads a body whole: within a limit, without a long pause, and at no slower a pace than that of a slow mobile line.

Every body that the gateway itself reads comes through here: JSON, forms and webhooks.
"""

import asyncio
from typing import Final

from aiohttp import web

from gateway import clock
from gateway.config import ClientLimitsConfig
from gateway.errors import BodyTooLarge, InvalidRequest
from gateway.middleware.expectation import send_continue
from gateway.runtime import RUNTIME, generation_of
from gateway.text import counted

DEFAULT_LIMITS: Final = ClientLimitsConfig()


async def read_within(request: web.Request, limit_bytes: int, detail: str) -> None:
    """Let `request.read()` give the body at once, whatever limit the host application sets; `detail` names ours.

    Raises BodyTooLarge, InvalidRequest.
    """
    if (request.content_length or 0) > limit_bytes:
        raise BodyTooLarge("body_too_large", detail, close=True)
    await send_continue(request)
    if request.content.is_eof():  # all of it is there
        body = request.content.read_nowait()
        if len(body) > limit_bytes:
            raise BodyTooLarge("body_too_large", detail, close=True)
        request._read_bytes = body  # where `BaseRequest.read` keeps what it has read
        return
    limits = limits_of(request)
    began = clock.monotonic()
    came = bytearray()
    while piece := await _next_piece(request, limits, began, len(came)):
        came += piece
        if len(came) > limit_bytes:
            raise BodyTooLarge("body_too_large", detail, close=True)
    request._read_bytes = bytes(came)


def limits_of(request: web.Request) -> ClientLimitsConfig:
    """`server.limits`; the defaults in an application that is not ours."""
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
            "invalid_body", f"The body came too slowly: {counted(received, 'byte')} in {spent_s:.0f} s.", close=True
        ) from None
