"""Providers' webhooks through a running gateway: verified, accepted once, and forwarded to the application."""

import gzip
import hashlib
import hmac
import io
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

import gateway as package
from gateway.access.client_window import MAX_LINES
from tests.fakes.gateways import RunningGateway, tracker_entry, write_entry
from tests.fakes.receiver import Receiver
from tests.fakes.tracker import Tracker

SECRET = "secret-of-the-webhooks"
PATH = "/webhook/dev/tracker"
ISSUE = {"webhookEvent": "jira:issue_updated", "issue": {"self": "https://acme.tracker.example/rest/api/2/issue/1"}}
SIGNATURE_FORMAT = {
    "scheme": "hmac-sha256",
    "header": "x-hub-signature-256",
    "prefix": "sha256=",
    "signed_payload": "raw body",
}
CLIENT = {"client_id": "id", "client_secret": "secret"}
SIGNATURE_FORMAT["challenge"] = "hub.challenge echoed"


@pytest.fixture
async def webhook_gateway(settings: dict[str, Any], tracker: Tracker, tmp_path: Path) -> Any:
    """A gateway whose integration `tracker` routes webhooks. `hub` only verifies a signature, `plain` does nothing."""
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url, webhook_routing_script="jira_webhook_routing"))
    key = {"auth_mode": "API_KEY", "categories": ["other"], "proxy": {"base_url": tracker.url}}
    write_entry(tmp_path, "hub", {"display_name": "Hub", **key, "webhook_signature": SIGNATURE_FORMAT})
    write_entry(tmp_path, "plain", {"display_name": "Plain", **key})
    integrations = settings["environments"]["dev"]["integrations"]
    integrations["tracker"]["webhook_secret"] = SECRET
    integrations |= {"hub": {"webhook_secret": SECRET}, "deaf": {"provider": "hub"}, "plain": {}}
    integrations["silent"] = {"provider": "hub", "webhook_secret": SECRET, "forward_webhooks": False}
    integrations["emptied"] = {"provider": "hub", "webhook_secret": "", "webhook_secret_previous": ""}
    integrations["rotated"] = {"provider": "hub", "webhook_secret": "newer-secret", "webhook_secret_previous": SECRET}
    integrations["quiet"] = {"provider": "tracker", **CLIENT, "forward_webhooks": False}
    integrations["unsigned"] = {"provider": "tracker", **CLIENT}
    for key, provider in {"open": "tracker", "open-hub": "hub", "open-plain": "plain"}.items():
        integrations[key] = {"provider": provider, "allow_unsigned_webhooks": True}
    integrations["open"] |= CLIENT
    integrations["both"] = {"provider": "hub", "webhook_secret": SECRET, "allow_unsigned_webhooks": True}
    gateway = RunningGateway(tmp_path, settings)
    await gateway.start()
    yield gateway
    await gateway.stop()


