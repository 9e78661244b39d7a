"""A provider's response: read as a whole, or streamed."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy

from gateway.client.client_errors import CutShort, ProviderError


@dataclass(frozen=True, slots=True)
class Response:
    """A provider's whole response. `content`: the decompressed body."""

    status: int
    reason: str
    headers: CIMultiDictProxy[str]
    content: bytes

    def __reduce__(self) -> tuple[Any, ...]:  # a proxy of headers cannot be pickled
        return _unpickle, (self.status, self.reason, list(self.headers.items()), self.content)

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def text(self) -> str:
        """The body as text, read as UTF-8. Invalid bytes are replaced."""
        return self.content.decode("utf-8", "replace")

    @property
    def request_id(self) -> str:
        """The gateway's id of this call, which is also in its log."""
        return self.headers.get("Gateway-Request-Id", "")

    def json(self, loads: Callable[[bytes], Any] = json.loads) -> Any:
        """Return the parsed body. Raises ValueError if the body is not JSON. `loads`: the JSON parser."""
        return loads(self.content)

    def raise_for_status(self) -> Self:
        """Raise ProviderError if the status is 400 or above; else return the response itself."""
        if not self.ok:
            raise ProviderError(self)
        return self


def _unpickle(status: int, reason: str, headers: list[tuple[str, str]], content: bytes) -> Response:
    return Response(status, reason, CIMultiDictProxy(CIMultiDict(headers)), content)


class AsyncStream:
    """A streamed response: status and headers have arrived, and the body follows.

    Iterate over the response to get the pieces of its body as they arrive, or over `lines()` to get lines.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.reason = response.reason or ""
        self.headers = response.headers

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def request_id(self) -> str:
        return self.headers.get("Gateway-Request-Id", "")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield pieces of the body as they arrive. Raises CutShort."""
        pieces = self._response.content.iter_any()
        while True:
            with _cut_short():
                piece = await anext(pieces, b"")
            if not piece:
                return
            yield piece

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of the body, each without the "\\n" at its end; the last line may have none. Raises CutShort."""
        async for batch in self.several_lines():
            for line in batch:
                yield line

    async def several_lines(self) -> AsyncIterator[list[bytes]]:
        """Yield lists of lines. Each list has the complete lines received after the previous list. Raises CutShort."""
        buffer = b""
        async for piece in self:
            *lines, buffer = (buffer + piece).split(b"\n")
            if lines:
                yield lines
        if buffer:
            yield [buffer]

    async def whole(self) -> Response:
        """Return the response with its body.

        If parts of the body were read before, these are missing. Raises CutShort.
        """
        with _cut_short():
            content = await self._response.read()
        return Response(self.status, self.reason, self.headers, content)


@contextmanager
def _cut_short() -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, ConnectionError) as fault:
        raise CutShort(f"the response was interrupted: {fault!r}") from fault
