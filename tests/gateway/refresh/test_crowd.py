"""Connections in memory with tokens that expire together, and the cost of the change feed during their refreshes."""

import asyncio
from typing import Any

import pytest

from gateway.connections.cache_entries import CacheEntry
from gateway.records.connection import ConnectionRef, Mark
from gateway.refresh.schedule import SLOT_WIDTH_S
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker


def ref(name: str) -> ConnectionRef:
    return ConnectionRef("dev", "tracker", name)


def cache_entry(running: RunningGateway, name: str) -> CacheEntry:
    found = running.runtime.live._entries.get(ref(name))
    assert found is not None
    return found


async def call_until_refresh(running: RunningGateway, name: str) -> float | None:
    """Make a call through the connection. Return the time at which the refresh of its token begins."""
    async with running.call_proxy(name) as response:
        assert response.status == 200
    async with asyncio.timeout(PATIENCE_S):
        # the change feed has not yet read the import of this connection
        while ref(name) in running.runtime.live.feed.unread:
            await asyncio.sleep(0.01)
    return cache_entry(running, name).refresh_at


async def test_each_connection_keeps_its_slot(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.refresh.schedule.JITTER", 0.0)
    for name in ("c1", "c2", "c3"):
        await running.import_connection(tracker.grant(), name)
    moments = [await call_until_refresh(running, name) for name in ("c1", "c2", "c3")]
    assert all(moment is not None for moment in moments)
    assert len({int((moment or 0) / SLOT_WIDTH_S + 1e-6) for moment in moments}) == 3
    advance_clock(120)  # the connection is loaded into memory again
    assert [await call_until_refresh(running, name) for name in ("c1", "c2", "c3")] == moments


async def test_new_token_gets_its_own_slot(running: RunningGateway, tracker: Tracker, advance_clock: Any) -> None:
    await running.import_connection(tracker.grant(), "c1")
    former = await call_until_refresh(running, "c1")
    advance_clock(120)
    await running.json("GET", "/connections/c1?provider_config_key=tracker&force_refresh=true", expect=200)
    assert cache_entry(running, "c1").refresh_at is None, "the refresh time of the former token no longer applies"
    moment = await call_until_refresh(running, "c1")
    assert former is not None
    assert moment is not None
    assert moment > former + 60


async def test_own_refresh_is_not_read_back_from_the_database(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, changes, connections = (
        running.runtime.live,
        running.runtime.store.changes,
        running.runtime.store.connections,
    )
    marks, read_marks, woken = connections.marks, list[ConnectionRef](), list[None]()
    result: dict[ConnectionRef, Mark | None] = {}

    looks: list[int] = []

    async def since(last_id: int) -> Any:
        looks.append(last_id)
        return last_id, result

    async def version() -> int:
        return len(looks)  # a new version each time, so the feed reads the log again

    async def at_once(_at_most_s: float) -> None:
        await asyncio.sleep(0)

    async def wait_for_feed() -> None:
        """Wait until a read of the change log has ended that began after this call."""
        before = len(looks)
        async with asyncio.timeout(PATIENCE_S):
            while len(looks) < before + 3:
                await asyncio.sleep(0)

    async def count_marks(refs: Any) -> Any:
        read_marks.extend(refs)
        return await marks(refs)

    await running.import_connection(tracker.grant(), "c1")
    await call_until_refresh(running, "c1")
    monkeypatch.setattr(changes, "read_since", since)
    monkeypatch.setattr(connections, "marks", count_marks)
    monkeypatch.setattr(live.feed, "_on_change", lambda: woken.append(None))
    own = cache_entry(running, "c1").connection.mark
    monkeypatch.setattr(changes, "version", version)
    monkeypatch.setattr(changes, "wait_for_change", at_once)

    result = {ref("c1"): own}
    await wait_for_feed()
    read_marks.clear()
    woken.clear()
    await wait_for_feed()
    assert (read_marks, woken) == ([], []), "the row in memory is current"
    result = {ref("c1"): (own[0] + 1, own[1])}
    await wait_for_feed()
    assert ref("c1") in read_marks, "the row in memory is older"
    assert woken == []
    read_marks.clear()
    result = {ref("c1"): None}
    await wait_for_feed()
    assert ref("c1") in read_marks, "another process changed the row"
    assert woken


async def test_unrefreshable_or_distant_token_takes_no_slot(running: RunningGateway, tracker: Tracker) -> None:
    grant = tracker.grant()
    await running.import_connection({"access_token": grant["access_token"], "expires_in": 3600}, "c1")
    await running.import_connection({**tracker.grant(), "expires_in": 8 * 3600}, "c2")
    assert [await call_until_refresh(running, name) for name in ("c1", "c2")] == [None, None]
    assert len(running.runtime.live._slots) == 0
