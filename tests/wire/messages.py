"""HTTP/1.1 messages as bytes: a writer that adds nothing, and a reader that accepts only unambiguous messages."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tests.fakes.gateways import SECRET_KEY

HOST: Final = b"Host: gw.example\r\n"
KEY: Final = b"Authorization: Bearer " + SECRET_KEY.encode() + b"\r\n"
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
CLOSE: Final = b"Connection: close\r\n"

Field = tuple[bytes, bytes]
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{1,16}")


def connection_fields(integration: bytes = b"wire", connection: bytes = b"c1") -> bytes:
    return b"Provider-Config-Key: " + integration + b"\r\nConnection-Id: " + connection + b"\r\n"


OURS: Final = HOST + KEY + connection_fields()


def request(
    target: bytes = b"/proxy/x",
    fields: bytes = b"",
    body: bytes = b"",
    *,
    method: bytes = b"GET",
    version: bytes = b"HTTP/1.1",
    gateway_fields: bytes = OURS,
) -> bytes:
    """Return the bytes of a request. `fields`: whole header lines, written after `gateway_fields`."""
    return method + b" " + target + b" " + version + b"\r\n" + gateway_fields + fields + b"\r\n" + body


def upload(fields: bytes = b"", body: bytes = b"", *, method: bytes = b"POST", target: bytes = b"/proxy/x") -> bytes:
    return request(target, fields, body, method=method)


def sized_upload(body: bytes, fields: bytes = b"") -> bytes:
    """Return an upload request with a declared length."""
    return upload(fields + b"Content-Length: %d\r\n" % len(body), body)


class Misframed(Exception):
    """The message is ambiguous or invalid."""


@dataclass(frozen=True, slots=True)
class Head:
    """`raw`: all bytes up to and including the empty line."""

    raw: bytes
    start: bytes
    fields: tuple[Field, ...]

    def all(self, name: str) -> list[bytes]:
        return [value for field, value in self.fields if field.lower() == name.encode()]

    def one(self, name: str) -> bytes | None:
        values = self.all(name)
        if len(values) > 1:
            raise Misframed(f"{name} stands {len(values)} times in {self.raw!r}")
        return values[0] if values else None

    @property
    def lines(self) -> list[bytes]:
        return self.raw.split(b"\r\n")[1:-2]


def parse_head(raw: bytes) -> Head:
    """Parse a head. Raises Misframed for every head that a strict reader of RFC 9112 refuses."""
    start, *lines = raw.removesuffix(b"\r\n\r\n").split(b"\r\n")
    fields = []
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise Misframed(f"no field: {line!r}")
        fields.append((found[1], found[2]))
    if re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", start):
        raise Misframed(f"control bytes in {start!r}")
    return Head(raw, start, tuple(fields))


@dataclass(frozen=True, slots=True)
class Body:
    """A body. `framing`: ``none``, ``length``, ``chunks`` or ``close``. `raw`: the body with its framing, as received."""

    data: bytes
    framing: str
    raw: bytes = b""
    trailers: tuple[Field, ...] = ()


async def read_body(reader: asyncio.StreamReader, head: Head, *, without: str) -> Body:
    """Read the body after `head`. `without`: the framing of a body that declares none, ``none`` or ``close``.

    Raises Misframed. Raises asyncio.IncompleteReadError with the received bytes if the connection ends early.
    """
    codings, length = head.all("transfer-encoding"), head.one("content-length")
    if codings:
        if codings != [b"chunked"] or length is not None:
            raise Misframed(f"two framings in {head.raw!r}")
        return await _read_chunks(reader)
    if length is not None:
        if not length.isdigit():
            raise Misframed(f"no length: {length!r}")
        return Body(await reader.readexactly(int(length)), "length")
    return Body(await reader.read() if without == "close" else b"", without)


async def _read_chunks(reader: asyncio.StreamReader) -> Body:
    data, raw = bytearray(), bytearray()

    async def take(step: Callable[[], Awaitable[bytes]]) -> bytes:
        try:
            piece = await step()
        except asyncio.IncompleteReadError as fault:
            raise asyncio.IncompleteReadError(bytes(data) + fault.partial, None) from None
        raw.extend(piece)
        return piece

    while True:
        line = (await take(lambda: reader.readuntil(b"\r\n")))[:-2]
        if not _SIZE.fullmatch(line):
            raise Misframed(f"no chunk size: {line!r}")
        if not (size := int(line, 16)):
            break
        data += await take(lambda size=size: reader.readexactly(size))  # type: ignore[misc]
        if await take(lambda: reader.readexactly(2)) != b"\r\n":
            raise Misframed("a chunk is longer than its size")
    trailers = []
    while (line := await take(lambda: reader.readuntil(b"\r\n"))) != b"\r\n":
        found = _FIELD.fullmatch(line[:-2])
        if found is None:
            raise Misframed(f"no trailer: {line!r}")
        trailers.append((found[1], found[2]))
    return Body(bytes(data), "chunks", bytes(raw), tuple(trailers))
