"""Names the exchange: the caller's X-Request-Id if it is fit to be logged, else one of ours."""

import re
import secrets
from typing import Final

from aiohttp import web

from middleware.chain import Handler
from middleware.facts import REQUEST_ID

FIT: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
HEADER: Final = "Gateway-Request-Id"


@web.middleware
async def request_id(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn REQUEST_ID, and put it on the answer; one that is streamed has been given it by whoever prepared it."""
    if REQUEST_ID not in request:  # an application that is ours altogether has been here already
        given = request.headers.get("X-Request-Id", "")
        request[REQUEST_ID] = given if FIT.fullmatch(given) else secrets.token_hex(12)
    response = await handler(request)
    if not response.prepared:
        response.headers[HEADER] = request[REQUEST_ID]
    return response
