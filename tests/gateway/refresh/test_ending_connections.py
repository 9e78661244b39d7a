"""If a connection cannot be refreshed, it needs its end user as soon as its access token expires, even if nobody calls
it.
"""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from sqlalchemy import update
from structlog.testing import capture_logs

from gateway import clock
from gateway.catalog.provider import Provider
from gateway.catalog.refresh_tokens import advice_on_refresh_token
from gateway.records.connection import ConnectionRef, Lifespan
from gateway.refresh.keep_alive import KeepAlive
from gateway.refresh.schedule import lifespan
from gateway.store.tables import connections
from tests.fakes.commands import command_output
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.receiver import Receiver
from tests.fakes.tracker import Tracker
from tests.gateway.events.conftest import event_gateway, receiver, settings

__all__ = ["event_gateway", "receiver", "settings"]

WHY = "/connections/c1?provider_config_key=tracker&include=history"


def without_refresh_token(grant: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return `grant` without its refresh token."""
    return {name: value for name, value in grant.items() if name != "refresh_token"} | more


async def keep_alive_of_another_node(gateway: RunningGateway) -> KeepAlive:
    """Return the keep-alive of another node, and stop the keep-alive of this node."""
    runtime = gateway.runtime
    for task in asyncio.all_tasks():
        if task.get_name() == "keep_alive":
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    return KeepAlive(runtime.store, runtime.refresher, runtime.current)


async def states(gateway: RunningGateway) -> dict[str, str]:
    listed = (await gateway.json("GET", "/connections"))["connections"]
    return {row["connection_id"]: row["state"] for row in listed}


async def life_of(gateway: RunningGateway, name: str = "c1") -> Lifespan:
    row = await gateway.runtime.store.connections.get(ConnectionRef("dev", "tracker", name))
    assert row is not None
    return row.life


async def test_idle_connection_becomes_needs_reauth_when_it_ends_with_one_event(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any
) -> None:
    response = await event_gateway.import_connection(without_refresh_token(tracker.grant()))
    assert response["dies_at"] is not None
    await event_gateway.import_connection(tracker.grant(), "renewable")
    first = await keep_alive_of_another_node(event_gateway)
    second = await keep_alive_of_another_node(event_gateway)
    await first.run_once()
    assert (await states(event_gateway))["c1"] == "active"
    advance_clock(3601)
    await asyncio.gather(first.run_once(), second.run_once())
    await asyncio.gather(second.run_once(), first.run_once())
    assert await states(event_gateway) == {"c1": "needs_reauth", "renewable": "active"}
    body = await event_gateway.json("GET", WHY, expect=424)
    history = body["error"]["payload"]["connection"]["history"]
    assert [(change["state"], change["reason"]) for change in history] == [
        ("active", "authorized"),
        ("needs_reauth", "no_refresh_token"),
    ]
    await event_gateway.json("DELETE", "/connections/renewable?provider_config_key=tracker", expect=200)
    last = {("c1", "connection.needs_reauth"), ("renewable", "connection.deleted")}  # the two events can have any order
    await receiver.wait_until(lambda: last <= set(receiver.events()))
    assert [event for name, event in receiver.events() if name == "c1"] == [
        "connection.created",
        "connection.needs_reauth",
    ]
    assert tracker.calls["refresh_token"] == 0


async def test_call_at_expiry_and_scan_send_one_event(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any
) -> None:
    await event_gateway.import_connection(without_refresh_token(tracker.grant()))
    keep_alive = await keep_alive_of_another_node(event_gateway)
    advance_clock(3601)
    async with event_gateway.call_proxy("c1") as response:
        assert response.status == 424
    await keep_alive.run_once()
    await event_gateway.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    await receiver.wait_until_taken(3)
    assert [event for _, event in receiver.events()] == [
        "connection.created",
        "connection.needs_reauth",
        "connection.deleted",
    ]


async def test_import_of_an_ended_connection_is_needs_reauth(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    tracker.ttl_s = None
    await event_gateway.import_connection(without_refresh_token(tracker.grant(), expires_at="2020-01-01T00:00:00Z"))
    await event_gateway.import_connection({**tracker.grant(), "expires_at": "2020-01-01T00:00:00Z"}, "renewable")
    assert await states(event_gateway) == {"c1": "needs_reauth", "renewable": "active"}
    async with event_gateway.call_proxy("c1") as response:
        assert (response.status, (await response.json())["error"]["payload"]["reason"]) == (424, "no_refresh_token")
    await receiver.wait_until_taken(3)
    assert [event for name, event in receiver.events() if name == "c1"] == [
        "connection.created",
        "connection.needs_reauth",
    ]
    await event_gateway.import_connection(tracker.grant())
    assert (await states(event_gateway))["c1"] == "active"


async def test_rows_of_earlier_versions_are_found(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    """Rows of earlier versions contain neither a time nor a mark. Only the sealed credential shows whether a refresh is
    possible.
    """
    await running.import_connection(without_refresh_token(tracker.grant()))
    for number in range(3):
        await running.import_connection(tracker.grant(), f"renewable-{number}")
    keep_alive, store = await keep_alive_of_another_node(running), running.runtime.store
    old = update(connections).values(end_settled=None, dies_at=None)
    await store.transactions.write(lambda db: db.execute(old))
    advance_clock(3601)
    await keep_alive.run_once()
    assert (await states(running))["c1"] == "needs_reauth"
    assert sorted(set((await states(running)).values())) == ["active", "needs_reauth"]
    assert await store.expiring.token_ended(clock.now(), after=None, limit=9) == []
    assert (await life_of(running, "renewable-1")).settled


async def test_damaged_row_does_not_block_others(running: RunningGateway, tracker: Tracker, advance_clock: Any) -> None:
    await running.import_connection(without_refresh_token(tracker.grant()), "damaged")
    await running.import_connection(without_refresh_token(tracker.grant()))
    keep_alive, store = await keep_alive_of_another_node(running), running.runtime.store
    damage = update(connections).where(connections.c.connection_id == "damaged").values(credential=b"x" * 80)
    await store.transactions.write(lambda db: db.execute(damage))
    advance_clock(3601)
    await keep_alive.run_once()
    assert await states(running) == {"damaged": "active", "c1": "needs_reauth"}


async def test_connection_in_refresh_is_not_ended(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await running.import_connection(without_refresh_token(tracker.grant()))
    keep_alive, refreshes = await keep_alive_of_another_node(running), running.runtime.store.refreshes
    advance_clock(3601)
    ref = ConnectionRef("dev", "tracker", "c1")
    assert await refreshes.lease_refresh(ref, owner="a", ttl=timedelta(seconds=30))
    await keep_alive.run_once()
    assert await states(running) == {"c1": "active"}
    await refreshes.release_lease(ref, owner="a")
    await keep_alive.run_once()
    assert await states(running) == {"c1": "needs_reauth"}


async def test_connection_without_expiry_stays_active(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    grant = without_refresh_token(tracker.grant())
    del grant["expires_in"]
    await running.import_connection(grant)
    keep_alive = await keep_alive_of_another_node(running)
    advance_clock(400 * 86_400)
    await keep_alive.run_once()
    assert await states(running) == {"c1": "active"}
    assert (await running.json("GET", "/connections"))["connections"][0]["dies_at"] is None


LASTING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "OAUTH2_CC": ({"type": "OAUTH2_CC", "client_id": "i", "client_secret": "s", "token": "t"}, {}),
    "TWO_STEP": ({"type": "TWO_STEP", "token": "t"}, {}),
    "JWT": ({"type": "JWT", "token": "t"}, {"jwt": {"key": "${credentials.key}"}}),
    "APP": ({"type": "APP", "access_token": "t", "installation_id": "7"}, {}),
}


@pytest.mark.parametrize("mode", LASTING)
def test_connection_refreshed_from_stored_inputs_is_not_ended(mode: str) -> None:
    credential, more = LASTING[mode]
    now = clock.now()
    entry = tracker_entry("https://far.test", auth_mode=mode, **more)
    provider = Provider.model_validate({**entry, "name": "tracker"})
    ends = (now - timedelta(hours=1)).isoformat()
    life = lifespan(provider, {**credential, "expires_at": ends}, key="k", granted_at=now, refreshed_at=now)
    assert life == Lifespan(settled=True)


def test_token_exchanged_for_itself_is_kept_alive_and_ends_when_it_expires() -> None:
    now, hour = datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=1)
    entry = tracker_entry("https://far.test", refresh={"by_access_token": True})
    provider = Provider.model_validate({**entry, "name": "tracker"})
    credential = {"type": "OAUTH2", "access_token": "a", "expires_at": (now + hour).isoformat()}
    life = lifespan(provider, credential, key="k", granted_at=now, refreshed_at=now)
    assert (life.dies_at, life.settled) == (now + hour, False)
    assert life.keep_alive_at is not None
    assert hour / 2 <= life.keep_alive_at - now <= hour * 3 / 4


async def test_token_exchanged_for_itself_is_refreshed_while_valid(
    tracker: Tracker, tmp_path: Path, advance_clock: Any
) -> None:
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url, refresh={"by_access_token": True}))
    gateway = RunningGateway(tmp_path, document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"]))
    await gateway.start()
    try:
        grant = tracker.grant()
        await gateway.import_connection(without_refresh_token(grant))
        keep_alive = await keep_alive_of_another_node(gateway)
        tracker.response = web.json_response({"access_token": "long-lived", "expires_in": 5_184_000})
        advance_clock(3600 * 0.76)
        assert await keep_alive.run_once() == 1
        tracker.response = None
        assert await states(gateway) == {"c1": "active"}
        advance_clock(3600)
        await keep_alive.run_once()
        assert await states(gateway) == {"c1": "active"}
    finally:
        await gateway.stop()


async def test_a_consent_without_a_refresh_token_warns_immediately(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    tracker.token_extra = {"refresh_token": None}
    token = await event_gateway.session_token()
    with capture_logs() as logged:
        async with event_gateway.http.get(
            f"{event_gateway.url}/oauth/connect/tracker?connect_session_token={token}&params[subdomain]=acme"
        ) as response:
            assert response.status == 200, await response.text()
    (line,) = [item for item in logged if item["event"] == "no_refresh_token"]
    assert line["log_level"] == "warning"
    assert (line["environment"], line["integration"]) == ("dev", "tracker")
    await receiver.wait_until_taken(1)
    event = receiver.taken[0].event
    assert event["event"] == "connection.created"
    assert event["warning"]["type"] == "no_refresh_token"
    assert event["diesAt"]
    listed = (await event_gateway.json("GET", "/connections"))["connections"][0]
    url = WHY.replace("/c1?", f"/{listed['connection_id']}?")
    found = (await event_gateway.json("GET", url, expect=200))["diagnosis"]
    assert (found["causes"][0]["cause"], found["action"]["do"]) == ("no_refresh_token", "reconnect")
    for text in (line["detail"], event["warning"]["description"], found["causes"][0]["why"]):
        assert "gave no refresh token" in text
        assert "requests the scope 'offline_access'" in text
        assert "prompt=consent" in text
        assert "Add" not in text


async def test_a_refresh_token_and_a_token_without_expiry_cause_no_warning(
    running: RunningGateway, tracker: Tracker
) -> None:
    endless = without_refresh_token(tracker.grant())
    del endless["expires_in"]
    with capture_logs() as logged:
        await running.import_connection(tracker.grant())
        await running.import_connection(endless, "c2")
    assert [event for event in logged if event["event"] == "no_refresh_token"] == []


def entry_with(**changes: Any) -> Provider:
    entry = tracker_entry("https://far.test", default_scopes=[], **changes)
    return Provider.model_validate({**entry, "name": "tracker"})


@pytest.mark.parametrize(
    ("entry", "asked", "words"),
    [
        ({"refresh": {"requires_scope": "keep"}}, [], "Add the scope 'keep'"),
        ({"available_scopes": ["offline_access"]}, [], "Add the scope 'offline_access'"),
        ({"refresh": {"requires_scope": "keep"}}, ["keep"], "Each authorization requests the scope 'keep'."),
        ({}, ["offline_access"], "Each authorization requests the scope 'offline_access'."),
        ({"authorization_params": {"access_type": "offline"}}, [], "Each authorization requests access_type=offline."),
        (
            {"authorization_params": {"access_type": "offline", "prompt": "consent"}},
            [],
            "Each authorization requests access_type=offline and prompt=consent: check at Tracker",
        ),
        ({}, [], "See Tracker's documentation"),
    ],
)
def test_the_advice_depends_on_the_requested_scopes(entry: dict[str, Any], asked: list[str], words: str) -> None:
    assert advice_on_refresh_token(entry_with(**entry), asked).startswith(words)


async def test_doctor_names_the_integrations_whose_connections_end(
    running: RunningGateway, tracker: Tracker, tmp_path: Path
) -> None:
    await running.import_connection(without_refresh_token(tracker.grant()))
    await running.import_connection(tracker.grant(), "renewable")
    file = tmp_path / "gateway.yaml"
    file.write_text(yaml.safe_dump(running.document))
    found = await command_output("doctor", "-c", str(file), "--offline", "--json")
    (item,) = [finding for finding in json.loads(found.out)["findings"] if finding["check"] == "refresh tokens"]
    assert (item["level"], item["integration"]) == ("warn", "dev/tracker")
    assert item["message"].startswith("1 connection has no refresh token and ends with its access token, the next on ")
    assert "prompt=consent" in item["fix"]
