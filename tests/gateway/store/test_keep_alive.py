"""Tasks that only one node runs, due connections that an index finds, and the fence. Tests run on both backends."""

from datetime import timedelta

from sqlalchemy import text

from gateway.records.connection import ConnectionRef, Lifespan
from gateway.store import Store
from tests.gateway.store.conftest import NOW, REF, StoreOpener, new, sqlite_only

GONE = -timedelta(seconds=1)  # a lease of this length has already expired
TTL = timedelta(seconds=30)
DAY = timedelta(days=1)


async def test_a_node_keeps_a_task_until_it_releases_the_task_or_dies(open_test_store: StoreOpener) -> None:
    one, other = await open_test_store(), await open_test_store()
    assert await one.tasks.hold("keep_alive", owner="a", now=NOW, ttl=TTL)
    assert await one.tasks.hold("keep_alive", owner="a", now=NOW, ttl=TTL)
    assert not await other.tasks.hold("keep_alive", owner="b", now=NOW, ttl=TTL)
    assert await other.tasks.hold("another", owner="b", now=NOW, ttl=TTL)
    assert await other.tasks.hold("keep_alive", owner="b", now=NOW + TTL, ttl=TTL)
    await one.tasks.release("keep_alive", owner="a")
    assert not await one.tasks.hold("keep_alive", owner="a", now=NOW + TTL, ttl=TTL)
    await other.tasks.release("keep_alive", owner="b")
    assert await one.tasks.hold("keep_alive", owner="a", now=NOW + TTL, ttl=TTL)


async def test_due_connections_are_ordered_by_time(store: Store) -> None:
    for number, due in enumerate((NOW + DAY, NOW - DAY, NOW - 2 * DAY, None)):
        ref = ConnectionRef("dev", "jira", f"u{number}")
        await store.connections.put(new(ref, life=Lifespan(NOW + 9 * DAY, due)), now=NOW)
    found = await store.keep_alive.due("jira", NOW, limit=10)
    assert [item.ref.connection_id for item in found] == ["u2", "u1"]
    assert [item.ref.connection_id for item in await store.keep_alive.find_unplanned("jira", after_id=0, limit=9)] == [
        "u3"
    ]
    assert [client.ref.connection_id for client in await store.keep_alive.find_planned_after("jira", NOW, limit=9)] == [
        "u0"
    ]
    assert await store.keep_alive.due("github", NOW, limit=10) == []


async def test_plan_for_a_replaced_credential_has_no_effect(store: Store) -> None:
    old, _ = await store.connections.put(new(), now=NOW)
    await store.connections.put(new(life=Lifespan(NOW + DAY, NOW)), now=NOW)
    await store.keep_alive.plan([(old, Lifespan(None, NOW + 5 * DAY))])
    assert (await store.connections.get(REF)).life == Lifespan(NOW + DAY, NOW)  # type: ignore[union-attr]


async def test_a_refresh_lease_fails_when_the_row_has_changed(open_test_store: StoreOpener) -> None:
    one, other = await open_test_store(), await open_test_store()
    seen, _ = await one.connections.put(new(), now=NOW)
    await other.connections.put(new(), now=NOW + TTL)
    lease = one.refreshes.lease_refresh
    assert not await lease(REF, owner="a", ttl=TTL, known_row=seen, intent="d")
    current = await one.connections.get(REF)
    assert current is not None
    assert current.intent is None
    assert await lease(REF, owner="a", ttl=TTL, known_row=current, intent="d")


async def test_lease_can_be_extended_unless_lost(open_test_store: StoreOpener) -> None:
    one, other = await open_test_store(), await open_test_store()
    await one.connections.put(new(), now=NOW)
    assert await one.refreshes.lease_refresh(REF, owner="a", ttl=GONE)
    assert await one.refreshes.extend_lease(REF, owner="a", ttl=TTL), "its owner can also extend an expired lease"
    assert not await other.refreshes.lease_refresh(REF, owner="b", ttl=TTL)
    assert await one.refreshes.extend_lease(REF, owner="a", ttl=GONE)
    assert await other.refreshes.lease_refresh(REF, owner="b", ttl=TTL)
    assert not await one.refreshes.extend_lease(REF, owner="a", ttl=TTL)
    assert (
        await one.refreshes.save_refreshed(
            REF, owner="a", version=1, credential={"late": True}, expires_at=None, now=NOW
        )
        is None
    )


@sqlite_only
async def test_due_connections_are_found_by_index(store: Store) -> None:
    query = (
        "SELECT * FROM connections WHERE provider = 'jira' AND keep_alive_at <= :now ORDER BY keep_alive_at, id LIMIT 9"
    )
    async with store.transactions.read() as db:
        plan = (await db.execute(text(f"EXPLAIN QUERY PLAN {query}"), {"now": "2026"})).all()
    assert len(plan) == 1, plan
    assert "USING INDEX connections_by_keep_alive" in plan[0][3]
