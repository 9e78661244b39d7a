"""Keeps the numbers of one process in memory that all processes of a gateway share (ADR 15).

Each process writes only its own page; any process may read every page at any time. A cell is eight aligned bytes, so a
reader sees the number either before or after an addition. After the cells come the entries: lines of JSON that assign
cells to keys. Entries are only appended; the first cell holds the number of valid bytes. A page stays when its process
exits, and the replacement of a worker continues with the same numbers.
"""

import json
import mmap
import os
from collections.abc import Iterator
from typing import Final, TypeAlias

Key: TypeAlias = tuple[str, ...]

CELLS: Final = 1 << 17
ENTRY_BYTES: Final = 7 << 20  # the system allocates memory only for the parts that were written
SPARE_CELLS: Final = 64  # the last cells, for counts without room in the page; never read
PAGE_BYTES: Final = CELLS * 8 + ENTRY_BYTES
# The indexes of the first cells: the number of valid bytes of entries; the time of the owner's last `publish`; the
# first cell for numbers.
USED_BYTES, PUBLISHED_AT, FIRST_CELL = range(3)


class PageFull(Exception):
    """The page has no room for another key."""


class MetricsPage:
    """The numbers of one process.

    `cells`: the numbers.
    `memory`: `PAGE_BYTES` bytes, all zero before their first use.
    """

    def __init__(self, memory: memoryview) -> None:
        self.cells = memory[: CELLS * 8].cast("d")
        self._entries = memory[CELLS * 8 :]
        self._cells_by_key: dict[Key, tuple[int, int]] = {}
        self._read_bytes = 0
        self._next_free_cell = FIRST_CELL

    @classmethod
    def for_one_process(cls) -> "MetricsPage":
        """Return a page that no other process reads. After a fork, the child has its own copy."""
        return cls(memoryview(mmap.mmap(-1, PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)))

    def first_cell(self, key: Key, width: int = 1) -> int:
        """Return the index of the first of `width` cells for `key`; a new key's cells are 0.

        Only the process that owns the page may call this method. Raises PageFull.
        """
        self._read_new_entries()
        cells = self._cells_by_key.get(key)
        if cells is not None:
            return cells[0]
        line = json.dumps([width, *key]).encode() + b"\n"
        line_end = self._read_bytes + len(line)
        if line_end > ENTRY_BYTES or self._next_free_cell + width > CELLS - SPARE_CELLS:
            raise PageFull
        self._entries[self._read_bytes : line_end] = line
        self.cells[USED_BYTES] = line_end
        self._read_new_entries()
        return self._cells_by_key[key][0]

    def read(self) -> Iterator[tuple[Key, list[float]]]:
        """Yield every key (the name of a metric, with label values) and its numbers."""
        self._read_new_entries()
        for key, (first_cell, width) in self._cells_by_key.items():
            yield key, list(self.cells[first_cell : first_cell + width])

    def _read_new_entries(self) -> None:
        """Read the entries that were appended since the last call."""
        used_bytes = int(self.cells[USED_BYTES])
        if used_bytes == self._read_bytes:
            return
        for line in bytes(self._entries[self._read_bytes : used_bytes]).splitlines(keepends=True):
            try:
                width, *key = json.loads(line)
            except ValueError:
                # Writes of another process can become visible in another order. The next call reads the whole entry.
                return
            self._cells_by_key[tuple(key)] = (self._next_free_cell, width)
            self._next_free_cell += width
            self._read_bytes += len(line)


class SharedPages:
    """One page for each of `page_count` processes.

    `descriptor`: the file descriptor of an unnamed file that the processes share; -1: memory of this process alone.
    """

    def __init__(self, page_count: int, descriptor: int = -1) -> None:
        size_bytes = page_count * PAGE_BYTES
        if descriptor >= 0 and os.fstat(descriptor).st_size < size_bytes:
            os.ftruncate(descriptor, size_bytes)
        self._memory = memoryview(mmap.mmap(descriptor, size_bytes))
        self.pages = [MetricsPage(self._memory[n * PAGE_BYTES : (n + 1) * PAGE_BYTES]) for n in range(page_count)]
