"""PostgreSQL stops and starts again under a running gateway. Changes that another node made take effect."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway import clock
from gateway.errors import Unavailable
from gateway.records.connection import ConnectionRef
from gateway.store.postgres import postgres_backend
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.postgres import PostgresServer
from tests.fakes.tracker import Tracker


@pytest.fixture
async def two_nodes(
    tracker: Tracker, tmp_path: Path, database: str
) -> AsyncIterator[tuple[RunningGateway, RunningGateway]]:
    """Two nodes on one database."""
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    made = []
    for _ in range(2):
        configuration = document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"])
        configuration["store"]["url"] = database
        made.append(RunningGateway(tmp_path, configuration))
        await made[-1].start()
    yield made[0], made[1]
    for node in made:
        await node.stop()


@pytest.fixture
def advance_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that sets both clocks forward."""
    shift = 0.0
    now, monotonic = clock.now, clock.monotonic

    def move(seconds: float) -> None:
        nonlocal shift
        shift += seconds

    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(seconds=shift))
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + shift)
    return move


async def status(node: RunningGateway, connection_id: str = "c1") -> int:
    async with node.call_proxy(connection_id) as response:
        await response.read()
        code: int = response.status
        return code


async def wait_until_status(node: RunningGateway, wanted: int, connection_id: str = "c1") -> None:
    """Return when a proxied call has that status."""
    async with asyncio.timeout(PATIENCE_S):
        while await status(node, connection_id) != wanted:
            await asyncio.sleep(0.01)


async def readiness(node: RunningGateway, query: str = "") -> tuple[int, dict[str, str]]:
    async with node.http.get(f"{node.url}/ready{query}") as response:
        return response.status, await response.json()


async def wait_until_ready_reports(node: RunningGateway, status: int, result: dict[str, str]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await readiness(node) != (status, result):
            await asyncio.sleep(0.01)


async def test_a_deleted_connection_is_refused_by_the_other_node(
    two_nodes: tuple[RunningGateway, RunningGateway], tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two_nodes
    changes = second.runtime.store.changes
    wait_for_change = changes.wait_for_change
    # The node reads the change log only after a notification, not periodically.
    monkeypatch.setattr(changes, "wait_for_change", lambda _at_most_s: wait_for_change(10 * PATIENCE_S))
    for n in range(10):
        name = f"c{n}"
        await first.import_connection(tracker.grant(), name)
        assert await status(second, name) == 200
        async with first.http.delete(
            f"{first.url}/connections/{name}?provider_config_key=tracker", headers=first.headers
        ) as response:
            assert response.status == 200
        await wait_until_status(second, 404, name)


async def test_recently_used_connections_are_served_during_a_database_outage_and_all_others_after_it(
    two_nodes: tuple[RunningGateway, RunningGateway],
    tracker: Tracker,
    postgres_server: PostgresServer,
    advance_clock: Callable[[float], None],
) -> None:
    first, second = two_nodes
    await first.import_connection(tracker.grant(), "c1")
    await first.import_connection(tracker.grant(), "c2")
    assert await status(second, "c1") == 200
    await second.wait_until_changes_are_read(ConnectionRef("dev", "tracker", "c2"))
    await asyncio.to_thread(postgres_server.stop)
    try:
        for _ in range(7):
            assert await status(second, "c1") == 200
            advance_clock(10)  # longer than the minute for which an opened credential stays in memory
        assert await status(second, "c2") == 503, "c2 was not used on this node"
        for path in ("/connections", "/connections/c1?provider_config_key=tracker"):
            async with second.http.get(second.url + path, headers=second.headers) as response:
                assert response.status == 503
                assert response.headers["Gateway-Error"] == "store_unavailable"
                assert response.headers["Retry-After"] == "5"
        async with second.http.get(f"{second.url}/health") as response:
            assert response.status == 200
        await wait_until_ready_reports(second, 200, {"result": "ok", "store": "away"})
        assert await readiness(second, "?store=required") == (503, {"result": "not ready", "store": "away"})
        advance_clock(300)  # longer than live.ttl_s: from now on, no connection can be used
        assert await readiness(second) == (503, {"result": "not ready", "store": "away"})
    finally:
        postgres_server.launch()
    await postgres_server.responses()
    await wait_until_status(second, 200, "c2")
    await wait_until_ready_reports(second, 200, {"result": "ok"})
    assert await readiness(second, "?store=required") == (200, {"result": "ok"})
    assert (await second.json("GET", "/connections", expect=200))["connections"]
    async with first.http.delete(
        f"{first.url}/connections/c1?provider_config_key=tracker", headers=first.headers
    ) as response:
        assert response.status == 200
    await wait_until_status(second, 404, "c1")  # the node reads changes again


async def test_a_changed_connection_that_cannot_be_read_is_served_no_longer_than_trust_s(
    two_nodes: tuple[RunningGateway, RunningGateway], tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two_nodes
    await first.import_connection(tracker.grant(), "c1")
    assert await status(second) == 200
    read = asyncio.Event()

    async def unreadable(_ref: object) -> None:
        read.set()
        raise Unavailable("store_unavailable", "The database does not respond.", retry_after_s=5)

    second.configure(live=replace(second.runtime.generation.config.live, trust_s=0.2))
    monkeypatch.setattr(second.runtime.store.connections, "get", unreadable)
    await first.import_connection(tracker.grant(), "c1")
    await asyncio.wait_for(read.wait(), PATIENCE_S)
    await wait_until_status(second, 503)


async def test_a_node_that_could_not_listen_reads_the_changes_that_it_missed(
    two_nodes: tuple[RunningGateway, RunningGateway], tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two_nodes
    await first.import_connection(tracker.grant(), "c1")
    assert await status(second) == 200
    connect, may_connect = postgres_backend.connect, asyncio.Event()

    async def connect_later(*args: Any, **options: Any) -> Any:
        await may_connect.wait()
        return await connect(*args, **options)

    monkeypatch.setattr(postgres_backend, "connect", connect_later)
    await second.runtime.store.changes.close()  # closes the connection on which the node listens for changes
    async with first.http.delete(
        f"{first.url}/connections/c1?provider_config_key=tracker", headers=first.headers
    ) as response:
        assert response.status == 200
    assert await status(second) == 200, "the node cannot know of the deletion yet"
    may_connect.set()
    await wait_until_status(second, 404)
