"""The caller's body on its way to the provider: taken piece by piece, as fast as the provider takes them."""

import gzip
from collections.abc import AsyncIterator
from typing import Any, Final
from weakref import WeakKeyDictionary

from aiohttp import hdrs, web

from gateway.egress.exchange import Body, Exchange
from gateway.forward.watch import Watch

_LENGTH_EXPECTED: Final = frozenset({"POST", "PUT", "PATCH"})  # RFC 9110 §8.6
_INFLATED_CODINGS: Final = frozenset({"gzip", "deflate", "br", "zstd"})
_inflating: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


class Upload:
    """What the caller sends, and how far it got.

    `fault` is what broke its arrival, if anything did; `waiting` says that the caller's next bytes are awaited.
    `exchange`, once there is one, ends with a broken body, so that the provider is not left waiting for the rest.
    """

    def __init__(self, request: web.Request, watch: Watch) -> None:
        self._request = request
        self._watch = watch
        self.exchange: Exchange | None = None
        self.fault: Exception | None = None
        self.waiting = False
        self.inflated = arrives_inflated(request)

    def body(self) -> Body | None:
        """With the declared length, if there is one that still holds; None if the message has no body and says so."""
        request = self._request
        if not request.body_exists:
            declared = hdrs.CONTENT_LENGTH in request.headers or request.method in _LENGTH_EXPECTED
            return Body(self._pieces(), 0) if declared else None
        length = None if self.inflated else request.content_length
        whole = (
            request.content.read_nowait() if request.content.is_eof() and request.content.exception() is None else None
        )
        return Body(self._pieces(), length, whole)

    async def _pieces(self) -> AsyncIterator[bytes]:
        # aiohttp holds the head back until the first piece; a provider may want to answer before there is any.
        yield b""
        while piece := await self._take():
            self._watch.moved()
            yield piece
            self._watch.moved()

    async def _take(self) -> bytes:
        self.waiting = True
        try:
            return await self._request.content.readany()
        except Exception as fault:
            self.fault = fault
            if self.exchange is not None:
                self.exchange.close()
            raise
        finally:
            self.waiting = False


def arrives_inflated(request: web.Request) -> bool:
    """Whether the runner has undone the body's coding although Content-Encoding still names it.

    A runner's options decide that, and nothing in a request tells; so a parser of the same runner is shown a message.
    """
    if not request.body_exists or request.headers.get(hdrs.CONTENT_ENCODING, "").lower() not in _INFLATED_CODINGS:
        return False
    server = getattr(request.protocol, "_manager", None)
    if server is None:
        return False
    if server not in _inflating:
        _inflating[server] = _inflates(server)
    return _inflating[server]


def _inflates(server: Any) -> bool:
    coded = gzip.compress(b"probe")
    head = f"POST / HTTP/1.1\r\nHost: probe\r\nContent-Encoding: gzip\r\nContent-Length: {len(coded)}\r\n\r\n"
    messages, _, _ = server()._parser.feed_data(head.encode() + coded)
    return bool(messages[0][1].read_nowait() != coded)
