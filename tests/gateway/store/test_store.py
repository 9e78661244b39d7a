"""The store as a whole: rows that cannot be pruned do not block other rows, and rows of earlier releases are pruned by
age.
"""

import asyncio
from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, insert, select

from gateway.errors import Unavailable
from gateway.store import Store
from gateway.store.changes import ROWS_PER_TRANSACTION
from gateway.store.tables import request_log
from tests.gateway.store.conftest import NOW


async def fill(store: Store, seconds: int, rows: int) -> None:
    row = {"request_id": "r1", "environment": "dev", "integration_id": "jira", "connection_id": "u1", "method": "GET"}
    row |= {"host": "api.example.com", "path": "/x", "status": 200, "duration_ms": 1.5, "bytes_in": 0, "bytes_out": 7}  # type: ignore[dict-item]
    rows_ = [{**row, "at": NOW + timedelta(seconds=seconds)}] * rows
    await store.transactions.write(lambda db: db.execute(insert(request_log), rows_))


async def count(store: Store) -> int:
    async with store.transactions.read() as db:
        rows: int = (await db.execute(select(func.count()).select_from(request_log))).scalar_one()
        return rows


async def test_all_older_rows_are_pruned(store: Store) -> None:
    await fill(store, 0, 2 * ROWS_PER_TRANSACTION + 1)
    await fill(store, 10, 3)
    assert await store.prune_former_log(NOW + timedelta(seconds=10)) == 2 * ROWS_PER_TRANSACTION + 1
    assert await count(store) == 3


async def test_other_writes_run_between_prune_batches(store: Store) -> None:
    await fill(store, 0, 10 * ROWS_PER_TRANSACTION)
    pruning = asyncio.create_task(store.prune_former_log(NOW + timedelta(seconds=1)))
    between = 0
    while not pruning.done():
        await fill(store, 10, 1)
        between += not pruning.done()
    assert await pruning == 10 * ROWS_PER_TRANSACTION
    assert between >= 5


async def test_failed_prune_does_not_stop_others(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def raise_unavailable(_now: datetime) -> None:
        raise Unavailable("store_unavailable", "the statement took too long", retry_after_s=1)

    pruned = []

    async def record_prune(_now: datetime) -> None:
        pruned.append(True)

    monkeypatch.setattr(store.sessions, "prune", raise_unavailable)
    monkeypatch.setattr(store.changes, "prune", raise_unavailable)
    monkeypatch.setattr(store.refreshes, "forget_previous", record_prune)
    with pytest.raises(ExceptionGroup) as refusal:
        await store.prune(NOW)
    assert [fault.__notes__ for fault in refusal.value.exceptions] == [["connect sessions"], ["changes"]]
    assert pruned == [True]
