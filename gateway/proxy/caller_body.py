"""Reads the caller's body piece by piece, as fast as the provider takes the pieces.

A small body is kept in memory, so that the gateway can send it again.
"""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Final

from aiohttp import hdrs, web

from gateway import clock
from gateway.config import ClientLimitsConfig
from gateway.egress.provider_exchange import Body, ProviderExchange
from gateway.errors import GatewayError, InvalidRequest
from gateway.http.request_head import LENGTH_EXPECTED
from gateway.middleware.facts import READ_BODY
from gateway.middleware.request_message import arrives_inflated, limits_of
from gateway.proxy.exchange_watch import ExchangeWatch
from gateway.text import counted

KEPT_BYTES: Final = 64 * 1024


class CallerBody:
    """The body that the caller sends.

    - `fault`: the error that ended the body early, or None
    - `waits_for_caller`: whether the gateway waits for the caller's next bytes
    - `exchange`: the exchange that sends the body; it is closed if the body breaks off, so that the provider does not
      wait for the rest
    - `inflated`: whether the runner has decompressed the body
    - `is_kept`: whether all pieces read so far are kept, and can be sent again
    - `keep_bytes`: maximum number of bytes to keep
    """

    def __init__(self, request: web.Request, watch: ExchangeWatch) -> None:
        self._request = request
        self._watch = watch
        self.exchange: ProviderExchange | None = None
        self.fault: Exception | None = None
        self.waits_for_caller = False
        self.inflated = arrives_inflated(request)
        self.is_kept = True
        self.keep_bytes = KEPT_BYTES
        self._length: int | None = None
        self._kept_pieces: list[bytes] = []
        self._kept_bytes = 0
        # the bytes that a rule has checked, or that a middleware of a host application has read
        read_body = request.get(READ_BODY, request._read_bytes)
        if read_body is not None:
            self.keep_bytes = max(KEPT_BYTES, len(read_body))
            self._keep(read_body)
        elif request.content.at_eof() and request.content.total_bytes:
            raise RuntimeError("a middleware of the host application has read the body as a stream; use request.read()")
        self._read_lock: asyncio.Lock | None = None
        self._limits = limits_of(request)
        self._received = 0
        self._waited_s = 0.0  # seconds spent waiting for the caller's bytes, without the waits for the provider

    def body(self) -> Body | None:
        """Return the body to send, with its length if the length is known; None if the request declares no body."""
        request = self._request
        if not request.body_exists:
            declared = hdrs.CONTENT_LENGTH in request.headers or request.method in LENGTH_EXPECTED
            return Body(self._pieces(), 0) if declared else None
        length = self._length if self._length is not None else None if self.inflated else request.content_length
        return Body(self._pieces(), length, self._whole_if_kept())

    async def read_whole(self, limit_bytes: int) -> bytes | None:
        """Read and return the whole body; return None if it exceeds `limit_bytes`.

        Call this before any part of the body is sent.
        """
        self.keep_bytes = limit_bytes
        if (self._request.content_length or 0) > limit_bytes:
            return None
        index = 0
        while await self._piece(index):
            self._watch.record_progress()
            index += 1
            if not self.is_kept:
                return None
        return b"".join(self._kept_pieces)

    def replace(self, body: bytes) -> None:
        """Send `body` instead of the body that `read_whole` returned."""
        self._kept_pieces = [body] if body else []
        self._length = len(body)

    def _whole_if_kept(self) -> bytes | None:
        """Return the whole body if all of it has arrived and is kept, else None."""
        content = self._request.content
        being_read = self._read_lock is not None and self._read_lock.locked()
        if not self.is_kept or being_read or not content.is_eof() or content.exception() is not None:
            return None
        body = b"".join((*self._kept_pieces, unread := content.read_nowait()))
        self._keep(unread)
        return body

    async def _pieces(self) -> AsyncIterator[bytes]:
        for index in count():
            piece = await self._piece(index)
            if not piece:
                return
            self._watch.record_progress()
            yield piece
            self._watch.record_progress()

    async def _piece(self, index: int) -> bytes:
        """Return the body's piece number `index`; empty bytes mark the end. Each piece is read from the caller once."""
        if index < len(self._kept_pieces):
            return self._kept_pieces[index]
        if self._read_lock is None:
            self._read_lock = asyncio.Lock()
        async with self._read_lock:  # an earlier attempt that timed out might still hold the lock
            if index < len(self._kept_pieces):
                return self._kept_pieces[index]
            piece = await self._receive()
            self._keep(piece)
            return piece

    def _keep(self, piece: bytes) -> None:
        self._kept_bytes += len(piece)
        if self._kept_bytes > self.keep_bytes:
            self.is_kept = False
            self._kept_pieces.clear()  # the reader is past these pieces; from now on the body cannot be sent again
        elif self.is_kept and piece:
            self._kept_pieces.append(piece)

    async def _receive(self) -> bytes:
        self.waits_for_caller = True
        self._watch.caller_idle_s = self._limits.body_idle_s
        began = clock.monotonic()
        try:
            piece = await self._request.content.readany()
            self._waited_s += clock.monotonic() - began
            self._received += len(piece)
            if piece:
                self._check_pace()
            return piece
        except Exception as fault:
            self.fault = fault
            if self.exchange is not None:
                self.exchange.close()
            raise
        finally:
            self.waits_for_caller = False
            self._watch.caller_idle_s = None

    def _check_pace(self) -> None:
        """Raise InvalidRequest if the caller sends too few bytes per second."""
        fault = too_slow(self._limits, self._received, self._waited_s)
        if fault is not None:
            raise fault


def too_slow(limits: ClientLimitsConfig, received_bytes: int, waited_s: float) -> GatewayError | None:
    """Return the error for a body that arrives too slowly, else None.

    `received_bytes`: number of bytes received. `waited_s`: seconds spent waiting for these bytes.
    """
    if waited_s <= limits.upload_grace_s or received_bytes >= limits.upload_bytes_per_s * waited_s:
        return None
    message = f"The request body arrived too slowly: {counted(received_bytes, 'byte')} in {waited_s:.0f} s"
    return InvalidRequest("invalid_body", f"{message} (server.limits.upload_bytes_per_s).", close=True)
