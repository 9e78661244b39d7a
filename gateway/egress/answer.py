"""An answer on its way in: what has arrived and has not been read yet, and how it ends."""

import asyncio
from typing import Protocol

from gateway.egress.errors import EgressError
from gateway.wire.answer_head import AnswerHead


class Source(Protocol):
    """The connection that an answer arrives on."""

    def may_go_on(self) -> None: ...

    def abort(self) -> None: ...

    def switch(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]: ...


class Answer:
    """See `Exchange`. `source` is its connection, None once that has nothing more to do with it.

    Only the connection calls `feed`, `end` and `fail`; each may come before anyone reads. `held_bytes` are unread.
    """

    __slots__ = (
        "_ended",
        "_fault",
        "_pieces",
        "_reader",
        "headers",
        "held_bytes",
        "length",
        "reason",
        "source",
        "status",
    )

    def __init__(self, head: AnswerHead, source: Source) -> None:
        self.status = head.status
        self.reason = head.reason
        self.headers = head.fields
        self.length = head.length
        self.source: Source | None = source
        self.held_bytes = 0
        self._pieces: list[bytes] = []
        self._ended = False
        self._fault: EgressError | None = None
        self._reader: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        while not self._pieces:
            if self._fault is not None:
                raise self._fault
            if self._ended:
                return b""
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        pieces = self._pieces
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.held_bytes = 0
        if self.source is not None:
            self.source.may_go_on()
        return piece

    def close(self) -> None:
        if self.source is not None:
            self.source.abort()
            self.source = None
        if not self._ended:
            self._pieces.clear()
            self.fail(EgressError("protocol", "The exchange was given up before its end."))

    def switch(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]:
        """After status 101: hand the connection over to `protocol`, with reading paused, and what has come already.

        From here on the transport is the caller's to close.
        """
        source, self.source = self.source, None
        if self.status != 101 or source is None:
            raise EgressError("protocol", "The exchange did not switch protocols.")
        return source.switch(protocol)

    @property
    def fault(self) -> EgressError | None:
        return self._fault

    def feed(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.held_bytes += len(piece)
        self._wake()

    def end(self) -> None:
        """All has come that there is."""
        self._ended = True
        self._wake()

    def fail(self, fault: EgressError) -> None:
        """What has come can still be read, then `fault` is raised."""
        if not self._ended and self._fault is None:
            self._fault = fault
            self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