def signature(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


async def post(gateway: RunningGateway, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
    header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
    async with gateway.http.post(gateway.url + path, data=io.BytesIO(body), headers=header_fields) as response:
        text = await response.text()
        return response.status, json.loads(text) if text else None


async def test_a_webhook_reaches_every_connection_of_its_site_and_no_other(
    webhook_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    await webhook_gateway.import_connection(tracker.grant(), "a1")
    await webhook_gateway.import_connection(tracker.grant(), "a2", webhook_url_override=f"{receiver.url}/own")
    await webhook_gateway.import_connection(tracker.grant(), "g1", connection_config={"subdomain": "globex"})
    await receiver.wait_until_taken(3)
    body = json.dumps(ISSUE).encode()
    headers = {"X_Hub_Signature": signature(body), "Content_Type": "application/json", "X_Atlassian_Id": "1"}
    status, response = await post(webhook_gateway, PATH, body, **headers, Cookie="a=b", User_Agent="Atlassian")
    assert (status, response) == (200, {"status": "success"})
    got = (await receiver.wait_until_taken(5))[3:]
    assert {(entry.event["connectionId"], entry.path) for entry in got} == {("a1", "/events"), ("a2", "/own")}
    for item in got:
        assert item.event == {
            "from": "tracker",
            "type": "forward",
            "connectionId": item.event["connectionId"],
            "providerConfigKey": "tracker",
            "payload": ISSUE,
        }
        assert item.headers["X-Atlassian-Id"] == "1"
        assert item.headers["X-Hub-Signature"] == signature(body)
        assert item.headers["User-Agent"] == "integration-gateway"
        assert "Cookie" not in item.headers
    assert len({entry.headers["webhook-id"] for entry in got}) == 2


@pytest.mark.parametrize(
    "path", ["unsigned", "deaf", "emptied"], ids=["a routing script", "a signature", "an empty secret"]
)
async def test_webhook_is_refused_if_the_integration_has_no_secret(
    webhook_gateway: RunningGateway, receiver: Receiver, path: str
) -> None:
    signed = [
        {"X-Hub-Signature": item, "X-Hub-Signature-256": item} for item in (signature(b"{}"), signature(b"{}", ""))
    ]
    for sent in ({}, *signed):
        with capture_logs() as logged:
            async with webhook_gateway.http.post(
                f"{webhook_gateway.url}/webhook/dev/{path}", data=b"{}", headers=sent
            ) as response:
                assert (response.status, response.headers["Gateway-Error"]) == (401, "invalid_webhook_signature")
        (why,) = [line["reason"] for line in logged if line["event"] == "webhook_refused"]
        assert "webhook_secret" in why
        assert "allow_unsigned_webhooks" in why
    assert (await post(webhook_gateway, PATH, b"1", X_Hub_Signature=signature(b"1")))[0] == 200
    await receiver.wait_until_taken(1)
    assert [item.body for item in receiver.got] == [b"1"]


async def test_former_secret_of_an_integration_is_accepted_too(webhook_gateway: RunningGateway) -> None:
    for secret, status in (("newer-secret", 200), (SECRET, 200), ("another-secret", 401)):
        signed = {"X_Hub_Signature_256": signature(b"{}", secret)}
        assert (await post(webhook_gateway, "/webhook/dev/rotated", b"{}", **signed))[0] == status


@pytest.mark.parametrize("key", ["open", "open-hub", "open-plain"])
async def test_an_integration_that_allows_it_forwards_unsigned_webhooks(
    webhook_gateway: RunningGateway, receiver: Receiver, key: str
) -> None:
    assert await post(webhook_gateway, f"/webhook/dev/{key}", b"[1]") == (200, {"status": "success"})
    (item,) = await receiver.wait_until_taken(1)
    assert item.body == b"[1]"


async def test_an_unsigned_jira_webhook_that_is_allowed_reaches_the_connections_of_its_site(
    webhook_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    await webhook_gateway.import_connection(tracker.grant(), "a1", provider_config_key="open")
    await receiver.wait_until_taken(1)
    assert (await post(webhook_gateway, "/webhook/dev/open", json.dumps(ISSUE).encode()))[0] == 200
    (item,) = (await receiver.wait_until_taken(2))[1:]
    assert (item.event["connectionId"], item.event["payload"]) == ("a1", ISSUE)


async def test_integration_with_a_secret_always_requires_a_signature(
    webhook_gateway: RunningGateway, receiver: Receiver
) -> None:
    assert (await post(webhook_gateway, "/webhook/dev/both", b"{}")) == (401, {"error": "Invalid webhook signature"})
    assert (await post(webhook_gateway, "/webhook/dev/both", b"{}", X_Hub_Signature_256=signature(b"{}")))[0] == 200
    await receiver.wait_until_taken(1)


async def test_integration_created_through_the_api_can_allow_unsigned_webhooks(
    webhook_gateway: RunningGateway, receiver: Receiver
) -> None:
    credentials = {"type": "OAUTH2", "client_id": "id", "client_secret": "secret"}
    integration = {"provider": "tracker", "unique_key": "made", "credentials": credentials}
    body = await webhook_gateway.json("POST", "/integrations", json=integration, expect=200)
    assert body["data"]["allow_unsigned_webhooks"] is False
    assert (await post(webhook_gateway, "/webhook/dev/made", b"{}"))[0] == 401
    changes = {"allow_unsigned_webhooks": True}
    body = await webhook_gateway.json("PATCH", "/integrations/made", json=changes, expect=200)
    assert body["data"]["allow_unsigned_webhooks"] is True
    assert (await post(webhook_gateway, "/webhook/dev/made", b"{}"))[0] == 200
    await receiver.wait_until_taken(1)
    stored = await webhook_gateway.runtime.store.integrations.get("dev", "made")
    assert stored is not None
    assert stored.allow_unsigned_webhooks is True


@pytest.mark.parametrize("connected", [True, False], ids=["for a connection", "for none"])
async def test_a_forwarded_webhook_names_its_environment_integration_and_provider(
    connected: bool, webhook_gateway: RunningGateway, tracker: Tracker, receiver: Receiver
) -> None:
    if connected:
        await webhook_gateway.import_connection(tracker.grant(), "a1")
        await receiver.wait_until_taken(1)
    body = json.dumps(ISSUE).encode()
    forged = {"Gateway_Environment": "prod", "Gateway_Provider": "bank"}
    assert (await post(webhook_gateway, PATH, body, X_Hub_Signature=signature(body), **forged))[0] == 200
    taken_event = (await receiver.wait_until_taken(2 if connected else 1))[-1]
    names = [taken_event.headers.getall(f"Gateway-{name}") for name in ("Environment", "Integration", "Provider")]
    assert names == [["dev"], ["tracker"], ["tracker"]]


@pytest.mark.parametrize("bound", [{"waiting": 3}, {"waiting_bytes": 4096}], ids=["rows", "bytes"])
async def test_one_integration_cannot_fill_the_queue_of_another(
    bound: dict[str, int], settings: dict[str, Any], tracker: Tracker, receiver: Receiver, tmp_path: Path
) -> None:
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url, webhook_routing_script="jira_webhook_routing"))
    declared = settings["environments"]["dev"]["integrations"]
    declared["flood"] = {"provider": "tracker", **CLIENT, "allow_unsigned_webhooks": True}
    declared["tracker"]["webhook_secret"] = SECRET
    settings["webhooks"] = bound
    receiver.hold.clear()
    gateway = RunningGateway(tmp_path, settings)
    await gateway.start()
    try:
        body = b"[%b]" % (b" " * 2048)
        responses = [await post(gateway, "/webhook/dev/flood", body) for _ in range(5)]
        taken = [status for status, _ in responses].index(503)
        assert 1 <= taken <= 3
        assert {status for status, _ in responses[taken:]} == {503}
        assert responses[taken][1]["error"]["code"] == "busy"
        assert "'flood'" in responses[taken][1]["error"]["message"]
        async with gateway.http.post(f"{gateway.url}/webhook/dev/flood", data=body) as response:
            assert response.headers["Retry-After"] == "60"
        signed = signature(body)
        assert (await post(gateway, PATH, body, X_Hub_Signature=signed))[0] == 200
        receiver.hold.set()
        await receiver.wait_until_taken(taken + 1)
    finally:
        receiver.hold.set()
        await gateway.stop()


async def test_maximum_size_of_a_webhook_is_configurable(
    settings: dict[str, Any], tracker: Tracker, tmp_path: Path
) -> None:
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url, webhook_routing_script="jira_webhook_routing"))
    settings["environments"]["dev"]["integrations"]["tracker"]["webhook_secret"] = SECRET
    settings["webhooks"] = {"body_bytes": 2048}
    gateway = RunningGateway(tmp_path, settings)
    await gateway.start()
    try:
        for size, status in ((2048, 200), (2049, 413)):
            body = b" " * size
            assert (await post(gateway, PATH, body, X_Hub_Signature=signature(body)))[0] == status
    finally:
        await gateway.stop()


