"""Our own API takes JSON: a body that says it is something else is refused before it is read (api-contract 0.1)."""

import asyncio
from typing import Final

from aiohttp import hdrs, web

from gateway import clock
from gateway.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from middleware.chain import Handler
from middleware.expectation import send_continue

LIMIT_BYTES: Final = 1 << 20
# A body may take this long at any pace; after that it must have come faster than the pace of a slow mobile line.
GRACE_S: Final = 20.0
PACE_BYTES_S: Final = 500


@web.middleware
async def json_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Read the body, which `request.read()` and `request.json()` then give at once. No Content-Type at all is fine.

    The last link before the handler, since it also invites the body. Raises UnsupportedMediaType, BodyTooLarge,
    InvalidRequest.
    """
    kind = request.headers.get(hdrs.CONTENT_TYPE)
    if kind is not None and not kind.strip().lower().startswith("application/json"):
        raise UnsupportedMediaType(
            "invalid_content_type", "Send the body as 'Content-Type: application/json'.", close=request.body_exists
        )
    if request.body_exists:
        await _read(request)
    return await handler(request)


async def _read(request: web.Request) -> None:
    """Whatever the host application allows, ours are the limits of our own API."""
    if (request.content_length or 0) > LIMIT_BYTES:
        raise _too_large()
    await send_continue(request)
    began = clock.monotonic()
    body = bytearray()
    while piece := await _next_piece(request, began, len(body)):
        body += piece
        if len(body) > LIMIT_BYTES:
            raise _too_large()
    request._read_bytes = bytes(body)  # where `BaseRequest.read` keeps what it has read


async def _next_piece(request: web.Request, began: float, received: int) -> bytes:
    allowed_s = max(GRACE_S, received / PACE_BYTES_S)
    try:
        async with asyncio.timeout(began + allowed_s - clock.monotonic()):
            return await request.content.readany()
    except TimeoutError:
        raise InvalidRequest(
            "invalid_body", f"The body came too slowly: {received} bytes in {allowed_s:.0f} s.", close=True
        ) from None


def _too_large() -> BodyTooLarge:
    return BodyTooLarge("body_too_large", "Bodies to this API have at most 1 MiB.", close=True)
