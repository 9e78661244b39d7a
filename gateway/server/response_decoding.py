"""Decodes a response's body on the fast path: a part in each event loop iteration, no faster than the caller reads."""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from gateway.http.content_coding import CodingError, Decoder

STEP_BYTES: Final = 256 * 1024  # decoded bytes in one event loop iteration; they take about a millisecond
PART_BYTES: Final = 256  # a smaller part counts as this many bytes, because it takes as long


class DecodedSink(Protocol):
    """Receives the decoded body; implemented by `FastExchange`. `held_bytes`: bytes that are not decoded yet."""

    held_bytes: int

    def pass_on(self, piece: bytes) -> None: ...

    def on_all_decoded(self) -> None:
        """Called when every byte received so far has been decoded and passed on."""

    def end_response(self) -> None:
        """Called when the whole body has been decoded and passed on."""

    def fail(self, fault: Exception) -> None: ...


class PausableSource(Protocol):
    """The source of the encoded body; implemented by `ProviderConnection`."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None: ...


class ResponseDecoding:
    """Decodes one response's body.

    `may_begin`: whether the response's head can be sent, because a first piece was decoded. `paused`: whether the
    caller takes no more bytes. `live`: whether the response is a stream; its head does not wait for a first piece.
    """

    __slots__ = (
        "_coded_pieces",
        "_decoder",
        "_input_complete",
        "_parts",
        "_scheduled",
        "_sink",
        "_source",
        "_stopped",
        "may_begin",
        "paused",
    )

    def __init__(self, decoder: Decoder, sink: DecodedSink, source: PausableSource, *, live: bool) -> None:
        self._decoder = decoder
        self._sink = sink
        self._source: PausableSource | None = source
        self._coded_pieces: deque[bytes] = deque()
        self._parts: Iterator[bytes] | None = None
        self._input_complete = False
        self._stopped = False
        self._scheduled = False
        self.may_begin = live
        self.paused = False

    def feed(self, piece: bytes) -> None:
        self._coded_pieces.append(piece)
        self._sink.held_bytes += len(piece)
        self._continue()

    def end(self) -> None:
        """Mark the encoded body as complete."""
        self._input_complete, self._source = True, None  # the source can serve another request from now on
        self._continue()

    def stop(self) -> None:
        """Stop decoding, because the rest is not needed."""
        self._stopped = True
        self._coded_pieces.clear()

    def resume(self) -> None:
        """Continue in the next event loop iteration, because the transport calls this in the middle of a write."""
        self.paused = False
        if not (self._scheduled or self._stopped):
            self._schedule()

    def _continue(self) -> None:
        if not (self._scheduled or self.paused or self._stopped):
            self._step()

    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        self._scheduled = False
        if self.paused or self._stopped:
            return
        try:
            is_exhausted = self._decode(STEP_BYTES)
        except CodingError as fault:
            self._stopped = True
            self._sink.fail(fault)
            if self._source is not None:
                self._source.abort()
            return
        if not is_exhausted:
            if not self.paused:
                self._schedule()
            return
        self.may_begin = True
        if self._input_complete:
            self._stopped = True
            self._sink.end_response()
        else:
            self._sink.on_all_decoded()
            if self._source is not None:
                self._source.resume_reading()

    def _decode(self, max_bytes: int) -> bool:
        """Decode and pass on about `max_bytes` bytes; return whether every byte received so far has been decoded.

        Stop early if `paused` becomes True. Raises CodingError.
        """
        passed = 0
        while passed < max_bytes and not self.paused:
            if self._parts is None:
                if not self._coded_pieces:
                    if self._input_complete:
                        self._decoder.finish()
                    return True
                piece = self._coded_pieces.popleft()
                self._sink.held_bytes -= len(piece)
                self._parts = self._decoder.feed(piece)
            part = next(self._parts, None)
            if part is None:
                self._parts = None
            elif part:
                passed += max(len(part), PART_BYTES)
                self.may_begin = True
                self._sink.pass_on(part)
        return False
