"""Changes by another node arrive immediately, and none is missed.

This holds if transactions commit out of order, and if the listener is disconnected for some time.
"""

import asyncio
from typing import Self

import asyncpg
import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.config import PoolConfig
from gateway.errors import Unavailable
from gateway.records.connection import ConnectionRef
from gateway.store import ChangesMissed, LogPosition, Store
from gateway.store.changes import record_change
from gateway.store.postgres.postgres_backend import CHANNEL, fetch_row, postgres_engines
from gateway.store.tables import connections
from tests.fakes.patience import PATIENCE_S
from tests.fakes.postgres import PostgresServer
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new
from tests.gateway.store.test_changes import OTHER, wait_for_change

REFS = [REF._replace(connection_id=f"c{n}") for n in range(60)]


@pytest.fixture
def backend() -> str:
    return "postgresql"


async def test_rolled_back_change_is_not_reported(open_test_store: StoreOpener) -> None:
    this_node, other_node = await open_test_store(), await open_test_store()
    await this_node.connections.put(new(REF._replace(connection_id="u0")), now=NOW)
    before = await other_node.changes.version()

    async def half(db: AsyncConnection) -> None:
        await record_change(db, REF, NOW)
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        await this_node.transactions.write(half)
    assert await other_node.changes.version() == before
    await this_node.connections.put(new(), now=NOW)
    at, refs = await other_node.changes.read_since(LogPosition(1))
    assert list(refs) == [REF]
    assert await other_node.changes.read_since(at) == (at, {})


class SlowCommit:
    """A transaction that has appended `ref` to the change log, and commits only after `go_on` is set."""

    def __init__(self, store: Store, ref: ConnectionRef) -> None:
        self.go_on = asyncio.Event()
        self._appended = asyncio.Event()
        self._task = asyncio.create_task(store.transactions.write(self._write))
        self._ref = ref

    async def __aenter__(self) -> Self:
        await self._appended.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.go_on.set()
        await self._task

    async def _write(self, db: AsyncConnection) -> None:
        await record_change(db, self._ref, NOW)
        self._appended.set()
        await self.go_on.wait()


async def test_slow_commit_blocks_no_other_and_is_not_missed(open_test_store: StoreOpener) -> None:
    slow, quick, reader = await open_test_store(), await open_test_store(), await open_test_store()
    at = await reader.changes.log_end()
    async with SlowCommit(slow, REF):
        await quick.connections.put(new(OTHER), now=NOW)
        at, refs = await reader.changes.read_since(at)
        assert (list(refs), len(at.missing)) == ([OTHER], 1)
    at, refs = await reader.changes.read_since(at)
    assert (list(refs), dict(at.missing)) == ([REF], {})


async def test_a_commit_in_progress_when_the_reader_starts_is_not_missed(open_test_store: StoreOpener) -> None:
    slow, quick, reader = await open_test_store(), await open_test_store(), await open_test_store()
    async with SlowCommit(slow, REF):
        await quick.connections.put(new(OTHER), now=NOW)
        at = await reader.changes.log_end()
    assert list((await reader.changes.read_since(at))[1]) == [REF]


async def test_late_commit_with_an_earlier_id_is_reported(open_test_store: StoreOpener) -> None:
    """The late commit does not change the version of the store. So the follower needs the notification."""
    slow, quick, reader = await open_test_store(), await open_test_store(), await open_test_store()
    at, version = await reader.changes.log_end(), await reader.changes.version()
    async with SlowCommit(slow, REF):
        await quick.connections.put(new(OTHER), now=NOW)
        at, _ = await reader.changes.read_since(at)
        version = await reader.changes.version()
        await wait_for_change(reader)
        waiting = asyncio.create_task(wait_for_change(reader))
    await waiting  # the commit sends a notification
    assert (await reader.changes.version(), bool(at.missing)) == (version, True)
    assert list((await reader.changes.read_since(at))[1]) == [REF]


async def test_writes_are_committed_while_other_commits_are_in_progress(open_test_store: StoreOpener) -> None:
    stores = this_node, other_node = await open_test_store(), await open_test_store()
    async with SlowCommit(this_node, REF), SlowCommit(other_node, OTHER):
        await asyncio.gather(*(stores[n % 2].connections.put(new(ref), now=NOW) for n, ref in enumerate(REFS)))
        assert all([await this_node.connections.get(ref) for ref in REFS])


async def test_writes_of_many_simultaneous_writers_are_all_reported(open_test_store: StoreOpener) -> None:
    stores = [await open_test_store() for _ in range(3)]
    reader = await open_test_store()
    refs = REFS
    at, seen = await reader.changes.log_end(), []

    async def read_until_all_seen() -> None:
        nonlocal at
        async with asyncio.timeout(PATIENCE_S):
            while len(seen) < len(refs):
                at, more = await reader.changes.read_since(at)
                seen.extend(more)
                await asyncio.sleep(0)

    writing = asyncio.gather(*(stores[n % 3].connections.put(new(ref), now=NOW) for n, ref in enumerate(refs)))
    await asyncio.wait_for(asyncio.gather(writing, read_until_all_seen()), PATIENCE_S)
    assert sorted(seen) == sorted(refs)