async def test_webhook_without_a_connection_is_forwarded_once_unchanged(
    webhook_gateway: RunningGateway, receiver: Receiver
) -> None:
    body = b'{"b":1.0, "a":\xe2\x98\x83}'
    status, _ = await post(webhook_gateway, PATH, body, X_Hub_Signature=signature(body), webhook_id="theirs")
    assert status == 200
    (item,) = await receiver.wait_until_taken(1)
    assert item.body == body
    assert item.headers["webhook-id"].startswith("msg_")
    (key,) = await webhook_gateway.runtime.store.signing_keys.active_keys("dev", now=webhook_gateway.runtime.started_at)
    shown = key.key.reveal().encode()
    assert item.headers["X-Nango-Hmac-Sha256"] == hmac.new(shown, body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("sent", "code", "expected_text"),
    [
        ({}, "invalid_webhook_signature", "Invalid webhook signature"),
        ({"X-Hub-Signature": "sha256=00"}, "invalid_webhook_signature", "Invalid webhook signature"),
        ({"X-Hub-Signature": signature(b"{}", "another")}, "invalid_webhook_signature", "Invalid webhook signature"),
        ({"X-Hub-Signature": signature(b"[]")}, "invalid_webhook_signature", "Invalid webhook signature"),
    ],
)
async def test_forged_webhook_is_refused_with_the_published_error(
    sent: dict[str, str], code: str, expected_text: str, webhook_gateway: RunningGateway, receiver: Receiver
) -> None:
    async with webhook_gateway.http.post(webhook_gateway.url + PATH, data=b"{}", headers=sent) as response:
        assert (response.status, await response.json()) == (401, {"error": expected_text})
        assert response.headers["Gateway-Error"] == code
    assert await post(webhook_gateway, PATH, b"{ }", X_Hub_Signature=signature(b"{ }")) == (200, {"status": "success"})
    await receiver.wait_until_taken(1)
    assert [item.body for item in receiver.got] == [b"{ }"]


