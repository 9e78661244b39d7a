"""The cache refreshes the tokens of connections that were used, even if no further request needs them."""

import asyncio
from typing import Any

import pytest

from gateway.connections import cache
from gateway.records.connection import ConnectionRef
from gateway.store.database_faults import DatabaseUnavailable
from gateway.store.transactions import CROWDED
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

REF = ConnectionRef("dev", "tracker", "c1")
LIFETIME_S = 120.0  # shorter than the time for which an unused connection stays in memory


async def import_and_call(running: RunningGateway, tracker: Tracker) -> None:
    """Import a connection, and make the call that schedules its refresh."""
    tracker.ttl_s = LIFETIME_S
    await running.import_connection(tracker.grant())
    async with running.call_proxy("c1") as response:
        assert response.status == 200


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
    refused: list[Any] = []

    async def raise_crowded(*_: Any, **__: Any) -> Any:
        refused.append(DatabaseUnavailable(CROWDED))
        raise refused[-1]

    with monkeypatch.context() as full:
        full.setattr(running.runtime.store.transactions, "write", raise_crowded)
        advance_clock(LIFETIME_S - 5)
        async with asyncio.timeout(PATIENCE_S):
            while not refused or running.runtime.refresher.under_way(REF):
                await asyncio.sleep(0.01)
        assert tracker.calls["refresh_token"] == 0
    await wait_for_new_token(running)
    assert tracker.calls["refresh_token"] == 1
