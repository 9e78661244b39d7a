"""Memory that the workers of one gateway share: each writes its own numbers, and whoever is asked reads all of them.

It is made before the workers are forked. A worker has two halves and writes them in turn, so that neither a reader nor a
worker's sudden end meets a half-written one; the checksum tells a reader that was overtaken twice.
"""

import mmap
import struct
from typing import Final
from zlib import crc32

HALF_BYTES: Final = 4 << 20  # for some ten thousand integrations; memory is taken only as far as it is written
HEAD: Final = struct.Struct("<QII")  # turn, length, checksum; the half with the higher turn is the newer one
TRIES: Final = 3


class TooLarge(Exception):
    """The numbers do not fit into a half."""


class Board:
    """One slot for each of `workers`."""

    def __init__(self, workers: int, half_bytes: int = HALF_BYTES) -> None:
        self.workers = workers
        self._half_bytes = half_bytes
        self._memory = mmap.mmap(-1, workers * 2 * half_bytes)

    def write(self, slot: int, told: bytes) -> None:
        """Replace what `slot` says. Raises TooLarge."""
        if len(told) > self._half_bytes - HEAD.size:
            raise TooLarge
        turns = [self._head(slot, half)[0] for half in (0, 1)]
        half = turns.index(min(turns))
        at = self._at(slot, half)
        self._memory[at + HEAD.size : at + HEAD.size + len(told)] = told
        HEAD.pack_into(self._memory, at, max(turns) + 1, len(told), crc32(told))

    def read(self, slot: int) -> bytes:
        """What `slot` said last; nothing if it has not said anything, or is overtaken at every try."""
        for _ in range(TRIES):
            half = max((0, 1), key=lambda half: self._head(slot, half)[0])
            turn, length, checksum = self._head(slot, half)
            if not turn:
                return b""
            at = self._at(slot, half) + HEAD.size
            told = self._memory[at : at + length]
            if crc32(told) == checksum:
                return told
        return b""

    def _at(self, slot: int, half: int) -> int:
        return (2 * slot + half) * self._half_bytes

    def _head(self, slot: int, half: int) -> tuple[int, int, int]:
        turn, length, checksum = HEAD.unpack_from(self._memory, self._at(slot, half))
        return turn, min(length, self._half_bytes - HEAD.size), checksum
