"""Events without a state change, the keys that sign events, and the operator's view of events."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import yaml
from aiohttp import web
from click.testing import CliRunner
from standardwebhooks.webhooks import Webhook

from gateway import clock
from gateway.app.gauges import gauges
from gateway.cli import main
from tests.fakes.gateways import RunningGateway, tracker_entry, write_entry
from tests.fakes.receiver import Receiver
from tests.fakes.tracker import Tracker
from tests.gateway.api.test_credential_forms import walk_flow
from tests.gateway.events.conftest import deliver_due_events, deliveries_of, wait_for_attempts


async def test_failed_authorization_is_reported_with_its_end_user(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    tracker.callback_extra = {"error": "access_denied", "error_description": "You refused it."}
    status, _ = await walk_flow(event_gateway, await event_gateway.session_token())
    assert status == 400
    (item,) = [got.event for got in await receiver.wait_until_taken(1)]
    assert (item["event"], item["operation"], item["success"]) == ("connection.creation_failed", "creation", False)
    assert item["error"]["type"] == "authorization_refused"
    assert "You refused it." in item["error"]["description"]
    assert item["endUser"]["endUserId"] == "u1"


async def test_session_sets_the_webhook_url_of_its_connection(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    token = await event_gateway.session_token(webhook_url_override=f"{receiver.url}/session")
    assert (await walk_flow(event_gateway, token))[0] == 200
    (got,) = await receiver.wait_until_taken(1)
    assert (got.path, got.event["event"], got.event["tags"]) == (
        "/session",
        "connection.created",
        {"end_user_id": "u1"},
    )


async def test_failed_refresh_is_reported_to_the_connections_webhook_url_with_its_end_user(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    whose = {"end_user": {"id": "u7"}, "tags": {"team": "blue"}, "webhook_url_override": f"{receiver.url}/own"}
    await event_gateway.import_connection(tracker.grant(), **whose)
    body = {"connection_id": "c1", "integration_id": "tracker"}
    links = [(await event_gateway.json("POST", "/connect/sessions/reconnect", json=body, expect=201))["data"]["token"]]
    session = {"connection_id": "c1", "integration_id": "tracker", "allowed_integrations": ("tracker",)}
    # the session of a failed call's reconnect link
    links.append((await event_gateway.runtime.sessions.open("dev", "", **session))[0])
    tracker.callback_extra = {"error": "access_denied"}
    for token in links:
        assert (await walk_flow(event_gateway, token))[0] == 400
    got = (await receiver.wait_until_taken(3))[1:]
    assert [(entry.path, entry.event["event"]) for entry in got] == [("/own", "connection.creation_failed")] * 2
    for item in got:
        assert (item.event["connectionId"], item.event["operation"]) == ("c1", "override")
        assert (item.event["endUser"]["endUserId"], item.event["tags"]["team"]) == ("u7", "blue")


async def test_each_kind_of_connecting_sends_one_event(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    request_body = {"display_name": "agent", "scopes": ["environment:proxy", "environment:connect_sessions:write"]}
    reply = await event_gateway.json("POST", "/environment/api-keys", json=request_body, expect=200)
    async with event_gateway.call_proxy(
        "c1", headers={"Authorization": f"Bearer {reply['data']['secret']}"}
    ) as response:
        link = (await response.json())["error"]["payload"]["connect_url"]
    assert (await walk_flow(event_gateway, link.partition("session_token=")[2]))[0] == 200
    body = {"connection_id": "c1", "integration_id": "tracker"}
    reply = await event_gateway.json("POST", "/connect/sessions/reconnect", json=body, expect=201)
    assert (await walk_flow(event_gateway, reply["data"]["token"]))[0] == 200
    await event_gateway.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    await receiver.wait_until_taken(3)
    words = ("created", "reconnected", "deleted")
    assert receiver.events() == [("c1", f"connection.{word}") for word in words]


async def test_expiring_connection_is_reported_fourteen_and_three_days_before(
    settings: dict[str, Any], tracker: Tracker, receiver: Receiver, advance_clock: Any, tmp_path: Any
) -> None:
    entry = tracker_entry(tracker.url, refresh={"rotating": False, "expires_after_days": 30})
    write_entry(tmp_path, "tracker", entry)
    gateway = RunningGateway(tmp_path, settings)
    await gateway.start()
    await gateway.import_connection(tracker.grant())
    ends = clock.now() + timedelta(days=30)
    days = []
    for day in range(30):
        before = len(await deliveries_of(gateway))
        await gateway.runtime.keeper.run_once()
        days += [day] * (len(await deliveries_of(gateway)) - before)
        advance_clock(86_400)
    await deliver_due_events(gateway)
    await receiver.wait_until_taken(3)
    result = [item.event for item in receiver.taken if item.event["event"] == "connection.expiring"]
    await gateway.stop()
    assert days == [16, 27]
    assert len(result) == 2
    assert result[0]["success"] is True
    assert result[0]["diesAt"][:10] == f"{ends:%Y-%m-%d}"


async def test_rotated_key_signs_immediately_and_the_former_one_for_another_day(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    await event_gateway.import_connection(tracker.grant())
    await receiver.wait_until_taken(1)
    former = (await event_gateway.runtime.store.signing_keys.active_keys("dev", now=clock.now()))[0].key.reveal()
    path = "/environment/webhook-signing-key/rotate"
    body = (await event_gateway.json("POST", path, json={}, expect=200))["data"]
    await event_gateway.import_connection(tracker.grant())
    taken_event = (await receiver.wait_until_taken(2))[1]
    assert body["webhook_signing_key"] != former
    for key in (former, body["webhook_signing_key"]):
        Webhook(key).verify(taken_event.body, dict(taken_event.headers))
    assert (await event_gateway.json("POST", path, json={"x": 1}))["error"]["code"] == "invalid_body"


async def test_key_from_the_configuration_cannot_be_rotated_through_the_api(
    settings: dict[str, Any], tracker: Tracker, receiver: Receiver, tmp_path: Any
) -> None:
    names = {
        "webhook_signing_key": "the-key-that-they-had",
        "webhook_signing_key_previous": "an-even-older-key-of-theirs",
    }
    settings["environments"]["dev"] |= names
    gateway = RunningGateway(tmp_path, settings)
    await gateway.start()
    body = await gateway.json("POST", "/environment/webhook-signing-key/rotate", json={}, expect=409)
    await gateway.import_connection(tracker.grant())
    (item,) = await receiver.wait_until_taken(1)
    await gateway.stop()
    assert "webhook_signing_key_previous" in body["error"]["message"]
    for key in names.values():
        Webhook(key.encode()).verify(item.body, dict(item.headers))


async def test_metrics_show_attempts_and_pending_deliveries(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any
) -> None:
    receiver.response = lambda _path, body: web.Response(status=500 if b'"c1"' in body else 200)
    for name in ("c1", "c2"):
        await event_gateway.import_connection(tracker.grant(), name)
    await receiver.wait_until(lambda: len(receiver.got) >= 2)
    await event_gateway.runtime.deliverer.wait_until_idle()
    advance_clock(100)
    await event_gateway.runtime.keeper.run_once()
    result = {key: number for key, number in gauges(event_gateway.runtime) if key[0].startswith("gateway_events")}
    assert result["gateway_events_pending", "dev"] == 1
    assert 100 <= result["gateway_events_oldest_seconds", "dev"] < 160
    counted = {key: numbers[0] for key, numbers in event_gateway.runtime.metrics.page.read()}
    assert counted["gateway_event_deliveries_total", "dev", "delivered"] == 1
    assert counted["gateway_event_deliveries_total", "dev", "failed"] >= 1


async def command(gateway: RunningGateway, *words: str) -> tuple[int, str, str]:
    """Run ``gateway events …`` on the store of the running gateway."""
    file = gateway.folder / "gateway.yaml"
    file.write_text(yaml.safe_dump(gateway.document))
    arguments = ["events", words[0], "-c", str(file), *words[1:]]
    result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
    return result.exit_code, result.stdout, result.stderr


async def test_an_operator_can_list_show_and_replay_events(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    receiver.response = lambda _path, _body: web.Response(status=410)
    await event_gateway.import_connection(tracker.grant())
    await wait_for_attempts(event_gateway, 1)
    code, out, _ = await command(event_gateway, "list", "--state", "dead", "--json")
    (event,) = json.loads(out)["events"]
    assert (code, event["event"], event["state"], event["status"]) == (0, "connection.created", "dead", 410)
    code, out, _ = await command(event_gateway, "list", "--connection", "c1")
    assert code == 0
    assert event["id"] in out
    assert "410" in out
    code, out, _ = await command(event_gateway, "show", event["id"], "--json")
    assert json.loads(json.loads(out)["body"]) == receiver.got[0].event
    receiver.response = lambda _path, _body: web.Response(status=200)
    code, out, _ = await command(event_gateway, "replay", "--dead")
    assert (code, out.split()[0]) == (0, "1")
    (again,) = await receiver.wait_until_taken(1)
    assert again.headers["webhook-id"] == event["id"]
    refusal = "gateway: there is no event 'msg_unknown', or it is being sent now\n"
    assert await command(event_gateway, "replay", "msg_unknown") == (1, "", refusal)
    assert (await command(event_gateway, "replay"))[0] == 2
    assert (await command(event_gateway, "show", "msg_unknown"))[0] == 1


async def test_command_shows_the_key_that_verifies_events(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    code, parsed, _ = await command(event_gateway, "key")
    assert code == 0
    code, out, errors = await command(event_gateway, "key", "--rotate", "--json")
    assert (code, "also signs" in errors) == (0, True)
    await event_gateway.import_connection(tracker.grant())
    (item,) = await receiver.wait_until_taken(1)
    for key in (parsed.strip(), json.loads(out)["webhook_signing_key"]):
        Webhook(key).verify(item.body, dict(item.headers))
