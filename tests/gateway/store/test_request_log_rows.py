"""Exchanges are written in batches and leave by age and number."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from gateway.errors import Unavailable
from gateway.records.proxied_call import ExchangeRecord
from gateway.store import Store
from gateway.store.changes import AT_ONCE
from gateway.store.tables import request_log
from tests.gateway.store.conftest import NOW, sqlite_only


def exchange(seconds: int = 0, **fields: object) -> ExchangeRecord:
    return ExchangeRecord(
        at=NOW + timedelta(seconds=seconds),
        request_id="r1",
        environment="dev",
        integration_id="jira",
        connection_id="u1",
        method="GET",
        host="api.example.com",
        path="/x",
        status=502,
        duration_ms=12.5,
        bytes_in=0,
        bytes_out=2**40,
        error_code="upstream_unreachable",
    )


async def rows(store: Store) -> int:
    async with store._transactions.read() as db:
        count: int = (await db.execute(select(func.count()).select_from(request_log))).scalar_one()
        return count


async def test_a_batch_is_stored_as_it_was(store: Store) -> None:
    await store.request_log.add_many([exchange(0), exchange(1)])
    await store.request_log.add_many([])
    async with store._transactions.read() as db:
        stored = (await db.execute(select(request_log).order_by(request_log.c.id))).mappings().all()
    assert [ExchangeRecord(**{name: row[name] for name in row if name != "id"}) for row in stored] == [
        exchange(0),
        exchange(1),
    ]


async def test_what_is_older_is_pruned_however_much_it_is(store: Store) -> None:
    await store.request_log.add_many([exchange(0)] * (2 * AT_ONCE + 1) + [exchange(10)] * 3)
    assert await store.request_log.prune(NOW + timedelta(seconds=10), max_rows=10**6) == 2 * AT_ONCE + 1
    assert await rows(store) == 3


async def test_no_more_than_so_many_are_kept_and_the_newest_stay(store: Store) -> None:
    await store.request_log.add_many([exchange(number) for number in range(AT_ONCE + 50)])
    assert await store.request_log.prune(NOW, max_rows=20) == AT_ONCE + 30
    async with store._transactions.read() as db:
        oldest = (await db.execute(select(func.min(request_log.c.at)))).scalar_one()
    assert (await rows(store), oldest) == (20, NOW + timedelta(seconds=AT_ONCE + 30))
    assert await store.request_log.prune(NOW, max_rows=20) == 0


async def test_one_whose_time_is_ahead_does_not_keep_older_ones(store: Store) -> None:
    await store.request_log.add_many([exchange(10**6)] + [exchange(0)] * (3 * AT_ONCE))
    await store.request_log.prune(NOW + timedelta(seconds=1), max_rows=10**6)
    assert await rows(store) == 1


@sqlite_only
async def test_the_file_does_not_grow_where_as_much_is_removed_as_comes(store: Store, path: Path) -> None:
    sizes = []
    for _ in range(6):
        await store.request_log.add_many([exchange()] * 5000)
        await store.request_log.prune(NOW, max_rows=5000)
        async with store._transactions.read() as db:
            sizes.append((await db.execute(text("PRAGMA page_count"))).scalar_one())
    assert sizes[-1] < 1.1 * sizes[1]  # without reuse it would be three times as large


async def test_other_writes_come_between_while_much_is_removed(store: Store) -> None:
    await store.request_log.add_many([exchange(0)] * (10 * AT_ONCE))
    pruning = asyncio.create_task(store.request_log.prune(NOW + timedelta(seconds=1), max_rows=10**6))
    between = 0
    while not pruning.done():
        await store.request_log.add_many([exchange(10)])
        between += not pruning.done()
    assert await pruning == 10 * AT_ONCE
    assert between >= 5


async def test_what_cannot_be_pruned_keeps_nothing_else(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_now: datetime) -> None:
        raise Unavailable("store_unavailable", "the statement took too long", retry_after_s=1)

    pruned = []

    async def noted(_now: datetime) -> None:
        pruned.append(True)

    monkeypatch.setattr(store.sessions, "prune", broken)
    monkeypatch.setattr(store.changes, "prune", broken)
    monkeypatch.setattr(store.refreshes, "forget_previous", noted)
    with pytest.raises(ExceptionGroup) as refusal:
        await store.prune(NOW)
    assert [fault.__notes__ for fault in refusal.value.exceptions] == [["connect sessions"], ["changes"]]
    assert pruned == [True]
