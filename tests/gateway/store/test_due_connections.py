"""Expired connections are found by an index and recorded only once, on both backends."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, text, update

from gateway.records.connection import ConnectionRef, Lifespan, RefreshFailure
from gateway.records.states import State
from gateway.store import Store
from gateway.store.tables import connections
from tests.gateway.store.conftest import NOW, StoreOpener, new, sqlite_only

HOUR = timedelta(hours=1)
GONE = RefreshFailure("no_refresh_token", "it has ended", True, NOW, 1)


def ref(number: int) -> ConnectionRef:
    return ConnectionRef("dev", "jira", f"u{number}")


async def put(store: Store, number: int, ends_in: timedelta | None, *, settled: bool = False) -> None:
    ends = NOW + ends_in if ends_in is not None else None
    life = Lifespan(None if settled else ends, settled=settled)
    await store.connections.put(new(ref(number), expires_at=ends, life=life), now=NOW - 2 * HOUR)


async def names(store: Store, after: Any = None) -> list[str]:
    return [item.ref.connection_id for item in await store.expiring.token_ended(NOW, after=after, limit=9)]


async def test_ended_connections_are_ordered_and_paged(store: Store) -> None:
    for number, ends_in in enumerate((HOUR, -HOUR, -2 * HOUR, None, -HOUR)):
        await put(store, number, ends_in)
    await put(store, 5, -HOUR, settled=True)
    assert await names(store) == ["u2", "u1", "u4"]
    first = (await store.expiring.token_ended(NOW, after=None, limit=2))[-1]
    assert await names(store, first) == ["u4"]
    await store.expiring.mark_checked([first], now=NOW)
    assert await names(store) == ["u2", "u4"]


async def test_end_is_recorded_once_by_several_nodes(open_test_store: StoreOpener) -> None:
    one, other = await open_test_store(), await open_test_store()
    for store in (one, other):
        store.outbox.targets_of = lambda _: ("https://app.test/events",)
    for number in range(60):
        await put(one, number, -HOUR)
    rows = await one.expiring.token_ended(NOW, after=None, limit=100)
    done = await asyncio.gather(*(store.expiring.end(rows, GONE) for store in (one, other, one, other)))
    assert sorted(row.id for some in done for row in some) == sorted(row.id for row in rows)
    assert await names(other) == []
    stored = await other.connections.get(ref(3))
    assert stored is not None
    assert (stored.state, stored.failure) == (State.NEEDS_REAUTH, GONE)
    async with one.transactions.read() as db:
        result = (await db.execute(text("SELECT event, count(*) FROM outbox GROUP BY event ORDER BY event"))).all()
    assert [tuple(row) for row in result] == [("connection.created", 60), ("connection.needs_reauth", 60)]


async def test_changed_or_refreshing_connection_is_not_ended(store: Store) -> None:
    await put(store, 1, -HOUR)
    await put(store, 2, -HOUR)
    rows = await store.expiring.token_ended(NOW, after=None, limit=9)
    await put(store, 1, HOUR)
    assert await store.refreshes.lease_refresh(ref(2), owner="a", ttl=timedelta(seconds=30))
    assert await store.expiring.end(rows, GONE) == []
    assert await names(store) == ["u2"]


async def test_connection_ended_by_a_refusal_is_settled_without_an_event(store: Store) -> None:
    await put(store, 1, -HOUR)
    statement = update(connections).values(state="needs_reauth")
    await store.transactions.write(lambda db: db.execute(statement))
    rows = await store.expiring.token_ended(NOW, after=None, limit=9)
    assert await store.expiring.end(rows, GONE) == []
    assert await names(store) == []


async def test_connection_that_ends_with_its_token_is_not_reported_on_its_first_day(store: Store) -> None:
    store.outbox.targets_of = lambda _: ("https://app.test/events",)
    await put(store, 1, HOUR)
    assert await store.expiring.report("dev", 3, now=NOW, limit=9) == 0
    long = timedelta(days=60)
    await store.connections.put(new(ref(2), expires_at=NOW + long, life=Lifespan(NOW + long)), now=NOW)
    assert await store.expiring.report("dev", 14, now=NOW + timedelta(days=50), limit=9) == 1


@sqlite_only
async def test_ends_are_found_by_their_index(store: Store) -> None:
    await put(store, 1, -HOUR)
    statements: list[tuple[str, Any]] = []

    def record_statement(_db: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", record_statement)
    (row,) = await store.expiring.token_ended(NOW, after=None, limit=9)
    await store.expiring.token_ended(NOW, after=row, limit=9)
    event.remove(Engine, "before_cursor_execute", record_statement)
    statements = [item for item in statements if "FROM connections" in item[0]]
    assert len(statements) == 2
    async with store.transactions.read() as db:
        for statement, parameters in statements:
            plan = (await db.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)).all()
            assert any("USING INDEX connections_by_token_end (expires_at" in step[3] for step in plan), plan


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
async def test_postgresql_finds_due_connections_by_the_same_index(open_test_store: StoreOpener) -> None:
    store = await open_test_store()
    await put(store, 1, -HOUR)
    async with store.transactions.read() as db:
        # With one row, every plan has the same cost, so the other plans are switched off. They are off for the whole
        # session, because a reader commits after each statement.
        for other in ("seqscan", "bitmapscan", "sort", "incremental_sort"):
            await db.execute(text(f"SET enable_{other} = off"))
        words = (
            "EXPLAIN SELECT * FROM connections WHERE end_settled IS NULL AND expires_at IS NOT NULL AND expires_at <= now() "
            "ORDER BY expires_at, id LIMIT 100"
        )
        plan = "\n".join(row[0] for row in (await db.execute(text(words))).all())
    assert "connections_by_token_end" in plan, plan
    assert "Sort" not in plan, plan