async def test_commits_soon_after_a_notification_share_the_next_one(
    store: Store, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    notified, pause_over = list[object](), asyncio.Event()

    async def pause(_seconds: float) -> None:
        await pause_over.wait()

    monkeypatch.setattr(clock, "sleep", pause)
    listener = await asyncpg.connect(database)
    await listener.add_listener(CHANNEL, lambda *notification: notified.append(notification))
    for ref in REFS[:5]:
        await store.connections.put(new(ref), now=NOW)
    async with asyncio.timeout(PATIENCE_S):
        while not notified:
            await asyncio.sleep(0)
        pause_over.set()
        while len(notified) < 2:
            await asyncio.sleep(0)
        await store.connections.put(new(REFS[5]), now=NOW)
        while len(notified) < 3:
            await asyncio.sleep(0)
    await listener.fetchval("SELECT 1")  # every notification of a commit before this statement has arrived
    assert len(notified) == 3
    await listener.close()


async def test_a_listener_that_was_cut_off_listens_again_and_catches_up(
    open_test_store: StoreOpener, postgres_server: PostgresServer
) -> None:
    this_node, other_node = await open_test_store(), await open_test_store()
    before = await other_node.changes.version()
    waiting = asyncio.create_task(wait_for_change(other_node))
    await postgres_server.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE query LIKE 'SELECT coalesce(max(id)%' AND pid <> pg_backend_pid()"
    )
    await waiting  # the loss of the connection wakes the waiting task
    await this_node.connections.put(new(), now=NOW)
    try:
        now = await other_node.changes.version()
    except Unavailable:
        now = await other_node.changes.version()
    assert now != before
    assert await other_node.changes.read_since(LogPosition()) == (LogPosition(1), {REF: None})
    waiting = asyncio.create_task(wait_for_change(other_node))
    await this_node.connections.put(new(), now=NOW)
    await waiting  # the listener is connected again


async def test_a_standby_that_took_over_makes_readers_begin_again(
    open_test_store: StoreOpener, postgres_server: PostgresServer
) -> None:
    store = await open_test_store()
    await store.connections.put(new(), now=NOW)
    assert await store.changes.version() == 1
    store.changes._watch.timeline = "0000000F"  # the timeline of the server on which the store listened before
    await store.changes.close()
    with pytest.raises(ChangesMissed):
        await store.changes.version()
    assert await store.changes.version() == 1


async def test_change_log_that_ends_before_the_readers_position_is_reported_as_missed(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    with pytest.raises(ChangesMissed):
        await store.changes.read_since(LogPosition(7))
    assert (await store.changes.log_end()).last_id == 1


@pytest.mark.parametrize(
    ("damage", "lacks"),
    [
        ("ALTER TABLE connections DROP COLUMN metadata", "it lacks a column"),
        ("DROP TABLE connections CASCADE", "it lacks a table"),
    ],
    ids=["column", "table"],
)
async def test_missing_part_of_the_schema_says_what_to_do(store: Store, damage: str, lacks: str) -> None:
    async def read_damaged(db: AsyncConnection) -> None:
        await db.execute(text(damage))  # undone with the transaction
        await db.execute(select(connections))

    with pytest.raises(Unavailable, match=f"{lacks}, as after an incomplete restore; restore a complete backup"):
        await store.transactions.write(read_damaged)


async def test_all_connections_are_replaced_when_one_turns_out_to_be_read_only(database: str) -> None:
    """After a failover, each connection to the former primary is useless. Only the first statement must fail."""
    engines = postgres_engines(database, PoolConfig())
    async with engines.writer.connect() as one, engines.writer.connect() as other:
        for db in (one, other):
            await fetch_row(db, ("SELECT set_config('default_transaction_read_only', 'on', false)", []))
    with pytest.raises(DBAPIError, match="read-only"):
        async with engines.writer.connect() as db:
            await fetch_row(db, ("INSERT INTO environments VALUES ($1, now())", ["new"]))
    async with engines.writer.connect() as one, engines.writer.connect() as other:
        for db in (one, other):
            assert await fetch_row(db, ("SELECT current_setting('default_transaction_read_only')", [])) == ("off",)
    await engines.dispose()


async def test_failed_statement_leaves_its_connection_usable(database: str) -> None:
    engines = postgres_engines(database, PoolConfig())
    async with engines.writer.connect() as db:
        with pytest.raises(DBAPIError):
            await fetch_row(db, ("SELECT 1 / $1::int", [0]))
        assert await fetch_row(db, ("SELECT 1", [])) == (1,)
    await engines.dispose()
