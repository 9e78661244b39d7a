"""The connections in memory, with a heap of the times when they are due. Entries that are not due cost no CPU time."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from sys import getsizeof
from typing import Any, Final

from gateway.connections.opened import OpenedConnection
from gateway.records.connection import Connection, ConnectionRef

SPARE_HEAP_ITEMS: Final = 64
ENTRY_BYTES: Final = 1000  # size of an entry without credential and settings, including its place in dict and heap


@dataclass(slots=True)
class CacheEntry:
    """An entry of the cache. `good_until` (monotonic seconds): the time until which `opened` may be used without
    further checks.

    `refresh_at` (monotonic seconds): when the token is refreshed in the background, even without a request; None if no
    refresh is scheduled. `CacheEntries` sets `due_at` (monotonic seconds) and `size` (bytes, without `opened`).
    """

    connection: Connection
    opened: OpenedConnection | None = None
    good_until: float = 0.0
    used_at: float = 0.0
    refresh_at: float | None = None
    due_at: float = 0.0
    size: int = 0

    def next_due(self, ttl_s: float) -> float:
        """Return when the entry next needs work: its opened connection must be dropped, its token refreshed, or the entry
        evicted. An entry is evicted after `ttl_s` seconds without use.
        """
        due = self.used_at + ttl_s
        if self.opened is not None and self.good_until < due:
            due = self.good_until
        if self.refresh_at is not None and self.refresh_at < due:
            due = self.refresh_at
        return due


class CacheEntries:
    """The entries of the connection cache. If the cache is full, the entry that was stored longest ago is evicted.
    `bytes_held`: the approximate size of all entries, without their opened connections."""

    def __init__(self) -> None:
        self.bytes_held = 0
        self._entries: dict[ConnectionRef, CacheEntry] = {}
        self._due: list[
            tuple[float, ConnectionRef]
        ] = []  # a heap; an item is valid only if its time equals the `due_at` of its entry
        self.get = self._entries.get  # bound directly for speed, because each request calls `get`

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, ref: ConnectionRef) -> bool:
        return ref in self._entries

    def items(self) -> list[tuple[ConnectionRef, CacheEntry]]:
        return list(self._entries.items())

    def values(self) -> list[CacheEntry]:
        return list(self._entries.values())

    def put(self, entry: CacheEntry, *, ttl_s: float, max_entries: int, max_bytes: int) -> None:
        ref = entry.connection.ref
        self.drop(ref)
        entry.size = size_of(entry.connection)
        while self._entries and (len(self._entries) >= max_entries or self.bytes_held + entry.size > max_bytes):
            self.drop(next(iter(self._entries)))
        self._entries[ref] = entry
        self.bytes_held += entry.size
        self.schedule_entry(entry, ttl_s)

    def update_size(self, entry: CacheEntry) -> None:
        """Update the size of an entry after its row was replaced."""
        old_size, entry.size = entry.size, size_of(entry.connection)
        self.bytes_held += entry.size - old_size

    def drop(self, ref: ConnectionRef) -> None:
        entry = self._entries.pop(ref, None)
        if entry is not None:
            self.bytes_held -= entry.size

    def clear(self) -> None:
        self._entries.clear()
        self._due.clear()
        self.bytes_held = 0

    def schedule_entry(self, entry: CacheEntry, ttl_s: float) -> None:
        """Schedule the entry for the next time it is due."""
        entry.due_at = entry.next_due(ttl_s)
        heappush(self._due, (entry.due_at, entry.connection.ref))
        if len(self._due) > 2 * len(self._entries) + SPARE_HEAP_ITEMS:  # most items are outdated
            self._due = [(cached_entry.due_at, ref) for ref, cached_entry in self._entries.items()]
            heapify(self._due)

    def due(self, now: float) -> Iterator[CacheEntry]:
        """Yield each entry that is due at `now`. If an entry stays in the cache, the caller must pass it to
        `schedule_entry`."""
        while self._due and self._due[0][0] <= now:
            due_at, ref = heappop(self._due)
            entry = self._entries.get(ref)
            if entry is not None and entry.due_at == due_at:
                entry.due_at = 0.0
                yield entry


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
    for field in parts:
        if field:
            size += _size_of_value(field)
    return size


def _size_of_value(value: Any) -> int:
    """Return the size of a JSON value of any depth."""
    size, values = 0, [value]
    while values:
        part = values.pop()
        size += getsizeof(part)
        if isinstance(part, dict):
            values += part.keys()
            values += part.values()
        elif isinstance(part, list):
            values += part
    return size
