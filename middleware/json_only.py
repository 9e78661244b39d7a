"""Our own API takes JSON: a body that says it is something else is refused before it is read (api-contract 0.1)."""

from aiohttp import hdrs, web

from gateway.errors import BodyTooLarge, UnsupportedMediaType
from middleware.chain import Handler

LIMIT_BYTES = 1 << 20


@web.middleware
async def json_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Raises UnsupportedMediaType, BodyTooLarge. No Content-Type at all is fine."""
    kind = request.headers.get(hdrs.CONTENT_TYPE)
    if kind is not None and not kind.strip().lower().startswith("application/json"):
        raise UnsupportedMediaType("invalid_content_type", "Send the body as 'Content-Type: application/json'.")
    if (request.content_length or 0) > LIMIT_BYTES:
        raise BodyTooLarge("body_too_large", "Bodies to this API have at most 1 MiB.", close=True)
    return await handler(request)
