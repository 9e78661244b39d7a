"""Reads a body whole, within a limit and at no slower a pace than that of a slow mobile line."""

import asyncio
from typing import Final

from aiohttp import web

from gateway import clock
from gateway.errors import BodyTooLarge, InvalidRequest
from gateway.wording import counted
from middleware.expectation import send_continue

# A body may take this long at any pace; after that it must have come faster than PACE_BYTES_S.
GRACE_S: Final = 20.0
PACE_BYTES_S: Final = 500


async def read_within(request: web.Request, limit_bytes: int, told: str) -> None:
    """Let `request.read()` give the body at once, whatever limit the host application sets; `told` names ours.

    Raises BodyTooLarge, InvalidRequest.
    """
    if (request.content_length or 0) > limit_bytes:
        raise BodyTooLarge("body_too_large", told, close=True)
    await send_continue(request)
    began = clock.monotonic()
    body = bytearray()
    while piece := await _next_piece(request, began, len(body)):
        body += piece
        if len(body) > limit_bytes:
            raise BodyTooLarge("body_too_large", told, close=True)
    request._read_bytes = bytes(body)  # where `BaseRequest.read` keeps what it has read


async def _next_piece(request: web.Request, began: float, received: int) -> bytes:
    allowed_s = max(GRACE_S, received / PACE_BYTES_S)
    try:
        async with asyncio.timeout(began + allowed_s - clock.monotonic()):
            return await request.content.readany()
    except TimeoutError:
        raise InvalidRequest(
            "invalid_body", f"The body came too slowly: {counted(received, 'byte')} in {allowed_s:.0f} s.", close=True
        ) from None
