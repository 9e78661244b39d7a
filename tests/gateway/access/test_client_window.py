"""Requests are counted by client. A client with many invalid keys is throttled, and its log lines are limited."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway import clock
from gateway.access.client_window import (
    MAX_CLIENTS,
    MAX_INVALID_KEYS,
    MAX_LINES,
    WINDOW_S,
    InvalidKeyThrottle,
    RefusalLog,
    client_network,
)
from gateway.access.key_forms import mint
from gateway.errors import Unauthorized
from tests.fakes.clock import Clock
from tests.fakes.gateways import SECRET_KEY, RunningGateway


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        (None, ""),
        ("", ""),
        ("/run/gateway.sock", "/run/gateway.sock"),
    ],
)
def test_ipv6_clients_of_one_network_count_together(address: str | None, client: str) -> None:
    assert client_network(address) == client


# ── Many invalid keys from one IP address are throttled, but valid keys pass. Then: keys and capability URLs in a wrong
# place.

INVALID_KEY = {"Authorization": "Bearer sk-test-of-nobody-at-all"}


async def get_error(
    running: RunningGateway, headers: dict[str, str], path: str = "/connections"
) -> tuple[int, Any, Any]:
    async with running.http.get(running.url + path, headers=headers) as response:
        return response.status, (await response.json()).get("error"), response.headers


async def send_invalid_keys(running: RunningGateway) -> None:
    for _ in range(MAX_INVALID_KEYS):
        assert (await get_error(running, INVALID_KEY))[0] == 401


async def test_many_invalid_keys_from_one_ip_address_are_throttled(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = clock.monotonic() + 1000
    monkeypatch.setattr("gateway.clock.monotonic", lambda: at)
    await send_invalid_keys(running)
    with capture_logs() as logs:
        status, error, headers = await get_error(running, INVALID_KEY)
        assert (status, error["code"], headers["Retry-After"]) == (429, "too_many_request", "60")
        assert error["message"].startswith("More than 50 requests with an invalid key ")
        assert (await get_error(running, {}, f"/c/{mint('capability').reveal()}/x"))[0] == 429
    lines = [line for line in logs if line["event"] == "invalid_keys_throttled"]
    assert [(line["client"], line["log_level"]) for line in lines] == [("127.0.0.1", "warning")]
    later = at + WINDOW_S
    monkeypatch.setattr("gateway.clock.monotonic", lambda: later)
    assert (await get_error(running, INVALID_KEY))[0] == 401


async def test_valid_key_from_a_throttled_ip_address_passes(running: RunningGateway) -> None:
    await send_invalid_keys(running)
    assert (await get_error(running, INVALID_KEY))[0] == 429
    assert (await get_error(running, running.headers))[0] == 200
    body = await running.json("POST", "/environment/api-keys", json={"display_name": "k", "scopes": ["environment:*"]})
    minted = {"Authorization": f"Bearer {body['data']['secret']}"}
    assert (await get_error(running, minted))[0] == 200
    running.runtime.minted.handle_missed_changes()
    assert (await get_error(running, minted))[0] == 200, "the key is looked up in the store before a failure is counted"


async def test_missing_key_is_not_counted_as_an_invalid_key(running: RunningGateway) -> None:
    for _ in range(MAX_INVALID_KEYS + 1):
        assert (await get_error(running, {}))[0] == 401


async def test_invalid_keys_are_counted(running: RunningGateway) -> None:
    await get_error(running, INVALID_KEY)
    await get_error(running, running.headers)
    counted = {key[0]: number for key, number in running.runtime.metrics.page.read()}
    assert counted["gateway_invalid_keys_total"] == [1.0]


def test_further_clients_beyond_the_maximum_share_one_count_of_invalid_keys() -> None:
    keys, fault = InvalidKeyThrottle(lambda: None), Unauthorized("unknown_account", "No.")
    for n in range(MAX_CLIENTS):
        assert keys.response(fault, f"client {n}", "r") is fault
    responses = [keys.response(fault, f"late {n}", "r").status for n in range(MAX_INVALID_KEYS + 1)]
    assert responses == [*[401] * MAX_INVALID_KEYS, 429]
    assert keys.response(fault, "client 1", "r") is fault, "a client that already has a count keeps it"


async def test_errors_about_a_key_name_the_authentication_scheme(running: RunningGateway) -> None:
    assert (await get_error(running, {}))[2]["WWW-Authenticate"] == 'Bearer realm="gateway"'
    challenge = (await get_error(running, INVALID_KEY))[2]["WWW-Authenticate"]
    assert challenge == 'Bearer realm="gateway", error="invalid_token"'
    request_body = {"display_name": "k", "scopes": ["environment:proxy"]}
    body = await running.json("POST", "/environment/api-keys", json=request_body, expect=200)
    minted = {"Authorization": f"Bearer {body['data']['secret']}"}
    status, _, headers = await get_error(running, minted)
    assert status == 403
    assert headers["WWW-Authenticate"] == (
        'Bearer realm="gateway", error="insufficient_scope", scope="environment:connections:list"'
    )
    limited = {"display_name": "l", "scopes": ["environment:*"], "limits": {"integrations": ["tracker"]}}
    body = await running.json("POST", "/environment/api-keys", json=limited, expect=200)
    minted = {"Authorization": f"Bearer {body['data']['secret']}"}
    status, _, headers = await get_error(running, minted, "/environment-variables")
    assert (status, headers["WWW-Authenticate"]) == (403, 'Bearer realm="gateway"')


async def test_error_says_that_a_capability_url_was_sent_as_a_key(running: RunningGateway) -> None:
    request_body = {"display_name": "c", "kind": "capability", "scopes": ["environment:proxy"]}
    request_body |= {"limits": {"connections": ["tracker/u1"]}}
    body = await running.json("POST", "/environment/api-keys", json=request_body, expect=200)
    url = body["data"]["base_url"]
    for text in (url, url.rpartition("/")[2], mint("capability").reveal()):
        status, error, _ = await get_error(running, {"Authorization": f"Bearer {text}"})
        assert (status, error["code"]) == (401, "unknown_account")
        assert error["message"].startswith("This is a capability URL, not a secret key. Use it as the base URL")
    assert (await get_error(running, {}, f"/c/{url.rpartition('/')[2]}/x"))[0] == 404, (
        "the capability URL is accepted, but its connection does not exist"
    )


async def test_error_says_that_the_placeholder_of_the_documentation_was_sent(running: RunningGateway) -> None:
    status, error, _ = await get_error(running, {"Authorization": "Bearer <SECRET_KEY>"})
    assert (status, error["code"]) == (401, "unknown_account")
    assert error["message"].startswith("This is the placeholder of the documentation, not a secret key. Replace it")


async def test_error_says_that_a_key_was_sent_as_a_capability(running: RunningGateway) -> None:
    status, error, _ = await get_error(running, {}, f"/c/{mint().reveal()}/x")
    assert status == 401
    assert error["message"].startswith("This is a secret key, not a capability URL.")
    assert SECRET_KEY not in str(error)


# ── Refusals that any client can cause are logged a few times per minute and client. One more line says that more are
# not logged.

CLIENT = "192.0.2.1"


def logged_events(refusals: RefusalLog, times: int, client: str, subject: str = "") -> list[str]:
    with capture_logs() as logged:
        for _ in range(times):
            refusals.info("refused", client, subject, reason="no signature")
    return [line["event"] for line in logged]


def test_log_lines_are_limited_for_each_client_and_subject(clock: Clock) -> None:
    refusals = RefusalLog()
    full = [*["refused"] * MAX_LINES, "refusals_not_logged"]
    assert logged_events(refusals, 50, CLIENT, "dev/a") == full
    assert logged_events(refusals, 50, CLIENT, "dev/b") == full
    assert logged_events(refusals, 50, "2001:db8::1") == full
    assert logged_events(refusals, 1, "2001:db8::2") == [], "one /64 is one client"
    clock.ahead_s += WINDOW_S
    assert logged_events(refusals, 1, CLIENT, "dev/a") == ["refused"]


@pytest.mark.usefixtures("clock")
def test_further_clients_beyond_the_maximum_share_one_limit_of_log_lines() -> None:
    refusals = RefusalLog()
    with capture_logs():
        for number in range(MAX_CLIENTS):
            refusals.info("refused", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    found = [line for number in range(50) for line in logged_events(refusals, 1, f"192.0.2.{number}")]
    assert found == [*["refused"] * MAX_LINES, "refusals_not_logged"]
