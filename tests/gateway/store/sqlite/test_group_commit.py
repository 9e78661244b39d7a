"""Writes that wait for SQLite's only writer are committed together, but each succeeds or fails on its own."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from sqlalchemy import Engine, event
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import Unavailable
from gateway.store import Store
from gateway.store.sqlite.group_commit import MAX_WRITES_PER_COMMIT
from gateway.store.transactions import FenceFailed
from tests.fakes.patience import PATIENCE_S
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)

Write = Callable[[AsyncConnection], Awaitable[Any]]


@asynccontextmanager
async def hold_writes(store: Store) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Hold back all writes that start within the block. At its end, release the writes and wait for their tasks."""
    reached, go_on, tasks = asyncio.Event(), asyncio.Event(), list[asyncio.Task[Any]]()

    async def hold(_db: AsyncConnection) -> None:  # executes no statement, so that other stores can write
        reached.set()
        await go_on.wait()

    holding = asyncio.create_task(store.transactions.write(hold))
    await reached.wait()
    try:
        yield tasks
        await asyncio.sleep(0)  # until each write is in the queue
        await asyncio.sleep(0)
    finally:
        go_on.set()
        await holding
        await asyncio.gather(*tasks, return_exceptions=True)


def put(store: Store, name: str, **fields: Any) -> asyncio.Task[Any]:
    stored = store.connections.put(new(REF._replace(connection_id=name), **fields), now=NOW)
    return asyncio.create_task(stored)


def environment(store: Store, name: str, then: Write | None = None) -> asyncio.Task[Any]:
    async def write(db: AsyncConnection) -> str:
        await db.exec_driver_sql(f"INSERT INTO environments VALUES ('{name}', '2026-01-01 00:00:00.000000Z')")
        if then is not None:
            await then(db)
        return name

    return asyncio.create_task(store.transactions.write(write))


async def environment_names(store: Store) -> set[str]:
    async with store.transactions.read() as db:
        return set((await db.exec_driver_sql("SELECT name FROM environments")).scalars()) - {"dev", "prod"}


@pytest.fixture
def commits() -> Iterator[list[object]]:
    """A list that grows with each commit."""
    seen: list[object] = []

    def note(connection: object) -> None:
        seen.append(connection)

    event.listen(Engine, "commit", note)
    yield seen
    event.remove(Engine, "commit", note)


async def test_waiting_writes_are_committed_together(
    store: Store, monkeypatch: pytest.MonkeyPatch, commits: list[object]
) -> None:
    monkeypatch.setattr("gateway.store.sqlite.group_commit.HOLDS_S", 60.0)
    await store.connections.put(new(), now=NOW)  # opens the connection, and seals values if needed
    commits.clear()
    async with hold_writes(store) as tasks:
        tasks += [put(store, f"c{n}") for n in range(MAX_WRITES_PER_COMMIT)]
    assert len(commits) == 2, "one commit for the write that they waited for, and one for all of them"
    for n, task in enumerate(tasks):
        connection, created = task.result()
        assert created
        assert connection == await store.connections.get(REF._replace(connection_id=f"c{n}"))
        assert store.open(connection.credential)["apiKey"] == "k"


async def test_the_last_statement_of_a_write_does_not_commit_the_batch(
    store: Store, monkeypatch: pytest.MonkeyPatch, commits: list[object]
) -> None:
    monkeypatch.setattr("gateway.store.sqlite.group_commit.HOLDS_S", 60.0)
    refs = [REF._replace(connection_id=f"c{n}") for n in range(3)]
    for ref in refs:
        await store.connections.put(new(ref), now=NOW)
    lease = {"ttl": timedelta(seconds=30)}
    commits.clear()
    async with hold_writes(store) as tasks:
        tasks += [asyncio.create_task(store.refreshes.lease_refresh(ref, owner="a", **lease)) for ref in refs]  # type: ignore[arg-type]
        tasks.append(environment(store, "a"))
    assert [task.result() for task in tasks] == [True, True, True, "a"]
    assert len(commits) == 2, "no write was repeated in a transaction of its own"


