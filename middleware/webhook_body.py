"""A provider's webhook is read whole, as its signature is over its bytes; any media type is fine (api-contract 1.9)."""

from typing import Final

from aiohttp import web

from middleware.body import read_within
from middleware.chain import Handler

LIMIT_BYTES: Final = 5 << 20
TOLD: Final = "A webhook has at most 5 MiB."


@web.middleware
async def webhook_body(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The last link, since it invites the body. Raises BodyTooLarge, InvalidRequest."""
    if request.body_exists:
        await read_within(request, LIMIT_BYTES, TOLD)
    return await handler(request)
