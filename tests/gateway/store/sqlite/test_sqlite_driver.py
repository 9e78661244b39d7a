"""A statement needs one round trip to the thread of SQLite. The thread returns the whole result."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from gateway.store import Store
from gateway.store.changes import execute_last
from gateway.store.migrations import create_tables
from gateway.store.sqlite.sqlite_backend import prepare, sqlite_engines
from gateway.store.sqlite.sqlite_driver import Connector
from gateway.store.transactions import Engines
from tests.fakes.patience import PATIENCE_S
from tests.gateway.store.conftest import NOW, REF, new, sqlite_only


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows with each round trip."""
    seen: list[Any] = []
    item = aiosqlite.Connection._execute

    async def record_and_run(self: aiosqlite.Connection, work: Any, *parameters: Any, **named: Any) -> Any:
        seen.append(work)
        return await item(self, work, *parameters, **named)

    monkeypatch.setattr(aiosqlite.Connection, "_execute", record_and_run)
    return seen


@pytest.fixture
async def engines(tmp_path: Path) -> AsyncIterator[Engines]:
    path = tmp_path / "what? 100%#.db"
    prepare(path, busy_s=1)
    made = sqlite_engines(path, busy_s=1)
    async with made.writer.begin() as db:
        await db.exec_driver_sql("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
    yield made
    await made.dispose()


@sqlite_only
async def test_reading_a_connection_takes_one_round_trip(store: Store, round_trips: list[Any]) -> None:
    await store.connections.put(new(), now=NOW)
    assert await store.connections.get(REF)  # opens the connection to the database
    before = len(round_trips)
    assert await store.connections.get(REF)
    assert len(round_trips) - before == 1


async def test_a_new_database_gets_all_its_tables_in_one_round_trip(engines: Engines, round_trips: list[Any]) -> None:
    async with engines.writer.begin() as db:
        await db.exec_driver_sql("SELECT 1")
        before = len(round_trips)
        await db.run_sync(create_tables)
        assert len(round_trips) - before == 2  # the second trip inserts the schema's revision


async def test_a_write_takes_a_round_trip_for_each_statement_and_one_for_the_commit(
    engines: Engines, round_trips: list[Any]
) -> None:
    async with engines.writer.begin() as db:
        for name in ("a", "b"):
            made = await db.execute(text("INSERT INTO things (name) VALUES (:name) RETURNING id"), {"name": name})
            assert made.scalar_one() in (1, 2)
        changed = await db.execute(text("UPDATE things SET name = name || '!'"))
        assert changed.rowcount == 2
    assert len(round_trips) == 3 + 1  # the additional trip is the commit; BEGIN is sent with the first statement


@sqlite_only
async def test_claim_and_refresh_without_state_change_need_one_round_trip_each(
    store: Store, round_trips: list[Any]
) -> None:
    seen, _ = await store.connections.put(new(), now=NOW)
    lease = {"ttl": timedelta(seconds=30), "intent": "digest"}
    saved: dict[str, Any] = {"credential": {}, "expires_at": None, "now": NOW}
    for version in (1, 2):
        before = len(round_trips)
        assert await store.refreshes.lease_refresh(REF, owner="a", known_row=seen, **lease)
        claimed = len(round_trips)
        item = await store.refreshes.save_refreshed(REF, owner="a", version=version, known_row=seen, **saved)
        assert item is not None
        seen = item
        assert (claimed - before, len(round_trips) - claimed) == (1, 1)


async def test_commit_shares_the_round_trip_of_the_last_statement(engines: Engines, round_trips: list[Any]) -> None:
    before = len(round_trips)
    async with engines.writer.begin() as db:
        await execute_last(db, text("INSERT INTO things (name) VALUES (:name)"), {"name": "a"})
        assert len(round_trips) - before == 1
        async with engines.reader.connect() as other:
            assert (await other.execute(text("SELECT name FROM things"))).scalar() == "a"
            before = len(round_trips)
    assert len(round_trips) == before, "nothing is left to commit"


UPDATE = "UPDATE things SET name = name || '!' WHERE id = ? RETURNING id"
INSERT = "INSERT INTO things (name) VALUES (?) RETURNING id"


async def run_all(engines: Engines, *statements: tuple[str, list[Any]]) -> Any:
    async with engines.writer.connect() as db:
        return await engines.run_in_one_trip(db, statements)


async def names(engines: Engines) -> list[str]:
    async with engines.reader.connect() as db:
        return list((await db.execute(text("SELECT name FROM things ORDER BY id"))).scalars())


async def test_statements_without_code_between_them_take_one_round_trip(
    engines: Engines, round_trips: list[Any]
) -> None:
    assert await run_all(engines, (UPDATE, [1]), (INSERT, ["too early"])) is None, "the first statement changed no row"
    before = len(round_trips)
    assert await run_all(engines, (INSERT, ["a"])) == (1,)
    assert await run_all(engines, (UPDATE, [1]), (INSERT, ["b"])) == (2,)
    assert len(round_trips) - before == 2, "each includes its commit"
    assert await names(engines) == ["a!", "b"]


async def test_statement_that_fails_undoes_those_before_it(engines: Engines) -> None:
    await run_all(engines, (INSERT, ["a"]))
    with pytest.raises(sqlite3.IntegrityError):
        await run_all(engines, (UPDATE, [1]), (INSERT, ["a!"]))
    assert await names(engines) == ["a"]
    assert await run_all(engines, (UPDATE, [1])) == (1,), "no transaction is open"


async def test_a_last_statement_that_fails_commits_nothing(engines: Engines) -> None:
    async def write(names: list[str]) -> None:
        async with engines.writer.begin() as db:
            for name in names[:-1]:
                await db.execute(text("INSERT INTO things (name) VALUES (:name)"), {"name": name})
            await execute_last(db, text("INSERT INTO things (name) VALUES (:name)"), {"name": names[-1]})

    await write(["a"])
    with pytest.raises(IntegrityError):
        await write(["b", "a"])
    await write(["c"])
    async with engines.reader.connect() as db:
        assert list((await db.execute(text("SELECT name FROM things ORDER BY id"))).scalars()) == ["a", "c"]


async def test_a_commit_that_fails_is_reported_to_the_last_statement(engines: Engines) -> None:
    async def write(owner: int) -> None:
        async with engines.writer.begin() as db:
            await execute_last(db, text("INSERT INTO owned (owner) VALUES (:owner)"), {"owner": owner})

    async with engines.writer.begin() as db:
        await db.exec_driver_sql(
            "CREATE TABLE owned (owner INTEGER REFERENCES things (id) DEFERRABLE INITIALLY DEFERRED)"
        )
        await db.execute(text("INSERT INTO things (name) VALUES ('a')"))
    with pytest.raises(IntegrityError):
        await write(7)
    await write(1)
    async with engines.reader.connect() as db:
        assert list((await db.execute(text("SELECT owner FROM owned"))).scalars()) == [1]


async def test_many_rows_are_written_in_one_batch_and_read_in_order(engines: Engines) -> None:
    names = [f"n{number:04}" for number in range(1000)]
    async with engines.writer.begin() as db:
        await db.execute(text("INSERT INTO things (name) VALUES (:name)"), [{"name": name} for name in names])
    async with engines.reader.connect() as db:
        found = await db.execute(text("SELECT name FROM things ORDER BY id"))
        assert list(found.scalars()) == names


async def test_a_statement_that_fails_leaves_the_connection_in_order(engines: Engines) -> None:
    async with engines.writer.begin() as db:
        await db.execute(text("INSERT INTO things (name) VALUES ('a')"))

    async def insert_new_and_duplicate() -> None:
        async with engines.writer.begin() as db:
            await db.execute(text("INSERT INTO things (name) VALUES ('b')"))
            await db.execute(text("INSERT INTO things (name) VALUES ('a')"))

    with pytest.raises(IntegrityError):
        await insert_new_and_duplicate()
    async with engines.writer.begin() as db:
        assert list((await db.execute(text("SELECT name FROM things"))).scalars()) == ["a"]


def test_a_cancelled_opening_is_over_before_its_loop_ends(tmp_path: Path) -> None:
    path = tmp_path / "it.db"
    sqlite3.connect(path).close()
    faults: list[object] = []

    async def cancelled_while_opening(steps: int) -> None:
        opening = asyncio.ensure_future(Connector(path)())
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        with suppress(asyncio.CancelledError):
            await (await opening).close()

    before, threading.excepthook = threading.excepthook, faults.append
    try:
        for round_ in range(24):
            asyncio.run(cancelled_while_opening(round_ % 6))
        for thread in threading.enumerate():
            if "_connection_worker_thread" in thread.name:
                thread.join(PATIENCE_S)
    finally:
        threading.excepthook = before
    assert faults == []


async def test_a_connection_in_use_while_its_engine_is_disposed_of_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "it.db"
    prepare(path, busy_s=1)
    engines = sqlite_engines(path, busy_s=1)
    in_hand = await engines.reader.connect()
    driver: Any = (await in_hand.get_raw_connection()).driver_connection
    await engines.dispose()
    await in_hand.close()
    with pytest.raises(ValueError, match="no active connection"):
        await driver.execute("SELECT 1")
