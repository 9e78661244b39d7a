"""Gateway-Dry-Run: the request is shown, and nothing is sent."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from multidict import CIMultiDict
from yarl import URL

from gateway.middleware.dry_run import MASK, request_json
from gateway.records.proxied_call import UpstreamRequest
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.recording_server import RecordingServer, listening
from tests.fakes.tracker import Tracker

DRY = {"Gateway-Dry-Run": "true", "X-Custom": "yes", "Accept": "text/plain", "User-Agent": "curl/8"}


async def test_the_request_is_shown_with_its_credential_masked_and_nothing_leaves(
    running: RunningGateway, tracker: Tracker
) -> None:
    grant = tracker.grant()
    await running.import_connection(grant)
    seen = len(tracker.seen)
    async with running.call_proxy(
        "c1", "/rest/a%2Fb?x=1&y", headers=DRY, skip_auto_headers=["Accept-Encoding"]
    ) as response:
        text = await response.text()
        assert (response.status, response.headers["Gateway-Attempts"]) == (200, "0")
        assert "Gateway-Error" not in response.headers
    assert grant["access_token"] not in text
    body = json.loads(text)
    assert (body["method"], body["url"], body["body"]) == ("GET", f"{tracker.url}/rest/a%2Fb?x=1&y", None)
    assert sorted(body["headers"]) == sorted(
        [
            ["Host", tracker.url.removeprefix("http://")],
            ["X-Custom", "yes"],
            ["Accept", "text/plain"],
            ["User-Agent", "curl/8"],
            ["authorization", "Bearer ***"],
        ]
    )
    assert len(tracker.seen) == seen


async def test_body_is_described_and_not_awaited(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    async with running.call_proxy("c1", method="POST", headers=DRY, data=b"abc") as response:
        body = await response.json()
    assert body["body"] == {"from": "the caller, as it comes", "length_bytes": 3}
    assert ["Content-Length", "3"] in body["headers"]


def test_a_value_that_is_not_utf_8_is_shown_with_escapes() -> None:
    headers = CIMultiDict({"x-name": b"caf\xe9 \xc3\xa9".decode("utf-8", "surrogateescape")})
    request = UpstreamRequest("GET", "https", "api.example.com", 443, "/", headers)
    shown = request_json(request, slots=(), query_slots=())
    assert shown["headers"][1] == ["x-name", "caf\\xe9 é"]
    assert json.dumps(shown, ensure_ascii=False).encode()


async def test_key_and_connection_are_required(running: RunningGateway) -> None:
    async with running.call_proxy("nobody", headers=DRY) as response:
        assert (response.status, response.headers["Gateway-Error"]) == (404, "unknown_connection")
    async with running.call_proxy("nobody", headers={**DRY, "Authorization": "Bearer wrong-wrong-wrong"}) as response:
        assert response.status == 401


async def test_secret_in_the_base_url_or_the_query_is_masked_too(tracker: Tracker, tmp_path: Any) -> None:
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
        async with gateway.call_proxy("c1", "/x?a=b&key=mine", headers=DRY) as response:
            text = await response.text()
    finally:
        await gateway.stop()
    assert "very-secret-key" not in text
    assert "hidden-hook" not in text
    assert json.loads(text)["url"] == tracker.url + "/hooks/${connectionConfig.hook}/x?a=b&key=***"


def test_credential_without_a_scheme_is_masked_completely() -> None:
    headers = CIMultiDict([("X-Api-Key", "abc"), ("Authorization", "Basic dXNlcg=="), ("Accept", "*/*")])
    request = UpstreamRequest("GET", "https", "::1", 443, "/v1/x", headers, "/v1")
    result = request_json(request, slots=["x-api-key", "authorization"], query_slots=[])
    assert result["url"] == "https://[::1]/v1/x"
    assert result["headers"] == [
        ["Host", "[::1]"],
        ["X-Api-Key", MASK],
        ["Authorization", "Basic ***"],
        ["Accept", "*/*"],
    ]


BOT = "42:very+secret-bot"


@pytest.fixture
async def bots(tmp_path: Path) -> AsyncIterator[tuple[RunningGateway, RecordingServer]]:
    """An API with the key in the path of its base URL."""
    async with listening() as api:
        proxy = {"base_url": f"{api.url}/bot${{apiKey}}", "headers": {"x-pass": "${apiKey}"}}
        entry = {"display_name": "Bots", "categories": ["communication"], "docs": "https://docs.example.com"}
        write_entry(tmp_path, "bots", {**entry, "auth_mode": "API_KEY", "proxy": proxy})
        configuration = document([f"127.0.0.1/32:{api.url.rpartition(':')[2]}"], bots={})
        del configuration["environments"]["dev"]["integrations"]["tracker"]
        gateway = RunningGateway(tmp_path, configuration)
        await gateway.start()
        credentials = {"type": "API_KEY", "apiKey": BOT}
        body = {"provider_config_key": "bots", "connection_id": "c1", "credentials": credentials}
        await gateway.json("POST", "/connections", json=body, expect=201)
        yield gateway, api
        await gateway.stop()


def hides_bot_key(text: str) -> bool:
    return not any(spelt in text for spelt in (BOT, quote(BOT, safe=""), quote(BOT), "very"))


@pytest.mark.parametrize(
    "limits", [{}, {"rules": ["GET /**"]}, {"hosts": ["127.0.0.1"]}, {"connections": ["bots/c1"]}, {"budget": 9}]
)
async def test_no_key_sees_a_credential_in_the_base_url(
    bots: tuple[RunningGateway, RecordingServer], limits: dict[str, Any]
) -> None:
    gateway, api = bots
    body = {"display_name": "agent", "scopes": ["environment:proxy"], "limits": limits}
    key = (await gateway.json("POST", "/environment/api-keys", json=body, expect=200))["data"]["secret"]
    names = {"Provider-Config-Key": "bots", "Connection-Id": "c1", "Authorization": f"Bearer {key}", **DRY}
    async with gateway.http.get(f"{gateway.url}/proxy/getMe", headers=names) as response:
        text = await response.text()
    assert response.status == 200
    assert hides_bot_key(text)
    assert json.loads(text)["url"] == f"{api.url}/bot${{apiKey}}/getMe"
    assert ["x-pass", "***"] in json.loads(text)["headers"]
    assert api.received == []


async def test_guess_of_a_base_url_with_a_credential_is_not_removed_from_the_path(
    bots: tuple[RunningGateway, RecordingServer],
) -> None:
    gateway, api = bots
    names = {"Provider-Config-Key": "bots", "Connection-Id": "c1", **DRY}
    for guess in (BOT, "wrong"):
        url = URL(f"{gateway.url}/proxy/{api.url}/bot{quote(guess, safe='')}/getMe", encoded=True)
        async with gateway.http.get(url, headers={**gateway.headers, **names}) as response:
            shown = (await response.json())["url"]
        assert shown.startswith(f"{api.url}/bot${{apiKey}}/http"), "the whole path is below the base URL"


@pytest.mark.parametrize("times", [1, 3], ids=["chain", "fast path"])
@pytest.mark.parametrize(("begin", "status"), [("*", 200), (quote(BOT[0]), 403), (quote(BOT[0]) + "*", 403)])
async def test_rules_do_not_confirm_a_guess_of_a_credential_in_the_base_url(
    bots: tuple[RunningGateway, RecordingServer], begin: str, status: int, times: int
) -> None:
    """A key that mints keys could read the credential letter by letter, with a rule for each guess."""
    gateway, _ = bots
    body = {"display_name": "guess", "scopes": ["environment:proxy"], "limits": {"rules": [f"GET /bot{begin}/getMe"]}}
    key = (await gateway.json("POST", "/environment/api-keys", json=body, expect=200))["data"]["secret"]
    names = {"Provider-Config-Key": "bots", "Connection-Id": "c1", "Authorization": f"Bearer {key}"}
    for _ in range(times):
        async with gateway.http.get(
            f"{gateway.url}/proxy/getMe", headers=names if times > 1 else names | DRY
        ) as response:
            assert response.status == status, await response.text()


async def test_capability_sees_no_credential_in_the_base_url(bots: tuple[RunningGateway, RecordingServer]) -> None:
    gateway, _ = bots
    body = {"display_name": "sdk", "kind": "capability", "limits": {"connections": ["bots/c1"]}}
    minted = (await gateway.json("POST", "/environment/api-keys", json=body, expect=200))["data"]
    async with gateway.http.get(f"{minted['base_url']}/getMe", headers=DRY) as response:
        text = await response.text()
    assert (response.status, hides_bot_key(text), "/getMe" in text) == (200, True, True)


@pytest.mark.parametrize("spelling", ["{}", "{}?x=1"])
@pytest.mark.parametrize("start", ["https://127.0.0.1", "", "http://elsewhere.example"])
async def test_redirect_that_repeats_the_base_url_is_masked(
    bots: tuple[RunningGateway, RecordingServer], start: str, spelling: str
) -> None:
    gateway, api = bots
    for path in (f"/bot{BOT}/y", f"/bot{quote(BOT, safe='')}/y"):
        api.location = spelling.format(f"{start}{path}")
        async with gateway.call_proxy("c1", "/x", integration="bots", allow_redirects=False) as response:
            assert response.status == 302
            assert hides_bot_key(response.headers["Location"])
            assert "/y" in response.headers["Location"]


@pytest.mark.parametrize("field", ["Location", "Content-Location", "Link", "Refresh"])
@pytest.mark.parametrize(
    "written",
    [
        "/login?next=%2Fbot{encoded}%2Fy",
        "/login?next=%252Fbot{twice}%252Fy",
        "http://elsewhere.example/?u=bot{lower}",
        "bot{plain}/y",
        "?from={encoded}",
        "#{form}",
    ],
)
async def test_a_credential_is_masked_however_a_redirect_spells_it(
    bots: tuple[RunningGateway, RecordingServer], written: str, field: str
) -> None:
    gateway, api = bots
    once = quote(BOT, safe="")
    spelt = written.format(plain=BOT, encoded=once, twice=quote(once), lower=once.lower(), form=quote(BOT, safe="+"))
    api.fields = {field: {"Link": f"<{spelt}>; rel=next", "Refresh": f"0; url={spelt}"}.get(field, spelt)}
    async with gateway.call_proxy("c1", "/x", integration="bots", allow_redirects=False) as response:
        sent = response.headers[field]
    assert "very" not in sent
    assert "***" in sent


@pytest.mark.parametrize("start", ["http://elsewhere.example/x?a=1&key=", "/login?next=%2Fx%3Fkey%3D", "?key="])
async def test_redirect_that_repeats_the_query_is_masked(tmp_path: Path, start: str) -> None:
    async with listening() as api:
        entry = {"display_name": "Bots", "categories": ["communication"], "docs": "https://docs.example.com"}
        proxy = {"base_url": api.url, "query": {"key": "${apiKey}"}}
        write_entry(tmp_path, "bots", {**entry, "auth_mode": "API_KEY", "proxy": proxy})
        gateway = RunningGateway(tmp_path, document([f"127.0.0.1/32:{api.url.rpartition(':')[2]}"], bots={}))
        del gateway.document["environments"]["dev"]["integrations"]["tracker"]
        await gateway.start()
        try:
            credentials = {"type": "API_KEY", "apiKey": BOT}
            body = {"provider_config_key": "bots", "connection_id": "c1", "credentials": credentials}
            await gateway.json("POST", "/connections", json=body, expect=201)
            for spelt in (quote(BOT, safe=""), BOT):
                api.location = start + spelt
                async with gateway.call_proxy("c1", "/x", integration="bots", allow_redirects=False) as response:
                    assert response.status == 302
                    assert "very" not in response.headers["Location"]
        finally:
            await gateway.stop()


async def test_guessed_credential_is_not_confirmed(bots: tuple[RunningGateway, RecordingServer]) -> None:
    gateway, _ = bots
    async with gateway.call_proxy("c1", f"/x/{BOT}", integration="bots", headers={**DRY, "X-Guess": BOT}) as response:
        body = await response.json()
    assert body["url"].endswith(f"/x/{BOT}")
    assert ["X-Guess", BOT] in body["headers"]


def test_password_that_begins_like_a_scheme_is_masked_completely() -> None:
    request = UpstreamRequest("GET", "https", "api.example.com", 443, "/x", CIMultiDict([("X-Pass", "correct horse")]))
    result = request_json(request, slots=["x-pass"], query_slots=[], templates={"x-pass": "${password}"})
    assert ["X-Pass", MASK] in result["headers"]


def test_a_credential_in_the_host_is_masked_in_the_host_field_too() -> None:
    request = UpstreamRequest("GET", "https", "sesame.example.com", 443, "/v1/x", CIMultiDict(), "/v1")
    result = request_json(request, slots=[], query_slots=[], base="https://${apiKey}.example.com/v1")
    assert "sesame" not in json.dumps(result)
