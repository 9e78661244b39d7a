"""Passes bytes that are slow to parse to the parser in parts: one part per turn of the event loop.
Other tasks run between two parts."""

import asyncio
from collections.abc import Callable
from typing import Final

PART_BYTES: Final = 16_384
MAX_LINES: Final = 2_000
PROBED_LINES: Final = 32  # data with fewer lines is recognized without counting


def is_slow_to_parse(data: bytes) -> bool:
    """Return whether `data` has so many lines that it can be mostly framing, such as chunks of one byte each."""
    if len(data) <= PART_BYTES:
        return False
    # Most bodies have few lines. `find` is up to a hundred times as fast as `count`, which reads byte by byte, and
    # counting one byte three times as fast as counting two.
    position = 0
    for _ in range(PROBED_LINES):
        position = data.find(b"\n", position) + 1
        if not position:
            return False
    return data.count(b"\n") > MAX_LINES and data.count(b"\r\n") > MAX_LINES


class IncrementalFeeder:
    """Passes `data` and later additions to `feed` in parts, then calls `done`.

    Reading from `transport` is paused first, so that `transport` delivers no more bytes before `done` is called.
    """

    __slots__ = ("_data", "_feed", "_loop", "_next_call", "_on_done", "_position", "_transport")

    def __init__(
        self, data: bytes, feed: Callable[[bytes], None], done: Callable[[], None], transport: asyncio.Transport
    ) -> None:
        self._data = data
        self._position = 0
        self._feed = feed
        self._on_done = done
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._next_call: asyncio.Handle | None = self._loop.call_soon(self._feed_part)
        transport.pause_reading()

    def add(self, data: bytes) -> None:
        """Add bytes that the transport had already read when it was paused."""
        self._data = self._data[self._position :] + data
        self._position = 0

    def put_back(self, data: bytes) -> None:
        """Put back bytes that were fed too early. These bytes are fed again, before the rest."""
        self._data = data + self._data[self._position :]
        self._position = 0

    def stop(self) -> bytes:
        """Stop feeding; return the bytes that were not fed."""
        if self._next_call is not None:
            self._next_call.cancel()
            self._next_call = None
        unread, self._data, self._position = self._data[self._position :], b"", 0
        return unread

    def _feed_part(self) -> None:
        part = self._data[self._position : self._position + PART_BYTES]
        self._position += len(part)
        this_call = self._next_call
        try:
            self._feed(part)
        except BaseException:
            self.stop()
            self._transport.abort()  # a missing part would corrupt the rest
            raise
        if self._next_call is not this_call:  # stopped during `_feed`
            return
        if self._position < len(self._data):
            self._next_call = self._loop.call_soon(self._feed_part)
        else:
            self._next_call = None
            self._on_done()
