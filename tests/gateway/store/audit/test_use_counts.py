"""Counts of the use of credentials, in a real database. Each count is a sum per connection, key and hour."""

from datetime import UTC, datetime, timedelta

import pytest

from gateway import clock
from gateway.records.audit import CredentialUseCount, CredentialUseFilter, CredentialUseRef
from gateway.records.filters import single_or_any_set
from gateway.store import Store
from tests.gateway.store.conftest import REF, new

HOUR = datetime(2026, 1, 2, 3, tzinfo=UTC)


def count(hour: int, connection: str, key: int, calls: int, failed: int = 0) -> CredentialUseCount:
    return CredentialUseCount(
        HOUR + timedelta(hours=hour), CredentialUseRef("dev", "jira", connection, key), calls, failed
    )


def use_filter(since: int, until: int, **extra: object) -> CredentialUseFilter:
    return CredentialUseFilter("dev", HOUR + timedelta(hours=since), HOUR + timedelta(hours=until), **extra)  # type: ignore[arg-type]


async def test_uses_of_a_key_are_listed_and_counted_for_a_period(store: Store) -> None:
    await store.uses.add_many([count(0, "a", 1, 5, 1), count(1, "a", 1, 7), count(1, "b", 1, 2), count(1, "a", 2, 9)])
    await store.uses.add_many([count(1, "a", 1, 3, 2), count(4, "a", 1, 100)])
    page = await store.uses.find(use_filter(0, 2, key_ids=single_or_any_set(1)))
    assert [(use.connection_id, calls, failed) for use, calls, failed in page.uses] == [("a", 15, 3), ("b", 2, 0)]
    assert (page.calls, page.failed, page.connections) == (17, 3, 2)
    assert (await store.uses.find(use_filter(1, 2, key_ids=single_or_any_set(1), connection_id="a"))).calls == 10
    assert (await store.uses.find(use_filter(5, 9))).uses == []


async def test_first_use_in_an_hour_sets_the_time_of_the_last_fetch(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.connections.put(new(), now=HOUR)
    use = CredentialUseCount(HOUR, CredentialUseRef(*REF, 1), 1, 0)
    seen = []
    for minutes in (5, 50, 65):
        now = HOUR + timedelta(minutes=minutes)
        monkeypatch.setattr(clock, "now", lambda now=now: now)
        await store.uses.add_many([use])
        row = await store.connections.get(REF)
        assert row is not None
        assert row.last_fetched_at is not None
        seen.append(row.last_fetched_at - HOUR)
    assert seen == [timedelta(minutes=5), timedelta(minutes=5), timedelta(minutes=65)]
    await store.connections.touch_fetched(REF, now=HOUR + timedelta(hours=3))
    await store.uses.add_many([use])
    row = await store.connections.get(REF)
    assert row is not None
    assert row.last_fetched_at == HOUR + timedelta(hours=3), "a batch does not replace a later time"


async def test_limit_hides_rows_but_keeps_their_calls_in_the_total(store: Store) -> None:
    await store.uses.add_many([count(0, f"c{number}", 1, number) for number in range(1, 301)])
    page = await store.uses.find(use_filter(0, 1, limit=2))
    assert [use.connection_id for use, _, _ in page.uses] == ["c300", "c299"]
    assert (page.calls, page.connections) == (300 * 301 // 2, 300)


async def test_old_hours_are_removed(store: Store) -> None:
    await store.uses.add_many([count(hour, "a", 1, 1) for hour in range(5)])
    assert await store.uses.prune(HOUR + timedelta(hours=3)) == 3
    assert (await store.uses.find(use_filter(0, 9))).calls == 2
