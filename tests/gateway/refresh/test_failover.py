"""A standby that lacks the last commits takes over, and living nodes write back the tokens that they have in memory.

The provider revokes a grant when it receives a refresh token twice. So a single refresh with the old token from the
database would lose the connection.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.records.connection import ConnectionRef
from gateway.records.states import State
from gateway.store import Store, open_store
from gateway.store.changes import record_change
from gateway.store.tables import connections
from gateway.vault import Keyring
from tests.fakes.failover import Cluster
from tests.fakes.gateways import ENCRYPTION_KEY, RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.postgres import PostgresServer
from tests.fakes.tracker import Tracker

COUNT = 20
IDS = [f"c{n}" for n in range(COUNT)]
REF = ConnectionRef("dev", "tracker", "c1")
Start = Callable[[], Awaitable[RunningGateway]]


@pytest.fixture
async def cluster(postgres_server: PostgresServer) -> AsyncIterator[Cluster]:
    made = Cluster(postgres_server)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def start(tracker: Tracker, tmp_path: Path, cluster: Cluster) -> AsyncIterator[Start]:
    """Return a function that starts a node on the database."""
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    running: list[RunningGateway] = []

    async def started() -> RunningGateway:
        whole = document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"])
        whole["store"]["url"] = cluster.url("postgres")
        running.append(RunningGateway(tmp_path, whole))
        await running[-1].start()
        return running[-1]

    yield started
    for node in running:
        await node.stop()


async def opened(cluster: Cluster) -> Store:
    return await open_store(cluster.url("postgres"), Keyring([base64.b64decode(ENCRYPTION_KEY)]), environments={"dev"})


async def call_status(node: RunningGateway, connection_id: str) -> int:
    async with node.call_proxy(connection_id) as response:
        await response.read()
        status: int = response.status
        return status


async def refreshed(node: RunningGateway, connection_id: str) -> Any:
    return await node.json("GET", f"/connections/{connection_id}?provider_config_key=tracker&force_refresh=true")


async def connected(nodes: list[RunningGateway], tracker: Tracker) -> None:
    """Load all connections into the memory of all nodes."""
    for connection_id in IDS:
        await nodes[0].import_connection(tracker.grant(), connection_id)
    for node in nodes:
        assert [await call_status(node, item) for item in IDS] == [200] * COUNT


async def events(store: Store, connection_id: str) -> list[str]:
    row = await store.connections.get(ConnectionRef("dev", "tracker", connection_id))
    assert row is not None
    assert row.state is State.ACTIVE
    return [change.reason for change in await store.history.changes_of(row.id)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("data_key_is_lost", [False, True])
async def test_newer_tokens_are_written_back_before_any_refresh(
    data_key_is_lost: bool, cluster: Cluster, start: Start, tracker: Tracker
) -> None:
    one, other = await start(), await start()
    await connected([one, other], tracker)
    await cluster.replicate()
    if data_key_is_lost:
        operator = await opened(cluster)
        await operator.rotation.rotate(lambda *_: None, fresh=True)
        await operator.close()
    for n, connection_id in enumerate(IDS):
        assert "error" not in await refreshed((one, other)[n % 2], connection_id)
    assert tracker.calls["refresh_token"] == COUNT
    without_memory = await start()
    await cluster.fail_over()
    async with asyncio.timeout(PATIENCE_S):
        responses = await asyncio.gather(*(_until_responded(without_memory, item) for item in IDS))
    assert [response.get("error") for response in responses] == [None] * COUNT
    assert not any(grant.revoked for grant in tracker.grants)
    assert [await call_status(one, connection_id) for connection_id in IDS] == [200] * COUNT
    await _wait_until(lambda: not any(node.runtime.store.failover.pending for node in (one, other, without_memory)))
    written = one.runtime.live.lost_commits.written_back + other.runtime.live.lost_commits.written_back
    assert written == {("dev", "tracker"): COUNT}
    assert await events(one.runtime.store, "c0") == ["authorized", "failover"]


async def _until_responded(node: RunningGateway, connection_id: str) -> Any:
    """Refresh, and repeat after each 503, as a correct application does. Return the first other response."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            result = await refreshed(node, connection_id)
            if result.get("error", {}).get("code") != "store_unavailable":
                return result
            await asyncio.sleep(0.1)


