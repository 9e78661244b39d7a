"""Refuses what the parser lets pass: messages that another reader might understand differently (RFC 9112 §11.2)."""

from typing import Final

from aiohttp import web

from gateway.http.request_head import check_head
from gateway.middleware.chain import Handler

# Set on the protocol class of a server that has asked `check_head` before it handed the request over: ours.
CHECKED: Final = "checks_heads"


@web.middleware
async def strict(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Raises what `check_head` raises; each of these closes the connection. Strips an absolute-form target."""
    if not getattr(request.protocol, CHECKED, False):
        target = check_head(request.method, request.raw_path, request.version, request.headers)
        if target != request.raw_path:
            # `Request.clone` would quote the target again; this keeps its bytes for readers of raw_path.
            request._message = request._message._replace(path=target)
            request._cache.pop("raw_path", None)
    return await handler(request)
