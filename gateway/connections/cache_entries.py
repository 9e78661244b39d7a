"""The connections in memory, with a heap of the times when each is due: entries that are not due cost no CPU time."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from sys import getsizeof
from typing import Any, Final

from gateway.connections.opened import Opened
from gateway.records.connection import Connection, ConnectionRef

SPARE: Final = 64
ENTRY_BYTES: Final = 1000  # size of an entry without credential and settings, including its place in dict and heap


@dataclass(slots=True)
class CacheEntry:
    """An entry of the cache. `good_until` (monotonic seconds): until then `opened` may be used without further checks.

    `refresh_at` (monotonic seconds): when the token is refreshed in the background, even without a request. `due_at`
    (monotonic seconds) and `size` (bytes, without `opened`) are set by `CacheEntries`.
    """

    connection: Connection
    opened: Opened | None = None
    good_until: float = 0.0
    used_at: float = 0.0
    refresh_at: float | None = None
    due_at: float = 0.0
    size: int = 0

    def next_due(self, ttl_s: float) -> float:
        """Return when the entry must be closed, refreshed or (unused for `ttl_s`) evicted, whichever is first."""
        due = self.used_at + ttl_s
        if self.opened is not None and self.good_until < due:
            due = self.good_until
        if self.refresh_at is not None and self.refresh_at < due:
            due = self.refresh_at
        return due


class CacheEntries:
    """The entries of the connection cache. If the cache is full, the entry that was put longest ago is evicted.
    `bytes_held`: approximate size of all entries, without their opened connections."""

    def __init__(self) -> None:
        self.bytes_held = 0
        self._kept: dict[ConnectionRef, CacheEntry] = {}
        self._due: list[
            tuple[float, ConnectionRef]
        ] = []  # a heap; an item is valid only if it equals its entry's `due_at`
        self.get = self._kept.get  # bound directly for speed: the hot path calls it once per request

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, ref: ConnectionRef) -> bool:
        return ref in self._kept

    def items(self) -> list[tuple[ConnectionRef, CacheEntry]]:
        return list(self._kept.items())

    def values(self) -> list[CacheEntry]:
        return list(self._kept.values())

    def put(self, kept: CacheEntry, *, ttl_s: float, most: int, most_bytes: int) -> None:
        ref = kept.connection.ref
        self.drop(ref)
        kept.size = size_of(kept.connection)
        while self._kept and (len(self._kept) >= most or self.bytes_held + kept.size > most_bytes):
            self.drop(next(iter(self._kept)))
        self._kept[ref] = kept
        self.bytes_held += kept.size
        self.schedule_entry(kept, ttl_s)

    def weigh(self, kept: CacheEntry) -> None:
        """Update the size of an entry after its row was replaced."""
        before, kept.size = kept.size, size_of(kept.connection)
        self.bytes_held += kept.size - before

    def drop(self, ref: ConnectionRef) -> None:
        kept = self._kept.pop(ref, None)
        if kept is not None:
            self.bytes_held -= kept.size

    def clear(self) -> None:
        self._kept.clear()
        self._due.clear()
        self.bytes_held = 0

    def schedule_entry(self, kept: CacheEntry, ttl_s: float) -> None:
        """Schedule the entry for the next time it is due."""
        kept.due_at = kept.next_due(ttl_s)
        heappush(self._due, (kept.due_at, kept.connection.ref))
        if len(self._due) > 2 * len(self._kept) + SPARE:  # most items are outdated
            self._due = [(one.due_at, ref) for ref, one in self._kept.items()]
            heapify(self._due)

    def due(self, now: float) -> Iterator[CacheEntry]:
        """Yield the entries that are due at `now`, each once. The caller passes entries that stay to
        `schedule_entry`."""
        while self._due and self._due[0][0] <= now:
            at, ref = heappop(self._due)
            kept = self._kept.get(ref)
            if kept is not None and kept.due_at == at:
                kept.due_at = 0.0
                yield kept


def size_of(connection: Connection) -> int:
    """Return the approximate size in bytes of a row that is not opened."""
    size = ENTRY_BYTES
    for sealed in (connection.credential, connection.secret_config, connection.previous):
        if sealed is not None:
            size += len(sealed.ciphertext)
    user = connection.end_user
    parts: tuple[Any, ...] = (connection.config, connection.metadata, connection.tags)
    if user is not None:
        parts += (user.id, user.email, user.display_name, user.tags, user.organization_id)
    for part in parts:
        if part:
            size += _size_of_value(part)
    return size


def _size_of_value(value: Any) -> int:
    """Return the size of a JSON value of any depth."""
    size, left = 0, [value]
    while left:
        one = left.pop()
        size += getsizeof(one)
        if isinstance(one, dict):
            left += one.keys()
            left += one.values()
        elif isinstance(one, list):
            left += one
    return size
