"""Failures of PostgreSQL cause a temporary 503. Several nodes at the same time leave the same result as one node."""

import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.config import PoolConfig
from gateway.errors import InvalidRequest, Unavailable
from gateway.store import ListFilter, Store
from tests.fakes.patience import PATIENCE_S
from tests.fakes.postgres import PostgresServer
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new


@pytest.fixture
def backend() -> str:
    return "postgresql"


async def restart(server: PostgresServer) -> None:
    await asyncio.to_thread(server.stop)
    server.launch()
    await server.responses()


async def test_database_restart_causes_no_error_afterwards(store: Store, postgres_server: PostgresServer) -> None:
    await store.connections.put(new(), now=NOW)
    await asyncio.gather(*(store.connections.get(REF) for _ in range(20)))
    await restart(postgres_server)
    found = await asyncio.gather(*(store.connections.get(REF) for _ in range(20)))
    assert all(found)
    stored, _ = await store.connections.put(new(), now=NOW)
    assert stored.version == 2


async def test_calls_fail_immediately_while_the_database_is_away(
    open_test_store: StoreOpener, postgres_server: PostgresServer
) -> None:
    longest_s = 10 * PATIENCE_S
    store = await open_test_store(pool=PoolConfig(connect_s=longest_s, wait_s=longest_s, statement_s=longest_s))
    await store.connections.put(new(), now=NOW)
    await asyncio.to_thread(postgres_server.stop)
    try:
        for call in (store.connections.get(REF), store.connections.put(new(), now=NOW), store.ping()):
            with pytest.raises(Unavailable) as refusal:
                await asyncio.wait_for(call, PATIENCE_S)
            assert (refusal.value.status, refusal.value.code) == (503, "store_unavailable")
        with pytest.raises(Unavailable):
            await asyncio.wait_for(store.changes.version(), PATIENCE_S)
    finally:
        postgres_server.launch()
    await postgres_server.responses()
    assert await store.connections.get(REF)
    await store.connections.put(new(), now=NOW)
    assert await store.changes.version() == 2


async def test_hanging_database_times_out_and_recovers(
    open_test_store: StoreOpener, postgres_server: PostgresServer
) -> None:
    store = await open_test_store(pool=PoolConfig(connect_s=1, wait_s=1, statement_s=1))
    await store.connections.put(new(), now=NOW)
    await store.changes.version()
    postgres_server.freeze()
    try:
        for call in (store.connections.get(REF), store.connections.put(new(), now=NOW), store.changes.version()):
            with pytest.raises(Unavailable):
                await asyncio.wait_for(call, PATIENCE_S)
    finally:
        postgres_server.thaw()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                assert await store.connections.get(REF)
                await store.connections.put(new(), now=NOW)
                break
            except Unavailable:
                await asyncio.sleep(0.05)
        await store.changes.version()


async def test_a_store_can_be_closed_while_the_server_hangs(
    open_test_store: StoreOpener, postgres_server: PostgresServer
) -> None:
    store = await open_test_store(pool=PoolConfig(connect_s=1, wait_s=1, statement_s=1))
    await store.connections.put(new(), now=NOW)
    await store.changes.version()
    postgres_server.freeze()
    try:
        closing = asyncio.create_task(store.close())
        assert (await asyncio.wait([closing], timeout=PATIENCE_S))[0] == {closing}
        closing.result()
    finally:
        postgres_server.thaw()


async def test_a_statement_that_takes_too_long_is_ended(open_test_store: StoreOpener) -> None:
    store = await open_test_store(pool=PoolConfig(statement_s=1))
    with pytest.raises(Unavailable, match=r"store\.pool\.statement_s"):
        async with store.transactions.read() as db:
            await db.exec_driver_sql("SELECT pg_sleep(50)")
    await store.ping()


async def test_a_row_locked_for_long_is_unavailable_and_then_heals(open_test_store: StoreOpener) -> None:
    holder, store = await open_test_store(), await open_test_store(pool=PoolConfig(statement_s=1))
    await store.connections.put(new(), now=NOW)
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def hold(db: AsyncConnection) -> None:
        await db.exec_driver_sql("SELECT 1 FROM connections FOR UPDATE")
        reached.set()
        await go_on.wait()

    holding = asyncio.create_task(holder.transactions.write(hold))
    await reached.wait()
    with pytest.raises(Unavailable):
        await store.connections.put(new(), now=NOW)
    assert await store.connections.get(REF), "a read does not wait for a writer"
    go_on.set()
    await holding
    await store.connections.put(new(), now=NOW)


async def test_a_commit_is_on_the_disk_whatever_the_servers_default(
    open_test_store: StoreOpener, postgres_server: PostgresServer, url: str
) -> None:
    name = url.rpartition("/")[2]
    await postgres_server.run(f"ALTER DATABASE {name} SET synchronous_commit = off")
    store = await open_test_store()
    seen: list[object] = []

    async def ask(db: AsyncConnection) -> None:
        seen.append((await db.exec_driver_sql("SHOW synchronous_commit")).scalar_one())

    await store.transactions.write(ask)
    await postgres_server.run(f"ALTER DATABASE {name} RESET synchronous_commit")
    assert seen == ["on"]


async def test_a_text_that_postgresql_cannot_keep_is_the_callers_fault(store: Store) -> None:
    with pytest.raises(InvalidRequest, match=r"U\+0000"):
        await store.connections.list("dev", ListFilter(search="a\0b"))
    with pytest.raises(InvalidRequest, match=r"U\+0000"):
        await store.connections.put(new(webhook_url_override="https://x\0"), now=NOW)
    assert await store.connections.get(REF) is None


async def test_put_concurrent_with_deletes_never_fails(open_test_store: StoreOpener) -> None:
    this_node, other_node = await open_test_store(), await open_test_store()

    async def deletes() -> int:
        return sum([await other_node.connections.delete(REF, now=NOW) for _ in range(60)])

    async def count_inserts() -> int:
        return sum([(await this_node.connections.put(new(tags={"a": "b"}), now=NOW))[1] for _ in range(60)])

    deleted, created, created_too = await asyncio.gather(deletes(), count_inserts(), count_inserts())
    remaining = await this_node.connections.get(REF) is not None
    assert created + created_too == deleted + remaining


async def test_flow_that_two_nodes_consume_at_the_same_time_is_used_by_one(open_test_store: StoreOpener) -> None:
    from tests.gateway.store.test_pending_authorizations import flow

    stores = [await open_test_store() for _ in range(3)]
    await stores[0].flows.add(flow())
    taken = await asyncio.gather(*(stores[n % 3].flows.consume("s1", now=NOW) for n in range(30)))
    assert sum(item is not None for item in taken) == 1
