"""Faults occur when, as often and where they are requested."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import aiohttp
import pytest

from gateway.sandbox.accounts import ACME
from tests.gateway.sandbox.conftest import Application

SEARCH = f"/ex/sandbox/{ACME}/rest/api/3/search"


async def test_a_truncated_body_declares_the_whole_length_and_breaks_off(application: Application) -> None:
    token = (await application.connect())["access_token"]
    await _arm(application, {"name": "truncated-body"})
    headers = {"Authorization": f"Bearer {token}"}
    async with application.browser.get(application.base + SEARCH, headers=headers) as response:
        assert response.status == 200
        received, ended_well = await _wait_until_response_ends(response)
        assert not ended_well
        assert 0 < received < int(response.headers["Content-Length"])
    assert (await application.get(SEARCH, token))[0] == 200


async def test_one_header_causes_a_fault_for_one_request(application: Application) -> None:
    token = (await application.connect())["access_token"]
    with pytest.raises(aiohttp.ClientPayloadError):
        await application.get(SEARCH, token, **{"Sandbox-Fault": "truncated-body; share=0.1"})
    assert (await application.get(SEARCH, token))[0] == 200


async def test_a_slow_token_response_still_rotates_the_token(application: Application) -> None:
    tokens = await application.connect()
    await _arm(application, {"name": "slow-token", "seconds": 0.2})
    began = time.monotonic()
    status, _ = await application.refresh(tokens["refresh_token"])
    assert status == 200
    assert time.monotonic() - began >= 0.9 * 0.2  # a timer may fire early by its resolution


async def test_a_burst_of_429_lasts_three_requests_and_has_retry_after(application: Application) -> None:
    token = (await application.connect())["access_token"]
    await _arm(application, {"name": "429-burst", "retry_after": 7})
    for _ in range(3):
        async with application.browser.get(application.base + SEARCH, headers=_bearer(token)) as response:
            assert response.status == 429
            assert response.headers["Retry-After"] == "7"
            assert response.headers["X-RateLimit-Remaining"] == "0"
    assert (await application.get(SEARCH, token))[0] == 200


async def test_retry_after_can_be_a_date(application: Application) -> None:
    headers = {"Sandbox-Fault": "429-burst; date=1; retry_after=60"}
    async with application.browser.get(application.base + SEARCH, headers=headers) as response:
        due = parsedate_to_datetime(response.headers["Retry-After"])
    assert timedelta(seconds=50) < due - datetime.now(UTC) <= timedelta(seconds=61)


async def test_a_reset_happens_before_or_after_the_head(application: Application) -> None:
    token = (await application.connect())["access_token"]
    assert await _raw(application, token, "reset") == (b"", True)
    received, was_reset = await _raw(application, token, "reset; head=1; share=0")
    assert was_reset
    assert received.startswith(b"HTTP/1.1 200")
    assert received.endswith(b"\r\n\r\n")


async def test_a_slow_body_arrives_complete_and_in_pieces(application: Application) -> None:
    token = (await application.connect())["access_token"]
    expected = (await application.get(SEARCH, token))[1]
    began = time.monotonic()
    headers = {**_bearer(token), "Sandbox-Fault": "slow-body; seconds=0.2; pieces=4"}
    async with application.browser.get(application.base + SEARCH, headers=headers) as response:
        pieces = [piece async for piece in response.content.iter_any()]
    assert len(pieces) > 1
    assert json.loads(b"".join(pieces)) == expected
    assert time.monotonic() - began >= 0.9 * 0.2  # a timer may fire early by its resolution


async def test_the_error_fault_returns_its_status_without_handling_the_request(application: Application) -> None:
    token = (await application.connect())["access_token"]
    assert (await application.get(SEARCH, token, **{"Sandbox-Fault": "error"}))[0] == 503
    assert (await application.get(SEARCH, token, **{"Sandbox-Fault": "error; status=401"}))[0] == 401
    await _arm(application, {"name": "error", "path": "/streams/"})
    assert (await application.get("/streams/download", token))[0] == 503
    assert (await application.get("/sandbox/stats", token))[1].get("api_requests", 0) == 0


async def test_a_slow_head_delays_the_response(application: Application) -> None:
    token = (await application.connect())["access_token"]
    began = time.monotonic()
    assert (await application.get(SEARCH, token, **{"Sandbox-Fault": "slow-head; seconds=0.2"}))[0] == 200
    assert time.monotonic() - began >= 0.9 * 0.2  # a timer may fire early by its resolution


async def test_a_fault_counts_down_and_affects_no_other_path(application: Application) -> None:
    token = (await application.connect())["access_token"]
    await _arm(application, {"name": "truncated-body", "times": 2, "path": SEARCH})
    assert (await application.get("/oauth/token/accessible-resources", token))[0] == 200
    assert (await _listed_faults(application))[0]["times"] == 2
    with pytest.raises(aiohttp.ClientPayloadError):
        await application.get(SEARCH, token)
    assert (await _listed_faults(application))[0]["times"] == 1
    async with application.browser.delete(f"{application.base}/sandbox/faults") as response:
        assert response.status == 204
    assert await _listed_faults(application) == []
    assert (await application.get(SEARCH, token))[0] == 200


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"name": "earthquake"},
        {"name": "slow-token", "times": 0},
        {"name": "slow-token", "times": True},
        {"name": "slow-token", "after": -1},
        {"name": "slow-token", "after": 1.5},
        {"name": "slow-token", "seconds": "long"},
        {"name": "slow-token", "seconds": -1},
        {"name": "slow-token", "seconds": float("inf")},
        {"name": "slow-token", "seconds": float("nan")},
        {"name": "slow-token", "seconds": 10**400},
        {"name": "slow-token", "share": 1},
        {"name": "slow-token", "path": "oauth"},
        {"name": "error", "status": 200},
        [],
    ],
)
async def test_an_invalid_fault_is_refused(application: Application, fields: object) -> None:
    async with application.browser.post(f"{application.base}/sandbox/faults", json=fields) as response:
        assert response.status == 400
        assert (await response.json())["error"]
    assert await _listed_faults(application) == []


async def test_a_foreign_page_cannot_switch_faults_on(application: Application) -> None:
    headers = {"Content-Type": "text/plain"}
    url = f"{application.base}/sandbox/faults"
    async with application.browser.post(url, data=b'{"name": "slow-token"}', headers=headers) as response:
        assert response.status == 415


async def test_a_host_name_that_is_not_this_machine_is_refused(application: Application) -> None:
    async with application.browser.get(application.base + "/", headers={"Host": "rebound.evil.test"}) as response:
        assert response.status == 421


async def test_token_requests_and_replays_are_counted(application: Application) -> None:
    tokens = await application.connect()
    await application.refresh(tokens["refresh_token"])
    await application.refresh(tokens["refresh_token"])
    async with application.browser.get(f"{application.base}/sandbox/stats") as response:
        counts = await response.json()
    assert counts["token_requests.authorization_code"] == 1
    assert counts["token_requests.refresh_token"] == 2
    assert counts["replays"] == 1


async def _wait_until_response_ends(response: aiohttp.ClientResponse) -> tuple[int, bool]:
    """Return the number of received bytes, and whether the end was clean."""
    received = 0
    try:
        async for piece in response.content.iter_any():
            received += len(piece)
    except aiohttp.ClientPayloadError:
        return received, False
    return received, True


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def _raw(application: Application, token: str, fault: str) -> tuple[bytes, bool]:
    """Return what arrived on a bare connection, and whether it ended by a reset."""
    host, _, port = application.base.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    fields = f"Host: {host}\r\nAuthorization: Bearer {token}\r\nSandbox-Fault: {fault}\r\n"
    writer.write(f"GET {SEARCH} HTTP/1.1\r\n{fields}\r\n".encode())
    received = b""
    try:
        while piece := await reader.read(65536):
            received += piece
    except ConnectionResetError:
        return received, True
    finally:
        writer.close()
    return received, False


async def _arm(application: Application, fields: dict[str, object]) -> None:
    async with application.browser.post(f"{application.base}/sandbox/faults", json=fields) as response:
        assert response.status == 201


async def _listed_faults(application: Application) -> list[dict[str, object]]:
    async with application.browser.get(f"{application.base}/sandbox/faults") as response:
        listed: list[dict[str, object]] = (await response.json())["armed"]
    return listed


async def test_a_fault_can_let_requests_pass_first(application: Application) -> None:
    token = (await application.connect())["access_token"]
    await _arm(application, {"name": "error", "after": 2, "path": "/lists/"})
    assert (await _listed_faults(application))[0]["after"] == 2
    seen = [(await application.get("/lists/cursor", token))[0] for _ in range(4)]
    assert seen == [200, 200, 503, 200]
    assert await _listed_faults(application) == []
