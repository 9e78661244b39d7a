"""A write continues when its caller is cancelled. A database failure causes a temporary 503."""

import asyncio
import random
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs

from gateway.config import PoolConfig
from gateway.errors import Unavailable
from gateway.store import ListFilter, Store
from tests.fakes.patience import PATIENCE_S
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new, sqlite_only


async def test_a_write_continues_after_its_caller_is_cancelled(store: Store) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def insert_and_wait(db: AsyncConnection) -> None:
        await db.exec_driver_sql("INSERT INTO environments VALUES ('slow', '2026-01-01 00:00:00.000000Z')")
        reached.set()
        await go_on.wait()

    caller = asyncio.create_task(store.transactions.write(insert_and_wait))
    await reached.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go_on.set()
    async with asyncio.timeout(PATIENCE_S):
        written = None
        while written is None:
            async with store.transactions.read() as db:
                written = (await db.exec_driver_sql("SELECT 1 FROM environments WHERE name = 'slow'")).first()


async def test_no_transaction_stays_open_after_random_cancellations(store: Store, backend: str) -> None:
    chance = random.Random(2)

    async def use(n: int) -> None:
        ref = REF._replace(connection_id=f"c{n % 7}")
        await store.connections.put(new(ref), now=NOW)
        await store.refreshes.lease_refresh(ref, owner="a", ttl=timedelta(seconds=9))
        await store.connections.list("dev", ListFilter())
        await store.connections.get(ref)

    for _ in range(20):
        tasks = [asyncio.create_task(use(n)) for n in range(15)]
        for task in chance.sample(tasks, 12):
            for _ in range(chance.randrange(30)):
                await asyncio.sleep(0)
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(item) for item in ended} <= {asyncio.CancelledError, type(None)}
    stored, _ = await store.connections.put(new(), now=NOW)
    assert stored == await store.connections.get(REF)
    if backend == "sqlite":
        async with store.transactions.read() as db:
            assert (await db.exec_driver_sql("PRAGMA integrity_check")).scalar() == "ok"


async def test_closing_waits_for_running_writes(open_test_store: StoreOpener) -> None:
    store = await open_test_store()
    task = asyncio.create_task(store.connections.put(new(), now=NOW))
    await asyncio.sleep(0)
    await store.close()
    await task
    again = await open_test_store()
    assert await again.connections.get(REF)


async def test_a_failed_write_leaves_nothing_of_itself(store: Store) -> None:
    async def half(db: AsyncConnection) -> None:
        await db.exec_driver_sql("INSERT INTO environments VALUES ('half', '2026-01-01 00:00:00.000000Z')")
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        await store.transactions.write(half)
    async with store.transactions.read() as db:
        assert not (await db.exec_driver_sql("SELECT 1 FROM environments WHERE name = 'half'")).first()
    await store.connections.put(new(), now=NOW)


@sqlite_only
async def test_a_locked_database_is_unavailable_and_then_heals(open_test_store: StoreOpener, path: Path) -> None:
    store = await open_test_store(busy_s=0.5)
    await store.connections.put(new(), now=NOW)
    with sqlite3.connect(path, isolation_level=None) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked by another process") as refusal:
            await store.connections.put(new(), now=NOW)
        assert await store.connections.get(REF), "a read does not wait for a writer"
        blocker.execute("ROLLBACK")
    blocker.close()
    assert (refusal.value.status, refusal.value.code, refusal.value.retry_after_s) == (503, "store_unavailable", 5)
    await store.connections.put(new(), now=NOW)


@sqlite_only
async def test_a_full_disk_is_unavailable_and_loses_nothing(store: Store) -> None:
    await store.connections.put(new(), now=NOW)

    async def limit(pages: int) -> None:
        async def change(db: AsyncConnection) -> None:
            await db.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

        await store.transactions.write(change)

    await limit(1)
    assert not store.full
    with capture_logs() as logged:
        for _ in range(3):
            with pytest.raises(Unavailable, match="disk is full"):
                await store.connections.put(new(metadata={"much": "x" * 200_000}), now=NOW)
    assert store.full
    (line,) = [event for event in logged if event["event"] == "database_full"]
    assert (line["log_level"], line["detail"]) == ("error", "database or disk is full")
    found = await store.connections.get(REF)
    assert found is not None
    assert (found.version, found.metadata) == (1, None)
    await limit(1_000_000)
    await store.connections.put(new(metadata={"much": "x" * 200_000}), now=NOW)
    assert not store.full


@sqlite_only
async def test_a_read_only_database_is_unavailable(store: Store) -> None:
    async def forbid(db: AsyncConnection) -> None:
        await db.exec_driver_sql("PRAGMA query_only = ON")

    await store.transactions.write(forbid)
    assert not store.read_only
    with capture_logs() as logged:
        for _ in range(2):
            with pytest.raises(Unavailable, match="read-only"):
                await store.connections.put(new(), now=NOW)
    assert store.read_only
    (line,) = [one for one in logged if one["event"] == "database_read_only"]
    assert line["log_level"] == "error"
    with capture_logs() as logged:
        store.transactions.damage.record_commit()
    assert not store.read_only
    assert [one["event"] for one in logged] == ["database_read_only_over"]


async def test_readers_cannot_write(store: Store) -> None:
    with pytest.raises(Unavailable, match="read-only"):
        async with store.transactions.read() as db:
            await db.exec_driver_sql("DELETE FROM data_keys")


async def test_a_write_waits_for_its_turn_for_a_limited_time(open_test_store: StoreOpener) -> None:
    store = await open_test_store(busy_s=0.1, pool=PoolConfig(writers=1, wait_s=0.1))
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def block_until_released(_db: AsyncConnection) -> None:
        reached.set()
        await go_on.wait()

    first = asyncio.create_task(store.transactions.write(block_until_released))
    await reached.wait()
    with pytest.raises(Unavailable, match="too many writes"):
        await store.connections.put(new(), now=NOW)
    go_on.set()
    await first


async def test_error_that_our_own_code_causes_is_not_reported_as_unavailable(store: Store) -> None:
    with pytest.raises(Exception, match=r"(?i)foreign key") as fault:
        await store.connections.put(new(REF._replace(environment="unheard-of"), credential={"s": "s3cret"}), now=NOW)
    assert not isinstance(fault.value, Unavailable)
    assert "s3cret" not in str(fault.value)
    await store.connections.put(new(), now=NOW)


@sqlite_only
async def test_the_event_loop_turns_while_the_database_works(open_test_store: StoreOpener, path: Path) -> None:
    store = await open_test_store(busy_s=PATIENCE_S)
    with sqlite3.connect(path, isolation_level=None) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        putting = asyncio.create_task(store.connections.put(new(), now=NOW))
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert not putting.done()
        blocker.execute("ROLLBACK")
    blocker.close()
    await putting  # if the event loop were blocked, the wait for the lock would time out
