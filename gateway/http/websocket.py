"""Whether the caller asks to switch to WebSocket (RFC 9110 §7.8, RFC 6455 §4.1)."""

from typing import Final

from aiohttp import HttpVersion11, hdrs, web

WEBSOCKET: Final = "websocket"


def asked_for(request: web.Request) -> str | None:
    """``websocket`` if the caller asks for that and nothing else; no other protocol is ever switched to, h2c least."""
    wanted = request.headers.getall(hdrs.UPGRADE, None)
    if wanted is None:
        return None
    tokens = {
        token.strip().lower() for line in request.headers.getall(hdrs.CONNECTION, ()) for token in line.split(",")
    }
    fits = request.method == hdrs.METH_GET and request.version >= HttpVersion11 and not request.body_exists
    return WEBSOCKET if fits and "upgrade" in tokens and [w.strip().lower() for w in wanted] == [WEBSOCKET] else None
