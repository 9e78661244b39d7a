"""The numbers of one worker, in memory that all workers of a gateway have in common.

Only its owner writes a page, anybody reads it at any moment: a cell is eight aligned bytes, so what is read is the number
from before an addition or from after it. Which cells belong to which key is told by entries, lines of JSON behind the
cells, which are only ever appended and count once the first cell says so. A page outlives its owner: who takes the place
over goes on with the same numbers.
"""

import json
import mmap
import os
from collections.abc import Iterator
from typing import Final, TypeAlias

Key: TypeAlias = tuple[str, ...]

CELLS: Final = 1 << 17
ENTRY_BYTES: Final = 7 << 20  # of both, only what has been written to takes memory
SPARE_CELLS: Final = 64  # at the end, for counts that find no room: never read
PAGE_BYTES: Final = CELLS * 8 + ENTRY_BYTES
USED, SEEN_AT, FIRST = range(
    3
)  # bytes of entries that count; when its owner was last known to live; the first free cell


class PageFull(Exception):
    """There is no room for another key."""


class Page:
    """`cells` are its numbers. `memory` holds PAGE_BYTES, zero before the first owner."""

    def __init__(self, memory: memoryview) -> None:
        self.cells = memory[: CELLS * 8].cast("d")
        self._entries = memory[CELLS * 8 :]
        self._places: dict[Key, tuple[int, int]] = {}
        self._read = 0
        self._free = FIRST

    @classmethod
    def alone(cls) -> "Page":
        """One that no other process reads; a fork gets a copy."""
        return cls(memoryview(mmap.mmap(-1, PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)))

    def place(self, key: Key, width: int = 1) -> int:
        """The first of the `width` cells of `key`, which begin at 0. For the owner alone. Raises PageFull."""
        self._catch_up()
        known = self._places.get(key)
        if known is not None:
            return known[0]
        line = json.dumps([width, *key]).encode() + b"\n"
        end = self._read + len(line)
        if end > ENTRY_BYTES or self._free + width > CELLS - SPARE_CELLS:
            raise PageFull
        self._entries[self._read : end] = line
        self.cells[USED] = end
        self._catch_up()
        return self._places[key][0]

    def read(self) -> Iterator[tuple[Key, list[float]]]:
        """Every key with its numbers."""
        self._catch_up()
        for key, (at, width) in self._places.items():
            yield key, list(self.cells[at : at + width])

    def _catch_up(self) -> None:
        """Take note of entries that have been appended since."""
        used = int(self.cells[USED])
        if used == self._read:
            return
        for line in bytes(self._entries[self._read : used]).splitlines(keepends=True):
            try:
                width, *key = json.loads(line)
            except ValueError:  # on a processor that shows another's writes out of order: next time it is there
                return
            self._places[tuple(key)] = (self._free, width)
            self._free += width
            self._read += len(line)


class Board:
    """A page for each of `pages` processes. `descriptor`: of a file without a name that they all have; -1: this process's own."""

    def __init__(self, pages: int, descriptor: int = -1) -> None:
        size = pages * PAGE_BYTES
        if descriptor >= 0 and os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)
        self._memory = memoryview(mmap.mmap(descriptor, size))
        self.pages = [Page(self._memory[n * PAGE_BYTES : (n + 1) * PAGE_BYTES]) for n in range(pages)]
