"""`Expect: 100-continue`: a body is invited only when the request will be taken (RFC 9110 §10.1.1)."""

from aiohttp import HttpVersion11, hdrs, web

from gateway.middleware.chain import Handler


async def no_early_continue(_request: web.Request) -> None:
    """In place of aiohttp's handler, which invites the body before anybody has looked at the key."""


@web.middleware
async def invite_body(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The last link of a chain: a request that comes here is admitted, so the body may come too."""
    if hdrs.EXPECT in request.headers:
        await send_continue(request)
    return await handler(request)


async def send_continue(request: web.Request) -> None:
    """Invite the body, if the client waits to be invited and has not begun to send it. Once a request."""
    expect = request.headers.get(hdrs.EXPECT, "")
    if expect.strip().lower() != "100-continue" or request.version != HttpVersion11 or request.content.total_bytes:
        return
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # an interim answer is not the answer (RFC 9110 §15.2)