async def test_refreshes_that_wait_are_committed_together_and_a_fenced_one_changes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, commits: list[object]
) -> None:
    monkeypatch.setattr("gateway.store.sqlite.group_commit.HOLDS_S", 60.0)
    rows = [(await store.connections.put(new(REF._replace(connection_id=f"c{n}")), now=NOW))[0] for n in range(3)]
    lease, saved = {"ttl": timedelta(seconds=30), "intent": "digest"}, {"expires_at": None, "now": NOW}
    async with hold_writes(store) as tasks:
        tasks += [
            asyncio.create_task(store.refreshes.lease_refresh(row.ref, owner="a", known_row=row, **lease))  # type: ignore[arg-type]
            for row in rows
        ]
    assert [task.result() for task in tasks] == [True, True, True]
    commits.clear()
    async with hold_writes(store) as tasks:
        tasks += [
            asyncio.create_task(
                store.refreshes.save_refreshed(row.ref, owner=owner, version=1, credential={}, known_row=row, **saved)  # type: ignore[arg-type]
            )
            for row, owner in zip(rows, "aba", strict=True)
        ]
    assert len(commits) == 2, "one commit for the write that they waited for, and one for all of them"
    assert [task.result() is not None for task in tasks] == [True, False, True]
    for row, task in zip(rows, tasks, strict=True):
        stored = await store.connections.get(row.ref)
        assert stored is not None
        assert stored.version == (1 if task.result() is None else 2)
        assert task.result() in (None, stored)


async def test_lock_is_released_between_batches(
    store: Store, monkeypatch: pytest.MonkeyPatch, commits: list[object]
) -> None:
    monkeypatch.setattr("gateway.store.sqlite.group_commit.HOLDS_S", 0.0)
    commits.clear()
    async with hold_writes(store) as tasks:
        tasks += [environment(store, f"e{n}") for n in range(3)]
    assert len(commits) >= 3
    assert [task.result() for task in tasks] == ["e0", "e1", "e2"]


async def test_failed_write_leaves_nothing_and_does_not_affect_others(store: Store) -> None:
    async def fail(_db: AsyncConnection) -> None:
        raise ValueError("in the middle")

    async with hold_writes(store) as tasks:
        tasks += [environment(store, "a"), environment(store, "b", fail), environment(store, "a"), put(store, "c")]
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert ended[0] == "a"
    assert isinstance(ended[1], ValueError)
    assert "UNIQUE constraint failed" in str(ended[2])
    assert ended[3][1]
    assert await environment_names(store) == {"a"}


async def test_failed_commit_fails_all_its_writes(store: Store) -> None:
    async def fail_at_commit(db: AsyncConnection) -> None:
        """Execute a statement with a fault that appears only at the commit."""
        await db.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        await db.exec_driver_sql(
            "INSERT INTO connection_history (connection, at, state, reason) VALUES (99, '', 'active', '')"
        )

    async with hold_writes(store) as tasks:
        tasks += [environment(store, "a"), environment(store, "b", fail_at_commit), environment(store, "c")]
    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert (first, third) == ("a", "c"), "each was committed in a transaction of its own"
    assert "FOREIGN KEY constraint failed" in str(second)
    assert await environment_names(store) == {"a", "c"}


async def test_write_that_ends_the_transaction_fails_no_other_write(store: Store) -> None:
    async def end(db: AsyncConnection) -> None:
        await db.exec_driver_sql("ROLLBACK")
        raise Unavailable("store_unavailable", "as if the disk were full")

    async with hold_writes(store) as tasks:
        tasks += [environment(store, "a"), environment(store, "b", end), environment(store, "c")]
    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert (first, third) == ("a", "c")
    assert isinstance(second, Unavailable)
    assert await environment_names(store) == {"a", "c"}


async def test_a_wait_for_the_lock_does_not_count_as_holding_it(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch, commits: list[object]
) -> None:
    monkeypatch.setattr("gateway.store.sqlite.group_commit.HOLDS_S", PATIENCE_S)
    await store.connections.put(new(), now=NOW)
    commits.clear()
    loop = asyncio.get_running_loop()
    now = loop.time
    with closing(sqlite3.connect(path, isolation_level=None)) as other:

        def release_lock() -> None:
            """Release the lock, and set the clock forward, so that the wait for the lock was longer than `HOLDS_S`."""
            other.execute("ROLLBACK")
            monkeypatch.setattr(loop, "time", lambda: now() + 2 * PATIENCE_S)

        async with hold_writes(store) as tasks:
            tasks += [put(store, f"c{n}") for n in range(5)]
            other.execute("BEGIN IMMEDIATE")
            loop.call_later(0.3, release_lock)
    assert all(task.result()[1] for task in tasks)
    assert len(commits) == 2, "one commit for the write that they waited for, and one for all of them"


async def test_lock_timeout_fails_one_write_and_keeps_the_batch(
    open_test_store: StoreOpener, path: Path, monkeypatch: pytest.MonkeyPatch, commits: list[object]
) -> None:
    monkeypatch.setattr("gateway.store.sqlite.group_commit.HOLDS_S", 60.0)
    store = await open_test_store(busy_s=1.0)
    await store.connections.put(new(), now=NOW)
    commits.clear()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        async with hold_writes(store) as tasks:
            tasks += [put(store, f"c{n}") for n in range(20)]
            other.execute("BEGIN IMMEDIATE")
            tasks[0].add_done_callback(lambda _: other.execute("ROLLBACK"))
    assert isinstance(tasks[0].exception(), Unavailable)
    assert all(task.result()[1] for task in tasks[1:])
    assert len(commits) == 2, "one commit for the write that they waited for, and one for all of them"