async def test_replayed_webhook_is_accepted_once_by_all_nodes_together(
    webhook_gateway: RunningGateway, receiver: Receiver
) -> None:
    other = RunningGateway(webhook_gateway.folder, {**webhook_gateway.document, "server": {}})
    await other.start()
    try:
        for number in (1, 2):
            body = b'{"n": %d}' % number
            for node in (webhook_gateway, other, webhook_gateway):
                assert (await post(node, PATH, body, X_Hub_Signature=signature(body)))[0] == 200
        await receiver.wait_until_taken(2)
        assert sorted(item.body for item in receiver.got) == [b'{"n": 1}', b'{"n": 2}']
    finally:
        await other.stop()


async def test_webhook_is_forwarded_for_an_entry_with_only_a_signature(
    webhook_gateway: RunningGateway, receiver: Receiver
) -> None:
    body = b"ref=main&x=1"
    form = "application/x-www-form-urlencoded"
    status, _ = await post(
        webhook_gateway, "/webhook/dev/hub", body, X_Hub_Signature_256=signature(body), Content_Type=form
    )
    assert status == 200
    (item,) = await receiver.wait_until_taken(1)
    assert (item.body, item.headers["Content-Type"]) == (body, form)


async def test_a_webhook_that_cannot_be_checked_or_has_no_listener_is_reported(
    webhook_gateway: RunningGateway, receiver: Receiver
) -> None:
    assert (await post(webhook_gateway, "/webhook/dev/plain", b"{}", X_Hub_Signature_256=signature(b"{}")))[0] == 204
    silent = await post(webhook_gateway, "/webhook/dev/silent", b"{}", X_Hub_Signature_256=signature(b"{}"))
    assert silent == (200, {"status": "success"})
    assert await post(webhook_gateway, "/webhook/dev/quiet", b"{}") == (
        200,
        {"status": "success"},
    )  # no webhook is forwarded
    assert receiver.got == []


async def test_unsigned_requests_do_not_reveal_environments_or_integrations(webhook_gateway: RunningGateway) -> None:
    """For all tried headers, the responses differ only in their date and request id."""
    for sent in ({}, {"X-Hub-Signature": "sha256=00"}, {"X-Nothing-Signature": "00"}):
        responses = set()
        for path in (PATH, "/webhook/dev/unsigned", "/webhook/prod/tracker", "/webhook/dev/nothing", "/webhook/x/y"):
            async with webhook_gateway.http.post(webhook_gateway.url + path, data=b"{}", headers=sent) as response:
                fields = dict(response.headers)
                fields = {name: fields[name] for name in fields.keys() - {"Date", "Gateway-Request-Id"}}
                responses.add((response.status, await response.read(), tuple(sorted(fields.items()))))
        assert len(responses) == 1
    asked = set()
    for path in (PATH, "/webhook/prod/tracker", "/webhook/dev/nothing"):
        async with webhook_gateway.http.get(f"{webhook_gateway.url}{path}?hub.challenge=1") as response:
            asked.add((response.status, await response.read()))
    assert len(asked) == 1


async def test_the_log_says_why_a_webhook_was_refused(webhook_gateway: RunningGateway) -> None:
    with capture_logs() as logs:
        await post(webhook_gateway, PATH, b"{}")
        await post(webhook_gateway, PATH, b"{}", X_Hub_Signature="sha256=00")
        await post(webhook_gateway, "/webhook/prod/tracker", b"{}")
        await post(webhook_gateway, "/webhook/dev/nothing", b"{}")
    reasons = [line["reason"] for line in logs if line["event"] == "webhook_refused"]
    assert reasons == ["no signature", "wrong signature", "unknown environment", "unknown integration"]


