"""Exchanges are written in batches and leave by age."""

from datetime import timedelta

from sqlalchemy import func, select

from gateway.records.exchange import Exchange
from gateway.store import Store
from gateway.store.request_log import PRUNED_AT_ONCE
from gateway.store.tables import request_log
from tests.gateway.store.conftest import NOW


def exchange(seconds: int = 0, **fields: object) -> Exchange:
    return Exchange(
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
    assert [Exchange(**{name: row[name] for name in row if name != "id"}) for row in stored] == [
        exchange(0),
        exchange(1),
    ]


async def test_what_is_older_is_pruned_however_much_it_is(store: Store) -> None:
    await store.request_log.add_many([exchange(0)] * (PRUNED_AT_ONCE + 1) + [exchange(10)] * 3)
    assert await store.request_log.prune(NOW + timedelta(seconds=10)) == PRUNED_AT_ONCE + 1
    assert await rows(store) == 3
