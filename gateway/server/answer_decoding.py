"""An answer's body on the fast path, decoded as it comes: a little in each turn of the loop, no more than the caller takes."""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from gateway.http.content_coding import CodingError, Decoder

STEP_BYTES: Final = 256 * 1024  # decoded in one turn, about a millisecond


class DecodedSink(Protocol):
    """Where the decoded body goes."""

    held_bytes: int

    def pass_on(self, piece: bytes) -> None: ...

    def decoded(self) -> None:
        """Called when everything that came has been passed on."""

    def whole(self) -> None: ...

    def fail(self, fault: Exception) -> None: ...


class PausableSource(Protocol):
    """The source of the coded body."""

    def hold_back(self) -> None: ...

    def may_go_on(self) -> None: ...

    def abort(self) -> None: ...


class AnswerDecoding:
    """`may_begin`: the answer's head may leave, since its body is what it says as far as it came.

    `paused`: the caller takes no more. `live`: each piece is of use at once, so that the head waits for none.
    """

    __slots__ = (
        "_coded",
        "_decoder",
        "_ended",
        "_over",
        "_parts",
        "_scheduled",
        "_sink",
        "_source",
        "may_begin",
        "paused",
    )

    def __init__(self, decoder: Decoder, sink: DecodedSink, source: PausableSource, *, live: bool) -> None:
        self._decoder = decoder
        self._sink = sink
        self._source: PausableSource | None = source
        self._coded: deque[bytes] = deque()
        self._parts: Iterator[bytes] | None = None
        self._ended = False
        self._over = False
        self._scheduled = False
        self.may_begin = live
        self.paused = False

    def feed(self, piece: bytes) -> None:
        self._coded.append(piece)
        self._sink.held_bytes += len(piece)
        self._go_on()

    def end(self) -> None:
        """The coded body has come to its end."""
        self._ended, self._source = True, None  # which may serve somebody else from now on
        self._go_on()

    def stop(self) -> None:
        """Stop decoding, since nobody needs the rest."""
        self._over = True
        self._coded.clear()

    def resume(self) -> None:
        """Go on in the next turn: the caller's transport says in the middle of a write that it takes more."""
        self.paused = False
        if not (self._scheduled or self._over):
            self._schedule()

    def _go_on(self) -> None:
        if not (self._scheduled or self.paused or self._over):
            self._step()

    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        self._scheduled = False
        if self.paused or self._over:
            return
        try:
            exhausted = self._decode(STEP_BYTES)
        except CodingError as fault:
            self._over = True
            self._sink.fail(fault)
            if self._source is not None:
                self._source.abort()
            return
        if not exhausted:
            if not self.paused:
                self._schedule()
            return
        self.may_begin = True
        if self._ended:
            self._over = True
            self._sink.whole()
        else:
            self._sink.decoded()
            if self._source is not None:
                self._source.may_go_on()

    def _decode(self, most: int) -> bool:
        """Decode; return whether all that came has been decoded.

        `paused` and `most` end it before. Raises CodingError.
        """
        passed = 0
        while passed < most and not self.paused:
            if self._parts is None:
                if not self._coded:
                    if self._ended:
                        self._decoder.finish()
                    return True
                piece = self._coded.popleft()
                self._sink.held_bytes -= len(piece)
                self._parts = self._decoder.feed(piece)
            part = next(self._parts, None)
            if part is None:
                self._parts = None
            elif part:
                passed += len(part)
                self.may_begin = True
                self._sink.pass_on(part)
        return False
