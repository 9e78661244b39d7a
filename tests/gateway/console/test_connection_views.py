"""Connections: the list, one connection with its history, and its actions."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.records.connection import RefusedScopes
from gateway.store import ListFilter
from tests.fakes.console import ONE, at_console, csrf_token
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker


async def test_a_full_disk_blocks_a_connection_whose_token_has_expired(
    running: RunningGateway, tracker: Tracker, advance_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.import_connection(tracker.grant())
    async with at_console(running) as console:
        monkeypatch.setattr(running.runtime.store.transactions.damage, "full", True)
        assert "Nothing needs to be done" in await console.page(ONE)
        advance_clock(3601)
        page = await console.page(ONE)
        assert "Nothing needs to be done" not in page
        assert "is not refreshed while the database's disk is full" in page
        assert "Free space on that disk" in page


async def test_connection_page_shows_history_and_actions(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant(), end_user={"id": "u1", "display_name": "Ada <b>"})
    async with at_console(running) as console:
        page = await console.page(ONE)
        assert "active: authorized" in page
        form = csrf_token(page)
        where = {"form": form, "integration": "tracker", "id": "c1"}
        before = await console.data(ONE.replace("?", ".json?"))
        await console.send("/dev/connection/refresh", where)
        after = await console.data(ONE.replace("?", ".json?"))
        assert before["connection"]["last_refreshed_at"] is None, "an import is no refresh"
        assert after["connection"]["last_refreshed_at"] is not None
        shown = await console.send("/dev/connection/link", where)
        assert "/connect?session_token=" in shown
        kept = await console.send("/dev/connection/delete", {**where, "typed": "c2"}, expect=400)
        assert "Type the connection's id" in kept
        done = await console.send("/dev/connection/delete", {**where, "typed": "c1"})
        assert "was deleted here" in done
        await console.page(ONE, expect=404)


async def test_connections_are_found_and_paged(running: RunningGateway, tracker: Tracker) -> None:
    for n in range(53):
        await running.import_connection(tracker.grant(), f"c{n}")
    async with at_console(running) as console:
        first = await console.data("/dev/connections.json")
        assert (len(first["connections"]), first["connections"][0]["connection_id"]) == (50, "c52")
        rest = await console.data(f"/dev/connections.json?cursor={first['following']}")
        assert [connection["connection_id"] for connection in rest["connections"]] == ["c2", "c1", "c0"]
        assert (await console.data("/dev/connections.json?trouble=1"))["connections"] == []
        found = await console.data("/dev/connections.json?search=C51")
        assert [connection["connection_id"] for connection in found["connections"]] == ["c51"]


async def test_a_connection_that_the_provider_ended_is_in_trouble(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection({**tracker.grant(), "refresh_token": "unknown"})
    async with at_console(running) as console:
        where = {"form": csrf_token(await console.page(ONE)), "integration": "tracker", "id": "c1"}
        failed = await console.send("/dev/connection/refresh", where)
        assert "The refresh failed" in failed
        data = await console.data("/dev.json")
        assert [(item["connection_id"], item["state"]) for item in data["trouble"]] == [("c1", "needs_reauth")]
        assert "The end user connects again" in await console.page(ONE)


async def test_connections_that_lack_scopes_are_found(running: RunningGateway, tracker: Tracker) -> None:
    for name in ("c1", "c2"):
        await running.import_connection(tracker.grant(), name)
    store = running.runtime.store
    row = (await store.connections.list("dev", ListFilter(connection_id="c2")))[0]
    await store.rejections.record_scopes(row, RefusedScopes(("admin",), datetime.now(UTC), "/x"))
    async with at_console(running) as console:
        found = await console.data("/dev/connections.json?scopes=1")
        assert [connection["connection_id"] for connection in found["connections"]] == ["c2"]
        assert "admin" in await console.page("/dev/connection?integration=tracker&id=c2")
