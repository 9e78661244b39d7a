"""Unused connections are refreshed before their refresh token expires from disuse.

Only one node refreshes each connection, and the refreshes are spread over time.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web

from gateway import clock
from gateway.catalog.provider import Provider
from gateway.catalog.provider_parts import RefreshPolicy
from gateway.records.connection import Connection, ConnectionRef
from gateway.refresh.keep_alive import KeepAlive
from gateway.refresh.schedule import lifespan
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

DAY_S = 86_400
UNUSED = {"rotating": True, "expires_after_days_unused": 365, "expires_after_days_owner_inactive": 90}


@pytest.fixture
async def running(tracker: Tracker, tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """Yield a gateway with an integration that has the limits of Jira's refresh tokens (docs/connections.md#refresh)."""
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url, refresh=UNUSED))
    gateway = RunningGateway(tmp_path, document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"]))
    await gateway.start()
    yield gateway
    await gateway.stop()


async def keep_alive_of_another_node(running: RunningGateway) -> KeepAlive:
    """Return the keep-alive of another node, and stop the keep-alive of the gateway."""
    runtime = running.runtime
    task = next(task for task in asyncio.all_tasks() if task.get_name() == "keep_alive")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return KeepAlive(runtime.store, runtime.refresher, runtime.current)


async def row_of(running: RunningGateway, name: str = "c1") -> Connection:
    row = await running.runtime.store.connections.get(ConnectionRef("dev", "tracker", name))
    assert row is not None
    return row


async def test_keep_alive_continues_after_an_unexpected_error(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.refresh.keep_alive.EVERY_S", 0)
    keep_alive, fault, runs = await keep_alive_of_another_node(running), RuntimeError("a bug"), list[None]()

    async def failing_once() -> int:
        runs.append(None)
        if len(runs) == 1:
            raise fault
        return 0

    monkeypatch.setattr(keep_alive, "run_once", failing_once)
    with structlog.testing.capture_logs() as logged:
        task = asyncio.create_task(keep_alive.run())
        async with asyncio.timeout(PATIENCE_S):
            while len(runs) < 3 and not task.done():
                await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [(event["event"], event["exc_info"]) for event in logged] == [("keep_alive_failed", fault)]


async def test_connection_has_its_expiry_and_its_keep_alive_time(running: RunningGateway, tracker: Tracker) -> None:
    response = await running.import_connection(tracker.grant())
    row = await row_of(running)
    assert row.life.dies_at is not None
    # The time counts from the grant, which was verified shortly before the row was stored.
    assert timedelta(0) <= row.created_at + timedelta(days=90) - row.life.dies_at < timedelta(minutes=1)
    assert response["dies_at"]
    assert response["keep_alive_at"] < response["dies_at"]
    assert (await running.json("GET", "/connections"))["connections"][0]["dies_at"] == response["dies_at"]


async def test_idle_connection_is_refreshed_repeatedly(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    keep_alive = await keep_alive_of_another_node(running)
    assert await keep_alive.run_once() == 0
    for times in range(1, 9):  # together about ten months without calls
        advance_clock(40 * DAY_S)
        await keep_alive.run_once()
        row = await row_of(running)
        assert row.life.dies_at is not None
        assert row.life.dies_at > clock.now()
        assert tracker.calls["refresh_token"] <= times
    assert tracker.calls["refresh_token"] >= 4
    assert not tracker.grants[0].revoked
    async with running.call_proxy("c1") as response:
        assert response.status == 200


async def test_another_node_takes_over_keep_alive(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(tracker.grant())
    first, runtime = await keep_alive_of_another_node(running), running.runtime
    second = KeepAlive(runtime.store, runtime.refresher, runtime.current)
    assert await first.run_once() == 0
    advance_clock(80 * DAY_S)
    await first.run_once()
    assert await second.run_once() == 0
    assert tracker.calls["refresh_token"] == 1
    advance_clock(80 * DAY_S)
    assert await second.run_once() == 1


async def test_connection_that_cannot_be_refreshed_does_not_block_others(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    keep_alive = await keep_alive_of_another_node(running)
    for name in ("c1", "c2", "c3"):
        await running.import_connection(tracker.grant(), name)
    advance_clock(80 * DAY_S)
    tracker.response = web.Response(status=500)
    assert await keep_alive.run_once() == 0
    requests = tracker.calls["refresh_token"]
    assert requests == 3
    assert await keep_alive.run_once() == 0
    assert tracker.calls["refresh_token"] == requests
    tracker.response = None
    advance_clock(3700)
    assert await keep_alive.run_once() == 3


async def test_ended_connection_is_not_kept_alive(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    keep_alive = await keep_alive_of_another_node(running)
    await running.import_connection(tracker.grant())
    tracker.response = web.json_response({"error": "invalid_grant"}, status=400)
    for _ in range(3):
        advance_clock(80 * DAY_S)
        await keep_alive.run_once()
    assert tracker.calls["refresh_token"] == 1
    assert (await row_of(running)).life.keep_alive_at is None


async def test_connections_stored_before_the_limit_was_known_are_scheduled(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    row = await row_of(running)
    await running.runtime.store.keep_alive.plan([(row, type(row.life)())])
    assert (await row_of(running)).life.dies_at is None
    await (await keep_alive_of_another_node(running)).run_once()
    assert (await row_of(running)).life.dies_at == row.last_refreshed_at + timedelta(days=90)  # type: ignore[operator]


async def test_list_is_filtered_by_expiry(running: RunningGateway, tracker: Tracker, advance_clock: Any) -> None:
    from gateway.store import ListFilter

    await running.import_connection(tracker.grant(), "old")
    advance_clock(30 * DAY_S)
    await running.import_connection(tracker.grant(), "young")
    soon = ListFilter(dies_before=clock.now() + timedelta(days=70))
    assert [item.ref.connection_id for item in await running.runtime.store.connections.list("dev", soon)] == ["old"]


def provider(**policy: Any) -> Provider:
    entry = tracker_entry("https://tracker.example")
    return Provider.model_validate({**entry, "name": "tracker", "refresh": RefreshPolicy(**policy)})


def test_keep_alive_of_a_mass_import_is_spread() -> None:
    now, credential = clock.now(), {"type": "OAUTH2", "access_token": "a", "refresh_token": "r"}
    lives = [
        lifespan(provider(**UNUSED), credential, key=str(number), granted_at=now, refreshed_at=now)
        for number in range(1000)
    ]
    days = sorted((life.keep_alive_at - now) / timedelta(days=1) for life in lives if life.keep_alive_at)
    assert len(days) == 1000
    assert 45 <= days[0] < 46
    assert 66 < days[-1] <= 67.5
    assert max(days[place + 50] - days[place] for place in range(950)) < 4


def test_fixed_expiry_is_shown_and_causes_no_refreshes() -> None:
    now, credential = clock.now(), {"type": "OAUTH2", "access_token": "a", "refresh_token": "r"}
    life = lifespan(
        provider(rotating=False, expires_after_days=7), credential, key="k", granted_at=now, refreshed_at=now
    )
    assert (life.dies_at, life.keep_alive_at) == (now + timedelta(days=7), None)


def test_a_credential_without_a_refresh_token_has_nothing_to_keep_alive() -> None:
    now = clock.now()
    life = lifespan(
        provider(**UNUSED), {"type": "OAUTH2", "access_token": "a"}, key="k", granted_at=now, refreshed_at=now
    )
    assert (life.dies_at, life.keep_alive_at) == (None, None)
