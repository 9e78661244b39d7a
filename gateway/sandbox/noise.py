"""Generates reproducible bytes: the same in every run, and different in every block, so that a test detects swapped
blocks.

A body of n bytes is the first n bytes of an endless sequence of 64 KiB blocks. A block consists of its number, as eight
bytes, and of fixed noise.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import brotli
import zstandard

BLOCK_BYTES: Final = 65536
_NOISE: Final = hashlib.shake_256(b"the sandbox").digest(BLOCK_BYTES)


class Coder(Protocol):
    """A compressor for a content coding (RFC 9110 §8.4.1), to which the input is given in pieces."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


class _Brotli:
    """Brotli's compressor, with the method names of `Coder`."""

    def __init__(self) -> None:
        self._compressor = brotli.Compressor(quality=4)

    def compress(self, data: bytes, /) -> bytes:
        compressed: bytes = self._compressor.process(data)
        return compressed

    def flush(self) -> bytes:
        compressed: bytes = self._compressor.finish()
        return compressed


CODINGS: Final[dict[str, Callable[[], Coder]]] = {
    "gzip": lambda: zlib.compressobj(6, wbits=31),
    "deflate": lambda: zlib.compressobj(6),
    "br": _Brotli,
    "zstd": lambda: zstandard.ZstdCompressor().compressobj(),
}


def pieces(start: int, end: int, *, zeros: bool = False) -> Iterator[bytes]:
    """Yield the bytes of the sequence from `start` up to, but not including, `end`.

    `zeros`: whether to yield only zero bytes, which a compressor reduces to a thousandth of their size.
    """
    while start < end:
        number, offset = divmod(start, BLOCK_BYTES)
        block = bytes(BLOCK_BYTES) if zeros else number.to_bytes(8, "big") + _NOISE[8:]
        piece = block[offset : offset + end - start]
        start += len(piece)
        yield piece


def compress(data_pieces: Iterator[bytes], coding: str) -> Iterator[bytes]:
    """Yield `data_pieces` compressed with a content coding. A piece can be empty, because compressors buffer their input."""
    encoder = CODINGS[coding]()
    for piece in data_pieces:
        yield encoder.compress(piece)
    yield encoder.flush()


def digest(size: int) -> str:
    """Return the SHA-256 of a body of `size` bytes, in hex."""
    hasher = hashlib.sha256()
    for piece in pieces(0, size):
        hasher.update(piece)
    return hasher.hexdigest()
