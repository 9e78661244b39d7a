"""Reads what a form of our own pages posts."""

from typing import Final

from aiohttp import web

from gateway.errors import InvalidRequest

URLENCODED: Final = "application/x-www-form-urlencoded"


async def posted(request: web.Request, limit_bytes: int) -> dict[str, str]:
    """Its fields. Raises InvalidRequest for what no form of ours sends; nothing is read of a body that is too large."""
    if (request.content_length or 0) > limit_bytes or request.content_type != URLENCODED:
        raise InvalidRequest("invalid_body", "This is not a form of ours.", close=True)
    try:
        fields = await request.post()
    except (UnicodeError, LookupError, web.HTTPRequestEntityTooLarge):  # bytes or a charset that browsers do not send
        raise InvalidRequest("invalid_body", "This is not a form of ours.", close=True) from None
    return {name: text for name, text in fields.items() if isinstance(text, str)}
