"""How it comes back: as the provider coded it, or, where the entry or the caller asks for it, decoded."""

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.http.content_coding import Decoder
from gateway.middleware.facts import ASKED, CONNECTION, DECODER


@web.middleware
async def decompress(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn DECODER. The header wins over the entry; which codings there are to undo, `forward` sees in the answer."""
    wanted = request[ASKED].decompress
    if wanted is None:
        wanted = bool(request[CONNECTION].provider.proxy.decompress)
    if wanted:
        request[DECODER] = Decoder()
    return await handler(request)
