"""What is kept in memory comes due once, at the time that counts by now, and is not searched for meanwhile."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from gateway.connections.cache_entries import CacheEntries, Kept
from gateway.connections.opened import Opened
from gateway.records.connection import Connection, ConnectionRef, Sealed

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OPENED = cast("Opened", object())
TTL_S = 600.0


def kept(name: str = "a", **fields: Any) -> Kept:
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
    return Kept(row, **fields)


def put(entries: CacheEntries, one: Kept, most: int = 9) -> Kept:
    entries.put(one, ttl_s=TTL_S, most=most)
    return one


def due(entries: CacheEntries, now: float) -> list[str]:
    return [one.connection.ref.connection_id for one in entries.due(now)]


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
def test_the_first_thing_to_be_done_counts(fields: dict[str, Any], at: float) -> None:
    assert kept(**fields).next_due(TTL_S) == at


def test_each_comes_due_once_in_the_order_of_time() -> None:
    entries = CacheEntries()
    for name, at in (("late", 30.0), ("soon", 10.0), ("later", 40.0)):
        put(entries, kept(name, used_at=0.0, refresh_at=at))
    assert due(entries, 9.0) == []
    assert due(entries, 30.0) == ["soon", "late"]
    assert due(entries, 30.0) == []
    assert due(entries, 99.0) == ["later"]


def test_what_was_put_again_is_due_at_its_new_time_alone() -> None:
    entries = CacheEntries()
    put(entries, kept(used_at=0.0, refresh_at=10.0))
    put(entries, kept(used_at=0.0, refresh_at=20.0))
    assert due(entries, 15.0) == []
    assert due(entries, 20.0) == ["a"]


def test_what_is_looked_at_again_comes_due_again() -> None:
    entries = CacheEntries()
    one = put(entries, kept(used_at=0.0, refresh_at=10.0))
    assert due(entries, 10.0) == ["a"]
    one.refresh_at = None
    entries.look_again(one, TTL_S)
    assert due(entries, 599.0) == []
    assert due(entries, 600.0) == ["a"]


def test_what_is_gone_is_not_due() -> None:
    entries = CacheEntries()
    put(entries, kept("a", used_at=0.0, refresh_at=10.0))
    put(entries, kept("b", used_at=0.0, refresh_at=10.0))
    entries.drop(ConnectionRef("dev", "jira", "a"))
    assert due(entries, 10.0) == ["b"]
    put(entries, kept("c", used_at=0.0, refresh_at=10.0))
    entries.clear()
    assert due(entries, 99.0) == []
    assert len(entries) == 0


def test_times_that_count_no_more_do_not_pile_up() -> None:
    entries = CacheEntries()
    for n in range(1000):
        put(entries, kept(used_at=float(n), opened=OPENED, good_until=n + 60.0))
    assert len(entries._due) < 100
    assert due(entries, 999 + 59.0) == []
    assert due(entries, 999 + 60.0) == ["a"]


def test_the_one_put_longest_ago_makes_room() -> None:
    entries = CacheEntries()
    for name in "abac":
        put(entries, kept(name, used_at=0.0), most=2)
    assert [ref.connection_id for ref, _ in entries.items()] == ["a", "c"]
    assert entries.get(ConnectionRef("dev", "jira", "b")) is None
