"""Reads what a form of our own pages posts."""

from typing import Final

from aiohttp import web

from gateway.errors import BodyTooLarge, InvalidRequest
from middleware.body import read_within

URLENCODED: Final = "application/x-www-form-urlencoded"
NOT_OURS: Final = "This is not a form of ours."


async def posted(request: web.Request, limit_bytes: int) -> dict[str, str]:
    """Its fields. Raises InvalidRequest for what no form of ours sends, and for a body that comes too slowly."""
    if request.content_type != URLENCODED:
        raise InvalidRequest("invalid_body", NOT_OURS, close=True)
    try:
        await read_within(request, limit_bytes, NOT_OURS)
        fields = await request.post()
    except (BodyTooLarge, UnicodeError, LookupError):  # bytes or a charset that browsers do not send
        raise InvalidRequest("invalid_body", NOT_OURS, close=True) from None
    return {name: text for name, text in fields.items() if isinstance(text, str)}
