"""Bytes that are dear to read are read a part in each turn of the event loop, so that others have their turns too."""

import asyncio
from collections.abc import Callable
from typing import Final

PART_BYTES: Final = 16_384
MOST_LINES: Final = 2_000


def is_dear(data: bytes) -> bool:
    """Return whether most of `data` may be framing, as where each byte of a body is sent in a chunk of its own."""
    return len(data) > PART_BYTES and data.count(b"\r\n") > MOST_LINES


class PartByPart:
    """`feed` gets `data` and what is added to it, then `done` is called; `transport` reads nothing more meanwhile."""

    __slots__ = ("_at", "_data", "_done", "_feed", "_loop", "_next", "_transport")

    def __init__(
        self, data: bytes, feed: Callable[[bytes], None], done: Callable[[], None], transport: asyncio.Transport
    ) -> None:
        self._data = data
        self._at = 0
        self._feed = feed
        self._done = done
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = self._loop.call_soon(self._feed_part)
        transport.pause_reading()

    def add(self, data: bytes) -> None:
        """Add the bytes that the transport had read already when it was paused."""
        self._data = self._data[self._at :] + data
        self._at = 0

    def put_back(self, data: bytes) -> None:
        """Put back bytes that were fed too early: they come again, before the rest."""
        self._data = data + self._data[self._at :]
        self._at = 0

    def stop(self) -> bytes:
        """Feed nothing more; what has not been fed is returned."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        rest, self._data, self._at = self._data[self._at :], b"", 0
        return rest

    def _feed_part(self) -> None:
        part = self._data[self._at : self._at + PART_BYTES]
        self._at += len(part)
        handle = self._next
        try:
            self._feed(part)
        except BaseException:
            self.stop()
            self._transport.abort()  # with a part missing, what follows would be read wrongly
            raise
        if self._next is not handle:  # stopped
            return
        if self._at < len(self._data):
            self._next = self._loop.call_soon(self._feed_part)
        else:
            self._next = None
            self._done()
