"""Reads what a form of our own pages posts."""

from typing import Final
from urllib.parse import parse_qsl

from aiohttp import hdrs, web

from gateway.errors import BodyTooLarge, InvalidRequest
from gateway.wire.media_type import media_type
from middleware.body import read_within

URLENCODED: Final = "application/x-www-form-urlencoded"
NOT_OURS: Final = "This is not a form of ours."


async def posted(request: web.Request, limit_bytes: int) -> dict[str, str]:
    """Its fields; of a name that comes twice the last one. Raises InvalidRequest for what no form of ours sends, and for a
    body that comes too slowly.

    `request.content_type` and `request.post()` are not used: the time that they take to read Content-Type grows with the
    square of its length, before anything is known of the client. Our pages are UTF-8, so their forms are.
    """
    if media_type(request.headers.get(hdrs.CONTENT_TYPE, "")) != URLENCODED:
        raise InvalidRequest("invalid_body", NOT_OURS, close=True)
    try:
        await read_within(request, limit_bytes, NOT_OURS)
        body = (await request.read()).decode("ascii")
        return dict(parse_qsl(body, keep_blank_values=True, errors="strict"))
    except (BodyTooLarge, UnicodeError):  # bytes that browsers do not send
        raise InvalidRequest("invalid_body", NOT_OURS, close=True) from None
