"""A body that is made while it is sent."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from typing import Any

from gateway.client.message import Body


class Upload:
    """The pieces of an iterable. One without ``async`` is asked in a thread, so that it may wait.

    `fault` is what the iterable itself raised, which would else be told as a connection that broke.
    """

    def __init__(self, source: Iterable[bytes] | AsyncIterable[bytes]) -> None:
        self._source = source
        self.fault: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        source = self._source
        try:
            async for piece in source if isinstance(source, AsyncIterable) else _in_a_thread(source):
                if piece:
                    yield piece
        except Exception as fault:
            self.fault = fault
            raise


def sent_as(body: Body) -> Any:
    """`body` as aiohttp takes it."""
    if isinstance(body, bytes | bytearray | memoryview | str | Mapping) or hasattr(body, "read"):
        return body
    return Upload(body)


async def _in_a_thread(source: Iterable[bytes]) -> AsyncIterator[bytes]:
    pieces = iter(source)
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
