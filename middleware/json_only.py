"""Our own API takes JSON: a body that says it is something else is refused before it is read (docs/compatibility.md#requests)."""

from typing import Final

from aiohttp import hdrs, web

from gateway.errors import UnsupportedMediaType
from gateway.middleware.chain import Handler
from gateway.middleware.read_body import read_within

LIMIT_BYTES: Final = 1 << 20
TOO_LARGE: Final = "Bodies to this API have at most 1 MiB."


@web.middleware
async def json_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Read the body, which `request.read()` and `request.json()` then give at once. No Content-Type at all is fine.

    The last link before the handler, since it also invites the body. Raises UnsupportedMediaType, BodyTooLarge,
    InvalidRequest.
    """
    if not is_json(request.headers.get(hdrs.CONTENT_TYPE)):
        raise UnsupportedMediaType(
            "invalid_content_type", "Send the body as 'Content-Type: application/json'.", close=request.body_exists
        )
    if request.body_exists:
        await read_within(request, LIMIT_BYTES, TOO_LARGE)
    return await handler(request)


def is_json(content_type: str | None) -> bool:
    """Whether a body of this Content-Type is taken; None: it has none."""
    return content_type is None or content_type.strip().lower().startswith("application/json")
