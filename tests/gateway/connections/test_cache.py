"""The connection cache: background refreshes of used connections, and reads that end after a change."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from gateway.connections import cache
from gateway.records.connection import ConnectionRef
from gateway.refresh import backoff
from tests.fakes.gateways import RunningGateway
from tests.fakes.held_calls import hold_after
from tests.fakes.patience import PATIENCE_S
from tests.fakes.refused_writes import refuse_writes
from tests.fakes.tracker import Tracker

REF = ConnectionRef("dev", "tracker", "c1")
LIFETIME_S = 120.0  # shorter than the time for which an unused connection stays in memory
MAX_FIRST_WAIT_S = 1.2 * backoff.FIRST_WAIT.total_seconds()  # from the first failure of a refresh to the next attempt


async def import_and_call(running: RunningGateway, tracker: Tracker) -> None:
    """Import a connection, and make the call that schedules its refresh."""
    tracker.ttl_s = LIFETIME_S
    await running.import_connection(tracker.grant())
    async with running.call_proxy("c1") as response:
        assert response.status == 200
    await running.wait_until_changes_are_read(REF)


async def wait_for_new_token(running: RunningGateway) -> None:
    """Wait until the store has the second version of the credential. No request helps."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            row = await running.runtime.store.connections.get(REF)
            if row is not None and row.version == 2:
                return
            await asyncio.sleep(0.01)