@pytest.mark.timeout(300)
async def test_refresh_in_flight_is_claimed_again(
    cluster: Cluster, start: Start, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The standby lacks the claim of a refresh in progress, so its node writes the claim again. The other node then
    waits.
    """
    monkeypatch.setattr("gateway.refresh.decision.MIN_WAIT_S", 0.0)  # so that nodes wait only for confirmations
    one, other = await start(), await start()
    await one.import_connection(tracker.grant())
    assert [await call_status(node, "c1") for node in (one, other)] == [200, 200]
    await cluster.replicate()
    tracker.hold_response.clear()
    refreshing = asyncio.create_task(refreshed(one, "c1"))
    await _wait_until(lambda: tracker.calls["refresh_token"] == 1)
    await cluster.fail_over()
    await _wait_until(lambda: not any(node.runtime.store.failover.pending for node in (one, other)), of=other)
    row = await other.runtime.store.connections.get(REF)
    assert row is not None
    assert row.intent is not None
    waiting = asyncio.create_task(refreshed(other, "c1"))
    tracker.hold_response.set()
    async with asyncio.timeout(PATIENCE_S):
        assert "error" not in await refreshing
        assert "error" not in await waiting
    assert not tracker.grants[0].revoked
    assert await call_status(other, "c1") == 200


async def _wait_until(condition: Callable[[], bool], of: RunningGateway | None = None) -> None:
    """Wait for the condition. `of`: a node that must first notice the failover; None: do not wait for this."""
    before = of.runtime.store.failover.timeline if of is not None else ""
    async with asyncio.timeout(PATIENCE_S):
        while (of is not None and of.runtime.store.failover.timeline == before) or not condition():
            await asyncio.sleep(0.02)


@pytest.mark.timeout(300)
async def test_lost_token_after_a_failover_names_the_failover_as_cause(
    cluster: Cluster, start: Start, tracker: Tracker
) -> None:
    first = await start()
    tracker.ttl_s = 1
    await first.import_connection(tracker.grant())
    await cluster.replicate()
    assert "error" not in await refreshed(first, "c1")
    await first.stop()
    await cluster.fail_over()
    after = await start()
    async with asyncio.timeout(PATIENCE_S):
        assert (await _until_responded(after, "c1"))["error"]["code"] == "reconnect_needed"
    body = await after.json("GET", "/connections/c1?provider_config_key=tracker&include=history")
    found = body["error"]["payload"]["connection"]["diagnosis"]
    assert found["causes"][0]["cause"] == "failover"
    assert "failed over" in found["causes"][0]["why"]
    assert found["action"]["do"] == "reconnect"


async def test_row_older_than_in_memory_is_noticed_without_a_failover(
    running: RunningGateway, tracker: Tracker
) -> None:
    """A row can become older without a failover: in a crash before the last commits were written, or with a restored
    backup.
    """
    await running.import_connection(tracker.grant())
    assert await call_status(running, "c1") == 200
    store = running.runtime.store
    async with store.transactions.read() as db:
        former = dict((await db.execute(select(connections))).mappings().one())
    assert "error" not in await refreshed(running, "c1")

    async def put_back(db: AsyncConnection) -> None:
        await db.execute(update(connections).values(former))
        await record_change(db, REF, clock.now())

    await store.transactions.write(put_back)
    async with asyncio.timeout(PATIENCE_S):
        while not running.runtime.live.lost_commits.written_back:
            await asyncio.sleep(0.02)
    row = await store.connections.get(REF)
    assert row is not None
    assert row.version == 2
    assert await events(store, "c1") == ["authorized", "failover"]
    assert await call_status(running, "c1") == 200


async def test_recently_refreshed_token_is_written_back_even_if_unused(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keep-alive refresh, for example, does not load its connection into memory. Its token must be written back too."""
    for connection_id in ("c1", "c2"):
        await running.import_connection(tracker.grant(), connection_id)
    store, live = running.runtime.store, running.runtime.live
    live.forget_all()
    former = {}
    for connection_id in ("c2", "c1"):
        ref = REF._replace(connection_id=connection_id)
        async with store.transactions.read() as db:
            found = await db.execute(select(connections).where(connections.c.connection_id == connection_id))
            former = dict(found.mappings().one())
        row = await store.connections.get(ref)
        assert row is not None
        await running.runtime.refresher.start(row)
    assert live.entry_count == 0
    await store.transactions.write(
        lambda db: db.execute(update(connections).where(connections.c.connection_id == "c1").values(former))
    )
    await live.write_back()
    row = await store.connections.get(REF)
    assert row is not None
    assert store.open(row.credential)["refresh_token"] == tracker.grants[0].refresh_token
    assert live.lost_commits.written_back == {("dev", "tracker"): 1}
    assert {item.ref.connection_id for item in running.runtime.refresher.recent} == {"c1", "c2"}
    monkeypatch.setattr("gateway.refresh.refresher.RECENT_S", -1.0)
    assert running.runtime.refresher.recent == []


async def test_row_read_just_before_a_refresh_does_not_count_as_lost_commits(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.import_connection(tracker.grant())
    assert await call_status(running, "c1") == 200
    store, live = running.runtime.store, running.runtime.live
    read, known_row = store.connections.get, await live.read_row(REF)
    before = await read(REF)

    async def slow(_ref: ConnectionRef) -> Any:
        monkeypatch.setattr(store.connections, "get", read)
        await running.runtime.refresher.refresh(known_row, force=True)
        live.replace(running.runtime.refresher.recent[-1])
        return before

    async def changed(_refs: object) -> dict[ConnectionRef, Any]:
        return {}

    monkeypatch.setattr(store.connections, "marks", changed)
    monkeypatch.setattr(store.connections, "get", slow)
    await live.refresh_entries({REF: None})
    assert (await live.read_row(REF)).version == 2


async def test_heartbeat_continues_after_an_unexpected_error(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("HEARTBEAT_S", "FREQUENT_HEARTBEAT_S"):
        monkeypatch.setattr(f"gateway.store.failover.{pause}", 0.02)
    failover = (await start()).runtime.store.failover
    reconciling, fault, calls = failover.reconciling, RuntimeError("a bug"), list[None]()

    async def failing_once() -> bool:
        calls.append(None)
        if len(calls) == 1:
            raise fault
        return await reconciling()

    with structlog.testing.capture_logs() as logged:
        monkeypatch.setattr(failover, "reconciling", failing_once)
        async with asyncio.timeout(PATIENCE_S):
            while len(calls) < 3:
                await asyncio.sleep(0.01)
    assert [(line["detail"], line["exc_info"]) for line in logged if line["event"] == "heartbeat_not_written"] == [
        ("a bug", fault)
    ]