async def test_provider_gets_its_verification_text_back(webhook_gateway: RunningGateway, receiver: Receiver) -> None:
    body = b'{"type": "url_verification", "challenge": "3eZb"}'
    result = await post(webhook_gateway, "/webhook/dev/hub", body, X_Hub_Signature_256=signature(body))
    assert result == (200, {"challenge": "3eZb"})
    assert receiver.got == []


@pytest.mark.parametrize(
    ("query", "response"),
    [
        (f"hub.mode=subscribe&hub.challenge=115&hub.verify_token={SECRET}", (200, "115")),
        ("hub.mode=subscribe&hub.challenge=115&hub.verify_token=guessed", (404, None)),
        (f"hub.verify_token={SECRET}", (404, None)),
    ],
)
async def test_challenge_is_returned_to_a_caller_with_the_token(
    query: str, response: tuple[int, str | None], webhook_gateway: RunningGateway
) -> None:
    async with webhook_gateway.http.get(f"{webhook_gateway.url}/webhook/dev/hub?{query}") as got:
        text = await got.text() if got.status == 200 else None
        assert (got.status, text) == response
    async with webhook_gateway.http.get(f"{webhook_gateway.url}/webhook/dev/plain?{query}") as got:
        assert got.status == 404


async def test_more_than_five_mebibytes_are_refused(webhook_gateway: RunningGateway, receiver: Receiver) -> None:
    large = b" " * (5 << 20)
    assert (await post(webhook_gateway, PATH, large, X_Hub_Signature=signature(large)))[0] == 200
    status, response = await post(webhook_gateway, PATH, large + b" ")
    assert (status, response["error"]["code"]) == (413, "body_too_large")
    (item,) = await receiver.wait_until_taken(1)
    assert item.body == large


async def test_received_webhook_is_sealed_in_the_database(webhook_gateway: RunningGateway, receiver: Receiver) -> None:
    receiver.hold.clear()
    body = b'{"token": "a-marker-of-the-payload"}'
    assert (
        await post(webhook_gateway, PATH, body, X_Hub_Signature=signature(body), X_Gitlab_Token="a-marker-in-a-field")
    )[0] == 200
    for file in webhook_gateway.folder.glob("gateway.db*"):
        assert b"a-marker-" not in file.read_bytes()


async def test_log_lines_for_refused_webhooks_are_limited(webhook_gateway: RunningGateway) -> None:
    """Ten log lines per minute for each client and integration; invented names count as one."""
    with capture_logs() as logs:
        for number in range(MAX_LINES + 5):
            await post(webhook_gateway, PATH, b"{}")
            await post(webhook_gateway, f"/webhook/dev/nothing-{number}", b"{}")
            await post(webhook_gateway, f"/webhook/nowhere-{number}/tracker", b"{}")
    reasons = [line["reason"] for line in logs if line["event"] == "webhook_refused"]
    assert reasons.count("no signature") == MAX_LINES
    assert reasons.count("unknown integration") + reasons.count("unknown environment") == MAX_LINES
    throttled = [(line["refused"], line["client"]) for line in logs if line["event"] == "refusals_not_logged"]
    assert throttled == [("webhook_refused", "127.0.0.1")] * 2


async def test_a_compressed_webhook_keeps_its_content_encoding(
    webhook_gateway: RunningGateway, receiver: Receiver
) -> None:
    body = gzip.compress(b'{"event": "x"}')
    headers = {"Content_Type": "application/json", "Content_Encoding": "gzip", "X_Hub_Signature_256": signature(body)}
    assert (await post(webhook_gateway, "/webhook/dev/hub", body, **headers))[0] == 200
    (item,) = await receiver.wait_until_taken(1)
    assert item.headers["Content-Encoding"] == "gzip"
    assert item.event == {"event": "x"}


async def test_a_webhook_that_the_host_applications_runner_has_decompressed_has_no_content_encoding(
    webhook_gateway: RunningGateway, receiver: Receiver
) -> None:
    """aiohttp's runner decompresses bodies by default, and leaves the header field."""
    host = web.Application()
    host.add_subapp("/gateway", package.create_app(webhook_gateway.runtime.generation.config))
    runner = web.AppRunner(host, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{site.port}/gateway/webhook/dev/open-hub"
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        body = gzip.compress(b'{"event": "x"}')
        async with webhook_gateway.http.post(url, data=io.BytesIO(body), headers=headers) as response:
            assert response.status == 200
        (item,) = await receiver.wait_until_taken(1)
        assert "Content-Encoding" not in item.headers
        assert item.event == {"event": "x"}
    finally:
        await runner.cleanup()
