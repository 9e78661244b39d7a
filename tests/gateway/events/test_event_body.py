"""The body of connection events: one event for each change of state."""

import base64
import json
from collections import Counter
from typing import Any

import pytest
from aiohttp import web

from gateway import clock
from gateway.events.event_body import MAX_C_PARSE_BYTES, build_message, is_forwarded
from gateway.records.event import FORWARD, PRIMARY, Delivery, DeliveryState, EventContent
from tests.fakes.gateways import RunningGateway
from tests.fakes.receiver import Receiver
from tests.fakes.tracker import Tracker
from tests.gateway.events.conftest import GONE, OUTAGE, refresh_now, wait_for_attempts


async def test_each_change_of_a_connection_is_reported_as_an_event(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    await event_gateway.import_connection(tracker.grant())
    tracker.response = OUTAGE
    await refresh_now(event_gateway)
    tracker.response = None
    await refresh_now(event_gateway)
    tracker.response = GONE
    await refresh_now(event_gateway)
    tracker.response = None
    await event_gateway.import_connection(tracker.grant())
    await event_gateway.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    await receiver.wait_until_taken(6)
    words = ("created", "degraded", "recovered", "needs_reauth", "reconnected", "deleted")
    assert receiver.events() == [("c1", f"connection.{word}") for word in words]
    result = [item.event for item in receiver.taken]
    assert [item["operation"] for item in result] == [
        "creation",
        "refresh",
        "refresh",
        "refresh",
        "override",
        "deletion",
    ]
    assert [item["success"] for item in result] == [True, False, True, False, True, True]


async def test_flapping_provider_causes_one_event_per_change(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    await event_gateway.import_connection(tracker.grant())
    for _ in range(3):
        tracker.response = OUTAGE
        for _ in range(4):  # repeated failures are one change
            await refresh_now(event_gateway)
        tracker.response = None
        for _ in range(2):
            await refresh_now(event_gateway)
    await receiver.wait_until_taken(7)
    flaps = [("c1", "connection.degraded"), ("c1", "connection.recovered")] * 3
    assert receiver.events() == [("c1", "connection.created"), *flaps]
    assert tracker.calls["refresh_token"] >= 18


async def test_second_refusal_sends_no_event(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    await event_gateway.import_connection(tracker.grant())
    for code in ("invalid_grant", "token_revoked", "invalid_client"):
        tracker.response = web.json_response({"error": code}, status=400)
        await refresh_now(event_gateway)
    await event_gateway.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    await receiver.wait_until_taken(3)
    assert [event for _, event in receiver.events()] == [
        f"connection.{word}" for word in ("created", "needs_reauth", "deleted")
    ]


async def test_event_body_is_the_published_format_with_two_more_members(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    user = {"id": "u1", "email": "jo@example.com", "display_name": "Jö", "tags": {"plan": "pro"}}
    await event_gateway.import_connection(tracker.grant(), end_user=user, tags={"Team": "blue"})
    tracker.response = GONE
    await refresh_now(event_gateway)
    created, ended = [item.event for item in await receiver.wait_until_taken(2)]
    assert created.pop("timestamp").endswith("Z")
    assert created == {
        "from": "nango",
        "type": "auth",
        "event": "connection.created",
        "connectionId": "c1",
        "providerConfigKey": "tracker",
        "provider": "tracker",
        "authMode": "OAUTH2",
        "environment": "dev",
        "operation": "creation",
        "success": True,
        "tags": {
            "team": "blue",
            "plan": "pro",
            "end_user_id": "u1",
            "end_user_email": "jo@example.com",
            "end_user_display_name": "Jö",
        },
        "endUser": {"endUserId": "u1", "endUserEmail": "jo@example.com", "tags": {"plan": "pro"}},
    }
    assert ended["error"] == {"type": "invalid_grant", "description": ended["error"]["description"]}
    assert "no such token" in ended["error"]["description"]
    first = receiver.taken[0]
    assert list(first.event) == sorted(first.event)
    assert "Jö".encode() in first.body
    assert first.headers["Content-Type"] == "application/json"
    assert first.headers["User-Agent"] == "integration-gateway"


async def test_no_event_contains_a_credential(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    grants = [tracker.grant() for _ in range(2)]
    await event_gateway.import_connection(grants[0])
    for status in (503, 400):  # a provider that repeats the tokens it was sent
        words = f"what of {grants[0]['refresh_token']} and {grants[0]['access_token']}?"
        tracker.response = web.json_response({"error": "invalid_grant", "error_description": words}, status=status)
        await refresh_now(event_gateway)
    tracker.response = None
    await event_gateway.import_connection(grants[1])
    await refresh_now(event_gateway)
    await event_gateway.json("DELETE", "/connections/c1?provider_config_key=tracker", expect=200)
    taken = await receiver.wait_until_taken(5)
    words = ["created", "degraded", "needs_reauth", "reconnected", "deleted"]
    assert receiver.events() == [("c1", f"connection.{word}") for word in words]
    secrets = {
        *(grant[name] for grant in grants for name in ("access_token", "refresh_token")),
        *(token for grant in tracker.grants for token in (*grant.access_tokens, *grant.spent, grant.refresh_token)),
    }
    for item in taken:
        for secret in secrets:
            assert secret.encode() not in item.body, item.event


async def test_integration_created_through_the_api_sends_one_event_per_connection(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    credentials = {"type": "OAUTH2", "client_id": "made-client", "client_secret": "made-secret", "scopes": "read"}
    integration = {"unique_key": "made", "provider": "tracker", "credentials": credentials}
    await event_gateway.json("POST", "/integrations", json=integration, expect=200)
    for name in ("m1", "m2", "m3"):
        await event_gateway.import_connection(tracker.grant(), name, provider_config_key="made")
    await event_gateway.import_connection(tracker.grant(), "m1")
    await receiver.wait_until_taken(4)
    await event_gateway.json("DELETE", "/integrations/made", expect=200)
    await receiver.wait_until_taken(7)
    await event_gateway.runtime.deliverer.wait_until_idle()
    counts = Counter(
        (item.event["providerConfigKey"], item.event["connectionId"], item.event["event"]) for item in receiver.taken
    )
    result = [("made", name, f"connection.{word}") for name in ("m1", "m2", "m3") for word in ("created", "deleted")]
    assert counts == Counter([*result, ("tracker", "m1", "connection.created")])


async def test_primary_and_secondary_url_get_the_same_message(
    settings: dict[str, Any], tracker: Tracker, receiver: Receiver, tmp_path: Any
) -> None:
    settings["environments"]["dev"]["webhook_url_secondary"] = f"{receiver.url}/second?key=x"
    gateway = RunningGateway(tmp_path, settings)
    await gateway.start()
    await gateway.import_connection(tracker.grant())
    got = await receiver.wait_until_taken(2)
    await gateway.stop()
    assert {item.path for item in got} == {"/events", "/second"}
    assert len({item.headers["webhook-id"] for item in got}) == 1
    assert len({item.body for item in got}) == 1


async def test_webhook_url_of_a_connection_replaces_the_others(
    event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    await event_gateway.import_connection(tracker.grant(), webhook_url_override=f"{receiver.url}/own")
    await event_gateway.import_connection(tracker.grant(), "c2")
    got = await receiver.wait_until_taken(2)
    assert {(item.event["connectionId"], item.path) for item in got} == {("c1", "/own"), ("c2", "/events")}


async def test_no_event_is_stored_without_a_webhook_url(running: RunningGateway, tracker: Tracker) -> None:
    from gateway.store import EventFilter

    await running.import_connection(tracker.grant())
    assert await running.runtime.store.event_log.list(EventFilter(environment="dev")) == []


@pytest.mark.parametrize("response", [301, 307, 404, 429, 500])
async def test_failed_delivery_is_repeated_with_the_same_id_and_redirects_are_not_followed(
    response: int, event_gateway: RunningGateway, tracker: Tracker, receiver: Receiver, advance_clock: Any
) -> None:
    elsewhere = {"Location": f"{receiver.url}/elsewhere"}
    receiver.response = lambda _path, _body: web.Response(status=response, headers=elsewhere)
    await event_gateway.import_connection(tracker.grant())
    await receiver.wait_until(lambda: receiver.got)
    receiver.response = lambda _path, _body: web.Response(status=200)
    await wait_for_attempts(event_gateway, 1)
    advance_clock(10)
    event_gateway.runtime.deliverer.wake()
    await receiver.wait_until_taken(1)
    first, second = receiver.got
    assert {first.path, second.path} == {"/events"}
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) >= 10


@pytest.mark.parametrize(
    "name", ["gateway_environment", "Gateway-Integration", "webhook_signature", "webhook-id", "x_forwarded_for"]
)
def test_provider_cannot_set_the_gateways_headers_in_any_spelling(name: str) -> None:
    assert not is_forwarded(name)
    assert is_forwarded("x-github-event")


def delivery_of(event: str) -> Delivery:
    now = clock.now()
    return Delivery(
        id=1,
        outbox_id=1,
        message_id="msg_1",
        event=event,
        at=now,
        environment="dev",
        integration_id="tracker",
        connection_id="c1",
        target=PRIMARY,
        state=DeliveryState.PENDING,
        attempts=0,
        due_at=now,
        give_up_at=now,
    )


def test_event_of_a_provider_without_an_entry_has_an_unknown_auth_mode() -> None:
    facts = {"operation": "deletion", "success": True}
    content = EventContent(clock.now(), "dev", "tracker", "gone", "connection.deleted", facts)
    body, _ = build_message(delivery_of("connection.deleted"), content, None)
    assert json.loads(body)["authMode"] == "unknown"


def forwarded_body(body: bytes) -> bytes:
    """Return the event body for a JSON webhook that belongs to a connection."""
    received = {"headers": [("content-type", "application/json")], "body": base64.b64encode(body).decode()}
    content = EventContent(clock.now(), "dev", "tracker", "tracker", FORWARD, {}, received)
    return build_message(delivery_of(FORWARD), content, None)[0]


@pytest.mark.parametrize("body", ['{"a":NaN}', "[1e999]", "[-Infinity]"])
def test_webhook_with_a_number_that_json_does_not_have_is_forwarded_as_text(body: str) -> None:
    event = json.loads(forwarded_body(body.encode()), parse_constant=pytest.fail)
    assert event["payload"] == body


def test_webhook_of_any_depth_is_forwarded() -> None:
    for depth in range(400, 1000):
        assert b"[[[" in forwarded_body(b"[" * depth + b"]" * depth)


@pytest.mark.parametrize("padding", [0, MAX_C_PARSE_BYTES])
def test_numbers_are_written_as_javascript_writes_them(padding: int) -> None:
    """`verifyWebhookSignature` of Nango's SDK hashes what JSON.stringify makes of the parsed body."""
    numbers = b'{"points": [5.0, 1e3, -0.0, 0.5, 9007199254740993], "x": "%b"}' % (b"x" * padding)
    body = forwarded_body(numbers)
    assert b'"payload":{"points":[5,1000,0,0.5,9007199254740993],' in body
