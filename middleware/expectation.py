"""`Expect: 100-continue`: a body is invited only when the request will be taken (RFC 9110 §10.1.1)."""

from aiohttp import HttpVersion11, hdrs, web

from middleware.chain import Handler


async def no_early_continue(_request: web.Request) -> None:
    """In place of aiohttp's handler, which invites the body before anybody has looked at the key."""


@web.middleware
async def invite_body(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The last link of a chain: whoever comes here is let in, so the body may come too."""
    expect = request.headers.get(hdrs.EXPECT)
    if expect is not None and expect.strip().lower() == "100-continue" and request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # an interim answer is not the answer (RFC 9110 §15.2)
    return await handler(request)
