"""A cache entry is due once, at its newest due time, without a search of all entries."""

import pickle
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from gateway.connections.cache_entries import ENTRY_BYTES, CacheEntries, CacheEntry
from gateway.connections.opened import OpenedConnection
from gateway.records.connection import Connection, ConnectionRef, Sealed
from gateway.store.connection_rows import connection_of
from gateway.store.tables import connections

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OPENED = cast("OpenedConnection", object())
TTL_S = 600.0


def new_entry(name: str = "a", **fields: Any) -> CacheEntry:
    ref = ConnectionRef("dev", "jira", name)
    sealed = Sealed(b"", environment="dev", table="connections", row="u", column="credential", version=1)
    row = Connection(
        ref=ref,
        id=1,
        uid="u",
        provider="jira",
        version=1,
        credential=sealed,
        expires_at=None,
        created_at=NOW,
        updated_at=NOW,
    )
    return CacheEntry(row, **fields)


def put(entries: CacheEntries, entry: CacheEntry, max_entries: int = 9, max_bytes: int = 1 << 30) -> CacheEntry:
    entries.put(entry, ttl_s=TTL_S, max_entries=max_entries, max_bytes=max_bytes)
    return entry


def due_ids(entries: CacheEntries, now: float) -> list[str]:
    return [entry.connection.ref.connection_id for entry in entries.due(now)]


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"used_at": 5.0}, 605.0),
        ({"used_at": 5.0, "good_until": 60.0}, 605.0),
        ({"used_at": 5.0, "good_until": 60.0, "opened": OPENED}, 60.0),
        ({"used_at": 5.0, "good_until": 60.0, "opened": OPENED, "refresh_at": 30.0}, 30.0),
        ({"used_at": 5.0, "good_until": 60.0, "opened": OPENED, "refresh_at": 300.0}, 60.0),
    ],
)
def test_entry_is_due_at_its_earliest_due_time(fields: dict[str, Any], at: float) -> None:
    assert new_entry(**fields).next_due(TTL_S) == at


def test_due_entries_come_once_and_in_order() -> None:
    entries = CacheEntries()
    for name, at in (("late", 30.0), ("soon", 10.0), ("later", 40.0)):
        put(entries, new_entry(name, used_at=0.0, refresh_at=at))
    assert due_ids(entries, 9.0) == []
    assert due_ids(entries, 30.0) == ["soon", "late"]
    assert due_ids(entries, 30.0) == []
    assert due_ids(entries, 99.0) == ["later"]


def test_replaced_entry_is_due_only_at_its_new_time() -> None:
    entries = CacheEntries()
    put(entries, new_entry(used_at=0.0, refresh_at=10.0))
    put(entries, new_entry(used_at=0.0, refresh_at=20.0))
    assert due_ids(entries, 15.0) == []
    assert due_ids(entries, 20.0) == ["a"]


def test_checked_entry_is_due_again() -> None:
    entries = CacheEntries()
    entry = put(entries, new_entry(used_at=0.0, refresh_at=10.0))
    assert due_ids(entries, 10.0) == ["a"]
    entry.refresh_at = None
    entries.schedule_entry(entry, TTL_S)
    assert due_ids(entries, 599.0) == []
    assert due_ids(entries, 600.0) == ["a"]


def test_removed_entry_is_not_due() -> None:
    entries = CacheEntries()
    put(entries, new_entry("a", used_at=0.0, refresh_at=10.0))
    put(entries, new_entry("b", used_at=0.0, refresh_at=10.0))
    entries.drop(ConnectionRef("dev", "jira", "a"))
    assert due_ids(entries, 10.0) == ["b"]
    put(entries, new_entry("c", used_at=0.0, refresh_at=10.0))
    entries.clear()
    assert due_ids(entries, 99.0) == []
    assert len(entries) == 0


def test_outdated_due_times_do_not_accumulate() -> None:
    entries = CacheEntries()
    for n in range(1000):
        put(entries, new_entry(used_at=float(n), opened=OPENED, good_until=n + 60.0))
    assert len(entries._due) < 100
    assert due_ids(entries, 999 + 59.0) == []
    assert due_ids(entries, 999 + 60.0) == ["a"]


def test_oldest_entry_is_evicted() -> None:
    entries = CacheEntries()
    for name in "abac":
        put(entries, new_entry(name, used_at=0.0), max_entries=2)
    assert [ref.connection_id for ref, _ in entries.items()] == ["a", "c"]
    assert entries.get(ConnectionRef("dev", "jira", "b")) is None


def test_oldest_entry_is_evicted_when_the_byte_limit_is_reached() -> None:
    entries = CacheEntries()
    for name in "abc":
        put(entries, new_entry(name), max_bytes=3 * ENTRY_BYTES)
    assert len(entries) == 3
    put(entries, new_entry("d"), max_bytes=3 * ENTRY_BYTES)
    assert [ref.connection_id for ref, _ in entries.items()] == ["b", "c", "d"]
    assert entries.bytes_held == 3 * ENTRY_BYTES
    large = put(entries, with_metadata("e", {"text": "x" * 2 * ENTRY_BYTES}), max_bytes=3 * ENTRY_BYTES)
    assert [ref.connection_id for ref, _ in entries.items()] == ["e"]
    assert entries.bytes_held == large.size > 3 * ENTRY_BYTES  # one entry is kept, however large it is
    large.connection = new_entry("e").connection
    entries.update_size(large)
    assert entries.bytes_held == ENTRY_BYTES
    entries.drop(large.connection.ref)
    entries.drop(large.connection.ref)
    assert entries.bytes_held == 0
    put(entries, new_entry("f"))
    entries.clear()
    assert entries.bytes_held == 0


def with_metadata(name: str, metadata: dict[str, Any]) -> CacheEntry:
    return CacheEntry(replace(new_entry(name).connection, metadata=metadata))


def test_estimated_size_of_an_entry_is_its_real_size() -> None:
    """The estimated size is within a fifth of `tracemalloc`'s, for rows as the store returns them, with and without
    OAuth credentials.
    """
    for ciphertext, more in ((76, {}), (600, {"config": {"instance_url": "https://acme.my.example.com"}})):
        entries = CacheEntries()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(2000):
            row = connection_of(driver_row(number, ciphertext, more))
            put(entries, CacheEntry(row, used_at=number + 0.5), max_entries=10_000)
            del row
        allocated = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert allocated / entries.bytes_held == pytest.approx(1.0, abs=0.2)
        assert allocated / 2000 <= 1150 + (
            0 if not more else ciphertext + 300
        )  # a million of the small ones fit in 1.15 GB


def driver_row(number: int, ciphertext: int, extra: dict[str, Any]) -> dict[str, Any]:
    """Return a row as a driver does: each value is a separate object."""
    at = NOW + timedelta(seconds=number)
    row: dict[str, Any] = dict.fromkeys(column.name for column in connections.columns)
    row |= {
        "environment": "production",
        "integration_id": "salesforce",
        "connection_id": f"user-{number}",
        "id": number,
    }
    row |= {
        "uid": f"{number:032x}",
        "provider": "salesforce",
        "version": 1,
        "state": "active",
        "state_reason": "authorized",
    }
    row |= {"credential": bytes(ciphertext), "config": {}, "tags": {}, "rotates": False, "end_settled": False, **extra}
    row |= {"state_since": at, "granted_at": at, "created_at": at, "updated_at": at, "last_refreshed_at": at}
    copied_row: dict[str, Any] = pickle.loads(pickle.dumps(row))
    return copied_row
