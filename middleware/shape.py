"""What comes back of a JSON answer: a part (``Gateway-Select``, ``Gateway-Max-Bytes``); of any answer: decoded or as it came."""

import re
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.http.content_coding import Decoder
from gateway.http.headers import RANGES
from gateway.http.proxy_options import sent_once, wrong_header
from gateway.middleware.facts import ASKED, CONNECTION, DECODER, PAGING, SHAPE, UPSTREAM
from gateway.records.proxied_call import AnswerShape

SELECT: Final = "Gateway-Select"
MAX_BYTES: Final = "Gateway-Max-Bytes"
LONGEST_SELECT: Final = 512
LEAST_BYTES: Final = 100
MOST_BYTES: Final = 1 << 20
_BYTES: Final = re.compile(r"[0-9]{1,7}")


@web.middleware
async def shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn SHAPE, and DECODER with it. Raises InvalidRequest ``invalid_headers``."""
    expression, max_bytes = sent_once(request.headers, SELECT), sent_once(request.headers, MAX_BYTES)
    if not expression and not max_bytes:
        return await handler(request)
    if PAGING in request:
        raise wrong_header(
            SELECT if expression else MAX_BYTES, "does not go with Gateway-Paginate, whose records come one by one"
        )
    select = None
    if expression:
        from gateway.http.json_select import UnfitExpression, parsed  # loaded with the first such call

        if len(expression) > LONGEST_SELECT:
            raise wrong_header(SELECT, f"has more than {LONGEST_SELECT} characters")
        try:
            select = parsed(expression)
        except UnfitExpression as fault:
            raise wrong_header(SELECT, f"cannot be used: {fault}".rstrip(".")) from fault
    most = MOST_BYTES
    if max_bytes:
        if not _BYTES.fullmatch(max_bytes) or not LEAST_BYTES <= int(max_bytes) <= MOST_BYTES:
            raise wrong_header(MAX_BYTES, f"must be a whole number from {LEAST_BYTES} to {MOST_BYTES}")
        most = int(max_bytes)
    for name in RANGES:
        request[UPSTREAM].headers.popall(name, None)
    request[DECODER] = Decoder()
    request[SHAPE] = AnswerShape(select, most)
    return await handler(request)


# ── How it comes back: as the provider coded it, or, where the entry or the caller asks for it, decoded.


@web.middleware
async def decompress(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Learn DECODER. The header wins over the entry; which codings there are to undo, `forward` sees in the answer."""
    wanted = request[ASKED].decompress
    if wanted is None:
        wanted = bool(request[CONNECTION].provider.proxy.decompress)
    if wanted:
        request[DECODER] = Decoder()
    return await handler(request)
