"""Refuses what the parser lets pass: messages that another reader might understand differently (RFC 9112 §11.2)."""

import re
from typing import Final

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web

from gateway.errors import InvalidRequest, NotImplementedHere, VersionNotSupported
from middleware.chain import Handler

# Two of these, and a reader may believe either.
ONCE: Final = (hdrs.HOST, hdrs.AUTHORIZATION, "Provider-Config-Key", "Connection-Id", hdrs.CONTENT_LENGTH)
UNFIT: Final = re.compile(r"[^\x21-\x22\x24-\x5b\x5d-\x7e]")  # all but visible ASCII, and of that no `#` and no `\`


@web.middleware
async def strict(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Raises InvalidRequest, NotImplementedHere or VersionNotSupported, all of which close the connection."""
    check(request)
    return await handler(request)


def check(request: web.Request) -> None:
    if request.version not in {HttpVersion10, HttpVersion11}:
        raise VersionNotSupported("bad_framing", "This gateway speaks HTTP/1.1 and HTTP/1.0.", close=True)
    headers = request.headers
    for name in ONCE:
        if name in headers and len(headers.getall(name)) > 1:
            raise InvalidRequest("bad_framing", f"{name} was sent more than once.", close=True)
    coding = headers.get(hdrs.TRANSFER_ENCODING)
    if coding is not None:
        if hdrs.CONTENT_LENGTH in headers:
            raise InvalidRequest("bad_framing", "Content-Length and Transfer-Encoding exclude each other.", close=True)
        if coding.strip().lower() != "chunked" or len(headers.getall(hdrs.TRANSFER_ENCODING)) > 1:
            raise NotImplementedHere("not_supported", "The only transfer coding here is 'chunked'.", close=True)
    if UNFIT.search(request.raw_path):
        raise InvalidRequest("bad_path", "The target holds a byte that must be percent-encoded.", close=True)
    _check_authority(request)


def _check_authority(request: web.Request) -> None:
    """Absolute-form is accepted where its authority is Host's own (RFC 9112 §3.2.2)."""
    target = request.raw_path
    if target.startswith("/") or target == "*":
        return
    scheme, separator, rest = target.partition("://")
    authority = re.split(r"[/?]", rest, maxsplit=1)[0]
    host = request.headers.get(hdrs.HOST, "")
    if not separator or scheme.lower() not in {"http", "https"} or authority.lower() != host.lower():
        raise InvalidRequest("bad_framing", "The target's authority is not the one in Host.", close=True)
