"""After a failover of the database, no token is refreshed before all living processes have written back their tokens.

The database records its timelines. The tests change this record to simulate a failover, so they need no standby.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway import clock
from gateway.records.connection import ConnectionRef
from gateway.refresh.decision import MAX_WAIT_S, SILENT_S
from gateway.refresh.save_tokens import LEASE
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

REF = ConnectionRef("dev", "tracker", "c1")
LONG_AGO = "2020-01-01T00:00:00Z"
Start = Callable[[], Awaitable[RunningGateway]]


@pytest.fixture
async def start(
    tracker: Tracker, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Start]:
    """Return a function that starts a node on this machine."""
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("gateway.refresh.decision.MIN_WAIT_S", 0.0)
    running: list[RunningGateway] = []

    async def started() -> RunningGateway:
        whole = document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"])
        whole["store"]["url"] = database
        running.append(RunningGateway(tmp_path, whole))
        await running[-1].start()
        return running[-1]

    yield started
    for node in running:
        await node.stop()


@pytest.fixture
async def db(database: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    opened = await asyncpg.connect(database)
    yield opened
    await opened.close()


async def failed_over(db: "asyncpg.Connection[Any]", ago_s: float = 0.0) -> None:
    await db.execute("INSERT INTO timelines VALUES ('00000000', now() - interval '1 day')")
    await db.execute("UPDATE timelines SET since = now() - $1 * interval '1 s' WHERE timeline <> '00000000'", ago_s)


async def add_remote_process(db: "asyncpg.Connection[Any]", silent_s: float = 0.0) -> None:
    """Add a process of another machine. This process has not confirmed the failover."""
    await db.execute("INSERT INTO processes VALUES ('other:1', now() - $1 * interval '1 s', NULL)", silent_s)


async def connected(start: Start, tracker: Tracker) -> None:
    """Create a connection with an expired token, in the database but not in the memory of any node."""
    first = await start()
    tokens = {name: text for name, text in tracker.grant().items() if name in ("access_token", "refresh_token")}
    await first.import_connection({**tokens, "expires_at": LONG_AGO})
    await first.stop()


async def call_c1(node: RunningGateway) -> tuple[int, Any, str | None]:
    async with node.call_proxy("c1") as response:
        return response.status, await response.json(), response.headers.get("Retry-After")


async def test_nodes_wait_for_a_running_process_without_confirmation(
    start: Start, tracker: Tracker, db: "asyncpg.Connection[Any]"
) -> None:
    await connected(start, tracker)
    await failed_over(db)
    await add_remote_process(db)
    node = await start()
    status, body, again = await call_c1(node)
    assert (status, body["error"]["code"], again) == (503, "store_unavailable", "5")
    assert body["error"]["payload"] == {"reason": "failover"}
    assert "failed over" in body["error"]["message"]
    assert await node.json("GET", "/ready") == {"result": "ok", "failover": "reconciling"}
    assert tracker.calls["refresh_token"] == 0
    await db.execute("UPDATE processes SET timeline = (SELECT max(timeline) FROM timelines) WHERE process = 'other:1'")
    async with asyncio.timeout(PATIENCE_S):
        while (await call_c1(node))[0] != 200:
            await asyncio.sleep(0.05)
    assert tracker.calls["refresh_token"] == 1
    assert await node.json("GET", "/ready") == {"result": "ok"}


@pytest.mark.parametrize(
    ("ago_s", "silent_s"), [(SILENT_S + 1, SILENT_S + 1), (MAX_WAIT_S + 1, 0.0)], ids=["silent", "for too long"]
)
async def test_silent_or_slow_process_is_not_waited_for(
    ago_s: float, silent_s: float, start: Start, tracker: Tracker, db: "asyncpg.Connection[Any]"
) -> None:
    await connected(start, tracker)
    await failed_over(db, ago_s)
    await add_remote_process(db, silent_s)
    node = await start()
    assert (await call_c1(node))[0] == 200


async def test_silence_counts_from_the_failover(start: Start, tracker: Tracker, db: "asyncpg.Connection[Any]") -> None:
    """The standby possibly lacks the last sign of life of the process, so silence cannot count from that sign."""
    await connected(start, tracker)
    await failed_over(db)
    await add_remote_process(db, SILENT_S + 1)
    node = await start()
    assert (await call_c1(node))[0] == 503
    assert tracker.calls["refresh_token"] == 0


async def test_process_sends_heartbeats_and_removes_its_row_at_the_stop(
    start: Start, tracker: Tracker, db: "asyncpg.Connection[Any]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.failover.HEARTBEAT_S", 0.02)
    node = await start()
    row = await db.fetchrow("SELECT processes.timeline, timelines.timeline AS known FROM processes, timelines")
    assert row is not None
    assert row["timeline"] == row["known"] is not None
    await db.execute("UPDATE processes SET beat_at = now() - interval '1 hour'")
    async with asyncio.timeout(PATIENCE_S):
        while await db.fetchval("SELECT beat_at < now() - interval '10 min' FROM processes"):
            await asyncio.sleep(0.02)
    await node.stop()
    assert await db.fetchval("SELECT count(*) FROM processes") == 0


async def test_row_of_a_dead_process_is_removed(start: Start, tracker: Tracker, db: "asyncpg.Connection[Any]") -> None:
    await add_remote_process(db, 3600.0)
    await start()
    assert await db.fetchval("SELECT count(*) FROM processes WHERE process = 'other:1'") == 0


async def test_older_row_is_written_back_before_the_new_token_is_stored(
    start: Start, tracker: Tracker, db: "asyncpg.Connection[Any]"
) -> None:
    """The exchange that replaces the newer version was in progress when the database lost the newer version."""
    node = await start()
    await node.import_connection(tracker.grant())
    former = await db.fetchrow("SELECT version, credential, updated_at FROM connections")
    assert former is not None
    path = "/connections/c1?provider_config_key=tracker&force_refresh=true"
    assert "error" not in await node.json("GET", path)
    node.runtime.live.forget_all()
    tracker.hold_response.clear()
    refreshing = asyncio.create_task(node.json("GET", path))
    async with asyncio.timeout(PATIENCE_S):
        while tracker.calls["refresh_token"] < 2:
            await asyncio.sleep(0.02)
    lost = "lease_owner = NULL, lease_until = NULL, intent_digest = NULL, intent_at = NULL"
    values = (former["version"], former["credential"], former["updated_at"])
    await db.execute(f"UPDATE connections SET version = $1, credential = $2, updated_at = $3, {lost}", *values)
    tracker.hold_response.set()
    async with asyncio.timeout(PATIENCE_S):
        assert "error" not in await refreshing
    row = await node.runtime.store.connections.get(REF)
    assert row is not None
    assert row.version == 3
    assert node.runtime.store.open(row.credential)["refresh_token"] == tracker.grants[0].refresh_token
    assert clock.now() < (row.expires_at or clock.now())


async def test_process_paused_longer_than_its_lease_sends_nothing(
    start: Start, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failover, other machines may have continued without this process and taken over its claims."""
    node = await start()
    tokens = {name: text for name, text in tracker.grant().items() if name in ("access_token", "refresh_token")}
    await node.import_connection({**tokens, "expires_at": LONG_AGO})
    store = node.runtime.store
    prepare, claim, monotonic = store.journal.prepare, store.refreshes.lease_refresh, clock.monotonic
    paused_s, claims, sent_at = [0.0], [], []

    async def paused(environment: str) -> None:
        await prepare(environment)
        sent_at.append(tracker.calls["refresh_token"])
        if len(claims) == 1:
            paused_s[0] = LEASE.total_seconds()

    async def claimed(ref: ConnectionRef, **options: Any) -> bool:
        claims.append(options["owner"])
        return await claim(ref, **options)

    monkeypatch.setattr(store.journal, "prepare", paused)
    monkeypatch.setattr(store.refreshes, "lease_refresh", claimed)
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + paused_s[0])
    assert (await call_c1(node))[0] == 200
    assert len(set(claims)) == 2, "the node released its first claim and claimed again"
    assert sent_at == [0, 0]
    assert tracker.calls["refresh_token"] == 1
