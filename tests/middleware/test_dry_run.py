"""Gateway-Dry-Run: the request is shown, nothing leaves."""

import json
from typing import Any

from multidict import CIMultiDict

from gateway.records.upstream import UpstreamRequest
from gateway.wire.masked import MASK, shown
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.tracker import Tracker

DRY = {"Gateway-Dry-Run": "true", "X-Custom": "yes", "Accept": "text/plain", "User-Agent": "curl/8"}


async def test_the_request_is_shown_with_its_credential_masked_and_nothing_leaves(
    running: RunningGateway, tracker: Tracker
) -> None:
    grant = tracker.grant()
    await running.imported(grant)
    seen = len(tracker.seen)
    async with running.proxied("c1", "/rest/a%2Fb?x=1&y", headers=DRY, skip_auto_headers=["Accept-Encoding"]) as answer:
        text = await answer.text()
        assert (answer.status, answer.headers["Gateway-Attempts"]) == (200, "0")
        assert "Gateway-Error" not in answer.headers
    assert grant["access_token"] not in text
    told = json.loads(text)
    assert (told["method"], told["url"], told["body"]) == ("GET", f"{tracker.url}/rest/a%2Fb?x=1&y", None)
    assert sorted(told["headers"]) == sorted(
        [
            ["Host", tracker.url.removeprefix("http://")],
            ["X-Custom", "yes"],
            ["Accept", "text/plain"],
            ["User-Agent", "curl/8"],
            ["authorization", "Bearer ***"],
        ]
    )
    assert len(tracker.seen) == seen


async def test_the_body_is_told_of_and_not_waited_for(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported(tracker.grant())
    async with running.proxied("c1", method="POST", headers=DRY, data=b"abc") as answer:
        told = await answer.json()
    assert told["body"] == {"from": "the caller, as it comes", "length_bytes": 3}
    assert ["Content-Length", "3"] in told["headers"]


async def test_key_and_connection_are_needed_as_ever(running: RunningGateway) -> None:
    async with running.proxied("nobody", headers=DRY) as answer:
        assert (answer.status, answer.headers["Gateway-Error"]) == (404, "unknown_connection")
    async with running.proxied("nobody", headers={**DRY, "Authorization": "Bearer wrong-wrong-wrong"}) as answer:
        assert answer.status == 401


async def test_a_secret_in_the_base_address_or_the_query_is_masked_too(tracker: Tracker, tmp_path: Any) -> None:
    entry = tracker_entry(tracker.url, auth_mode="API_KEY", connection_config={"hook": {"secret": True}})
    for name in (
        "authorization_url",
        "token_url",
        "post_connection_script",
        "default_scopes",
        "connection_configuration",
    ):
        del entry[name]
    entry["proxy"] = {
        "base_url": tracker.url + "/hooks/${connectionConfig.hook}",
        "query": {"key": "${apiKey}"},
        "headers": {"x-hook": "${connectionConfig.hook}"},
    }
    write_entry(tmp_path, "tracker", entry)
    gateway = RunningGateway(tmp_path, document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"]))
    await gateway.start()
    try:
        body = {
            "provider_config_key": "tracker",
            "connection_id": "c1",
            "credentials": {"type": "API_KEY", "apiKey": "very-secret-key"},
            "connection_config": {"hook": "hidden-hook"},
        }
        await gateway.json("POST", "/connections", json=body, expect=201)
        async with gateway.proxied("c1", "/x?a=b&key=mine", headers=DRY) as answer:
            text = await answer.text()
    finally:
        await gateway.stop()
    assert "very-secret-key" not in text
    assert "hidden-hook" not in text
    assert json.loads(text)["url"] == tracker.url + "/hooks/${connectionConfig.hook}/x?a=b&key=***"


def test_a_credential_without_a_scheme_is_masked_whole() -> None:
    headers = CIMultiDict([("X-Api-Key", "abc"), ("Authorization", "Basic dXNlcg=="), ("Accept", "*/*")])
    request = UpstreamRequest("GET", "https", "::1", 443, "/v1/x", headers, "/v1")
    told = shown(request, slots=["x-api-key", "authorization"], query_slots=[])
    assert told["url"] == "https://[::1]/v1/x"
    assert told["headers"] == [
        ["Host", "[::1]"],
        ["X-Api-Key", MASK],
        ["Authorization", "Basic ***"],
        ["Accept", "*/*"],
    ]
