"""What another node changes is heard at once, and nothing is missed: not out of turn, not while nobody listened."""

import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import Unavailable
from gateway.store import ChangesMissed, Store
from gateway.store.changes import note_change
from tests.fakes.patience import PATIENCE_S
from tests.fakes.postgres import PostgresServer
from tests.gateway.store.conftest import NOW, REF, Opener, new
from tests.gateway.store.test_changes import heard


@pytest.fixture
def backend() -> str:
    return "postgresql"


async def test_a_rolled_back_change_wakes_nobody_and_is_in_no_log(opener: Opener) -> None:
    here, there = await opener(), await opener()
    await here.connections.put(new(REF._replace(connection_id="u0")), now=NOW)
    before = await there.changes.version()

    async def half(db: AsyncConnection) -> None:
        await note_change(db, REF, NOW)
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        await here._transactions.write(half)
    assert await there.changes.version() == before
    await here.connections.put(new(), now=NOW)
    last, refs = await there.changes.since(1)
    assert list(refs) == [REF]
    assert await there.changes.since(last) == (last, {})


async def test_who_has_seen_an_id_has_seen_all_before_it(opener: Opener) -> None:
    """A transaction that was first to append is slow to commit: nobody gets a later id out before it."""
    slow, quick, reader = await opener(), await opener(), await opener()
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def hesitate(db: AsyncConnection) -> None:
        await note_change(db, REF, NOW)
        reached.set()
        await go_on.wait()

    first = asyncio.create_task(slow._transactions.write(hesitate))
    await reached.wait()
    other = REF._replace(connection_id="u2")
    second = asyncio.create_task(quick.connections.put(new(other), now=NOW))
    while not await waits_for_a_lock(reader):
        await asyncio.sleep(0.01)
    assert await reader.changes.since(0) == (0, {})
    go_on.set()
    await asyncio.gather(first, second)
    assert list((await reader.changes.since(0))[1]) == [REF, other]


async def waits_for_a_lock(store: Store) -> bool:
    async with store._transactions.read() as db:
        found = await db.exec_driver_sql("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return found.first() is not None


async def test_many_writers_at_once_are_all_told(opener: Opener) -> None:
    stores = [await opener() for _ in range(3)]
    reader = await opener()
    refs = [REF._replace(connection_id=f"c{n}") for n in range(60)]
    last, seen = 0, []

    async def read_on() -> None:
        nonlocal last
        while len(seen) < len(refs):
            last, more = await reader.changes.since(last)
            seen.extend(more)
            await asyncio.sleep(0)

    writing = asyncio.gather(*(stores[n % 3].connections.put(new(ref), now=NOW) for n, ref in enumerate(refs)))
    await asyncio.wait_for(asyncio.gather(writing, read_on()), PATIENCE_S)
    assert sorted(seen) == sorted(refs)


async def test_a_listener_that_was_cut_off_listens_again_and_catches_up(
    opener: Opener, postgres_server: PostgresServer
) -> None:
    here, there = await opener(), await opener()
    before = await there.changes.version()
    waiting = asyncio.create_task(heard(there))
    await postgres_server.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE query LIKE 'SELECT coalesce(max(id)%' AND pid <> pg_backend_pid()"
    )
    await waiting  # the loss itself wakes
    await here.connections.put(new(), now=NOW)
    try:
        now = await there.changes.version()
    except Unavailable:
        now = await there.changes.version()
    assert now != before
    assert await there.changes.since(0) == (1, {REF: None})
    waiting = asyncio.create_task(heard(there))
    await here.connections.put(new(), now=NOW)
    await waiting  # it listens again


async def test_a_standby_that_took_over_makes_readers_begin_anew(
    opener: Opener, postgres_server: PostgresServer
) -> None:
    store = await opener()
    await store.connections.put(new(), now=NOW)
    assert await store.changes.version() == 1
    store.changes._watch._timeline = "0000000F"  # that of the server it had listened to
    store.changes._watch._drop()
    with pytest.raises(ChangesMissed) as missed:
        await store.changes.version()
    assert missed.value.last_id == 1
    assert await store.changes.version() == 1


async def test_a_log_that_ends_before_what_was_read_is_one_that_was_put_back(store: Store) -> None:
    await store.connections.put(new(), now=NOW)
    with pytest.raises(ChangesMissed) as missed:
        await store.changes.since(7)
    assert missed.value.last_id == 1
