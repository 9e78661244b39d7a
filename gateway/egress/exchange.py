"""One request and its answer, as the proxy sees them. All that `forward` knows of the transport below."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from gateway.wire.fields import Fields


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes to send as they come. `length` None: sent chunked, since the sender did not say how many.

    `whole`: all of them, where they are at hand; they leave together with the head, and `pieces` is not read.
    """

    pieces: AsyncIterator[bytes]
    length: int | None
    whole: bytes | None = None


class Exchange(Protocol):
    """An answer whose head has arrived.

    `length` is the declared Content-Length. `headers` keeps order, duplicates and case, and bytes that are not UTF-8 as
    lone surrogates; so does `reason`.
    """

    status: int
    reason: str
    headers: Fields
    length: int | None

    async def read(self) -> bytes:
        """Some bytes of the body as soon as there are any; ``b""`` at its clean end. Raises EgressError."""

    def switch(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes]:
        """After status 101: hand the connection over to `protocol`, reading paused, with what has come already.

        From here on the transport is the caller's to close. Raises EgressError.
        """

    def close(self) -> None:
        """Be done with it: an answer not read to its end takes its connection along at once. May be called twice."""