@pytest.mark.parametrize("alone", [True, False])
async def test_cancelling_a_write_cancels_no_other_write(store: Store, alone: bool) -> None:
    async def raise_cancelled(_db: AsyncConnection) -> None:
        raise asyncio.CancelledError

    async with hold_writes(store) as tasks:
        tasks.extend(() if alone else [environment(store, "a")])
        tasks.append(asyncio.create_task(store.transactions.write(raise_cancelled)))
    tasks.append(environment(store, "b"))
    assert await tasks[-1] == "b"
    assert tasks[-2].cancelled()
    assert await environment_names(store) == ({"b"} if alone else {"a", "b"})


async def test_cancelling_a_write_before_it_begins_cancels_no_other_write(store: Store) -> None:
    async def raise_cancelled() -> None:
        raise asyncio.CancelledError

    async with hold_writes(store) as tasks:
        tasks.append(environment(store, "a"))
        tasks.append(asyncio.create_task(store.transactions.write(AsyncMock(), before=raise_cancelled)))
        tasks.append(environment(store, "b"))
    assert [task.cancelled() for task in tasks] == [False, True, False]
    assert await environment_names(store) == {"a", "b"}


async def test_repeated_write_reports_a_lock_timeout(open_test_store: StoreOpener, path: Path) -> None:
    """A fence can raise this error before any statement. Then there is no BEGIN to roll back."""

    async def overtaken(_db: AsyncConnection) -> None:
        raise FenceFailed

    store = await open_test_store(busy_s=0.2)
    fenced = store.transactions.write(AsyncMock(), before=AsyncMock(return_value=overtaken))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        async with hold_writes(store) as tasks:
            tasks.append(asyncio.create_task(fenced))
            tasks.append(environment(store, "a"))
            other.execute("BEGIN IMMEDIATE")
            tasks[0].add_done_callback(lambda _: other.execute("ROLLBACK"))
    with pytest.raises(Unavailable, match="is locked by another process"):
        tasks[0].result()


async def test_full_disk_fails_only_writes_that_do_not_fit(store: Store) -> None:
    async def limit(pages: int) -> None:
        async def change(db: AsyncConnection) -> None:
            await db.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

        await store.transactions.write(change)

    async with store.transactions.read() as db:
        pages = (await db.exec_driver_sql("PRAGMA page_count")).scalar_one()
    await limit(pages + 10)
    async with hold_writes(store) as tasks:
        tasks += [put(store, "a"), put(store, "b", metadata={"much": "x" * 200_000}), put(store, "c")]
    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert first[1]
    assert third[1]
    assert isinstance(second, Unavailable)
    assert "disk is full" in str(second)


async def test_waiting_writes_seal_under_a_key_that_another_process_made_meanwhile(
    open_test_store: StoreOpener,
) -> None:
    this_node, other_node = await open_test_store(), await open_test_store()
    old, _ = await this_node.connections.put(new(), now=NOW)
    async with hold_writes(this_node) as tasks:
        tasks += [put(this_node, f"c{n}") for n in range(5)]
        await asyncio.sleep(0)
        await other_node.rotation.rotate(lambda _done, _all: None, fresh=True)
    keys = {task.result()[0].credential.ciphertext[1:9] for task in tasks}
    assert len(keys) == 1
    assert keys != {old.credential.ciphertext[1:9]}


async def test_data_key_made_in_a_commit_seals_the_later_writes_of_the_commit(store: Store) -> None:
    old, _ = await store.connections.put(new(), now=NOW)
    async with hold_writes(store) as tasks:
        tasks.append(put(store, "a"))
        tasks.append(asyncio.create_task(store.transactions.write(lambda db: store.data_keys.create_key(db, "dev"))))
        tasks.append(put(store, "b"))
    first, second = (tasks[n].result()[0].credential.ciphertext[1:9] for n in (0, 2))
    assert first == old.credential.ciphertext[1:9]
    assert second != first


async def test_write_that_waited_too_long_fails_and_is_not_written(open_test_store: StoreOpener) -> None:
    store = await open_test_store(busy_s=0.05)
    async with hold_writes(store) as tasks:
        tasks.append(environment(store, "late"))
        with pytest.raises(Unavailable, match="too many writes"):
            await tasks[0]
    assert await environment_names(store) == set()
