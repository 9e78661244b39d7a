"""A client that sends exactly the given bytes and returns exactly the received bytes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.fakes.patience import PATIENCE_S


@dataclass(frozen=True, slots=True)
class RawResponse:
    """A response as received. `rest`: the bytes after the response."""

    line: str
    headers: dict[str, str]
    body: bytes
    rest: bytes

    @property
    def status(self) -> int:
        return int(self.line.split(" ")[1])

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.body)["error"]
        return error


def parsed(raw: bytes, *, head_only: bool = False) -> RawResponse:
    """Return the first response in `raw`, framed by its Content-Length. `head_only`: the response belongs to a HEAD
    request.
    """
    head, separator, rest = raw.partition(b"\r\n\r\n")
    assert separator, f"no complete head in {raw!r}"
    line, *fields = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    length = 0 if head_only else int(headers.get("content-length", "0"))
    return RawResponse(line, headers, rest[:length], rest[length:])


class RawClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def until_closed(self) -> bytes:
        """Return all bytes until the connection ends, by a close or by a reset."""
        seen = bytearray()
        async with asyncio.timeout(PATIENCE_S):
            try:
                while piece := await self.reader.read(65536):
                    seen += piece
            except ConnectionError:
                pass
        return bytes(seen)

    async def until_clean_end(self) -> None:
        """Return all bytes until the connection is closed properly. Raises ConnectionResetError if the connection is
        reset.
        """
        async with asyncio.timeout(PATIENCE_S):
            while await self.reader.read(65536):
                pass

    async def until(self, mark: bytes) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readuntil(mark)

    async def exactly(self, size: int) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.readexactly(size)

    async def response(self) -> RawResponse:
        """Return the next response, framed by its Content-Length. Bytes after the response stay unread."""
        head = await self.until(b"\r\n\r\n")
        length = parsed(head, head_only=True).headers.get("content-length", "0")
        return parsed(head + await self.exactly(int(length)))


@asynccontextmanager
async def dial(port: int) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


async def exchange(port: int, data: bytes) -> bytes:
    """Send `data`. Return everything that is received until the connection ends."""
    async with dial(port) as client:
        client.send(data)
        return await client.until_closed()