async def test_the_token_of_a_used_connection_is_refreshed_without_a_request(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await import_and_call(running, tracker)
    advance_clock(LIFETIME_S - 5)
    await wait_for_new_token(running)
    assert tracker.calls["refresh_token"] == 1


async def test_a_change_by_another_node_that_keeps_the_token_keeps_its_scheduled_refresh(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await import_and_call(running, tracker)
    metadata = {"connection_id": "c1", "provider_config_key": "tracker", "metadata": {"team": "a"}}
    other = RunningGateway(running.folder, {**running.document, "server": {}})
    await other.start()
    try:
        await other.json("PATCH", "/connections/metadata", json=metadata, expect=200)
    finally:
        await other.stop()
    stored = await running.runtime.store.connections.get(REF)
    assert stored is not None
    async with asyncio.timeout(PATIENCE_S):
        while (await running.runtime.live.read_row(REF)).mark != stored.mark:
            await asyncio.sleep(0.01)
    advance_clock(LIFETIME_S - 5)
    await wait_for_new_token(running)
    assert tracker.calls["refresh_token"] == 1


async def test_a_background_refresh_that_the_store_could_not_record_is_tried_again(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await import_and_call(running, tracker)
    monkeypatch.setattr(cache, "RETRY_S", 0.05)
    with monkeypatch.context() as full:
        refused = refuse_writes(full, running.runtime.store)
        advance_clock(LIFETIME_S - 5)
        async with asyncio.timeout(PATIENCE_S):
            while not refused or running.runtime.refresher.is_refreshing(REF):
                await asyncio.sleep(0.01)
        assert tracker.calls["refresh_token"] == 0
    await wait_for_new_token(running)
    assert tracker.calls["refresh_token"] == 1


UNAVAILABLE = web.Response(status=503)


async def wait_for_stored_failure(running: RunningGateway) -> None:
    """Wait until the row in memory has the failure of a refresh, and no refresh runs."""
    live, refresher = running.runtime.live, running.runtime.refresher
    async with asyncio.timeout(PATIENCE_S):
        while (await live.read_row(REF)).failure is None or refresher.is_refreshing(REF):
            await asyncio.sleep(0.01)


async def fail(refresh: "asyncio.Task[Any]", tracker: Tracker) -> None:
    """Let a refresh fail, because the token endpoint is not available."""
    tracker.response = UNAVAILABLE
    tracker.hold.set()
    await asyncio.wait({refresh})
    assert refresh.exception() is not None


async def test_a_background_refresh_that_failed_is_tried_again_at_the_time_of_the_failure(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await import_and_call(running, tracker)
    tracker.response = UNAVAILABLE
    advance_clock(LIFETIME_S - 5)
    await wait_for_stored_failure(running)
    advance_clock(cache.RETRY_S + 1)
    running.runtime.live.sweep()
    assert tracker.calls["refresh_token"] == 1, "the time of the failure has not come"
    tracker.response = None
    advance_clock(MAX_FIRST_WAIT_S)
    await wait_for_new_token(running)


async def test_a_scheduled_refresh_starts_later_if_another_refresh_runs_at_its_time_and_fails(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await import_and_call(running, tracker)
    tracker.hold.clear()
    other = running.runtime.refresher.start(await running.runtime.live.read_row(REF))
    async with asyncio.timeout(PATIENCE_S):
        while not tracker.token_requests:
            await asyncio.sleep(0.01)
    advance_clock(LIFETIME_S - 5)
    running.runtime.live.sweep()
    await fail(other, tracker)
    assert tracker.calls["refresh_token"] == 1, "the scheduled refresh has not begun beside the other one"
    tracker.response = None
    advance_clock(MAX_FIRST_WAIT_S)
    await wait_for_new_token(running)
    assert tracker.calls["refresh_token"] == 2


async def test_a_call_during_a_refresh_that_fails_schedules_the_next_refresh(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    tracker.ttl_s = LIFETIME_S
    await running.import_connection(tracker.grant())
    tracker.hold.clear()
    other = running.runtime.refresher.start(await running.runtime.live.read_row(REF))
    async with running.call_proxy("c1") as response:
        assert response.status == 200
    await fail(other, tracker)
    tracker.response = None
    await running.wait_until_changes_are_read(REF)
    advance_clock(LIFETIME_S - 5)
    await wait_for_new_token(running)


async def test_a_call_with_a_token_whose_refresh_failed_schedules_the_next_attempt(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    tracker.ttl_s = LIFETIME_S
    await running.import_connection(tracker.grant())
    advance_clock(LIFETIME_S - 5)
    await fail(running.runtime.refresher.start(await running.runtime.live.read_row(REF)), tracker)
    async with running.call_proxy("c1") as response:
        assert response.status == 200
    assert tracker.calls["refresh_token"] == 1
    tracker.response = None
    await running.wait_until_changes_are_read(REF)
    advance_clock(MAX_FIRST_WAIT_S)
    await wait_for_new_token(running)


async def status_of_call(running: RunningGateway) -> int:
    async with running.call_proxy("c1") as response:
        return response.status


async def test_a_call_after_a_deletion_does_not_join_a_read_from_before_it(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.import_connection(tracker.grant())
    has_read, may_return = hold_after(monkeypatch, running.runtime.store.connections, "get")
    before = asyncio.create_task(status_of_call(running))
    await has_read.wait()
    await running.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    async with asyncio.timeout(PATIENCE_S):
        assert await status_of_call(running) == 404
    may_return.set()
    assert await before == 200
    assert await status_of_call(running) == 404, "the deleted connection is not in memory"


async def test_a_call_after_a_deletion_by_another_node_does_not_join_a_read_from_before_it(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.import_connection(tracker.grant())
    other = RunningGateway(running.folder, {**running.document, "server": {}})
    await other.start()
    try:
        has_read, may_return = hold_after(monkeypatch, running.runtime.store.connections, "get")
        before = asyncio.create_task(status_of_call(running))
        await has_read.wait()
        running.runtime.live.feed.changed_at.clear()
        await other.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
        async with asyncio.timeout(PATIENCE_S):
            while REF not in running.runtime.live.feed.changed_at:
                await asyncio.sleep(0.01)
            assert await status_of_call(running) == 404
        may_return.set()
        assert await before == 200
        async with asyncio.timeout(PATIENCE_S):  # the earlier read is corrected by the next run of the change feed
            while await status_of_call(running) != 404:
                await asyncio.sleep(0.01)
    finally:
        await other.stop()


async def test_a_response_after_a_change_does_not_show_a_read_from_before_it(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.import_connection(tracker.grant())
    shown = "/connections/c1?provider_config_key=tracker"
    change = {"connection_id": "c1", "provider_config_key": "tracker", "metadata": {"team": "a"}}
    has_read, may_return = hold_after(monkeypatch, running.runtime.store.connections, "get")
    before = asyncio.create_task(running.json("GET", shown, expect=200))
    await has_read.wait()
    await running.json("PATCH", "/connections/metadata", json=change, expect=200)
    async with asyncio.timeout(PATIENCE_S):
        assert (await running.json("GET", shown, expect=200))["metadata"] == {"team": "a"}
    may_return.set()
    assert not (await before)["metadata"]
