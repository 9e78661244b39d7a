"""``Server-Timing`` shows where a proxied call spent its time. Responses of provider and gateway have it."""

import asyncio
from typing import Any

import pytest

from gateway import clock as gateway_clock
from gateway.egress.client import Timeouts
from gateway.http.passed_head import server_timing
from tests.fakes.clock import Clock
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.proxy_end import gateway_to, opened_at
from tests.fakes.raw import parsed
from tests.fakes.raw_provider import OK, raw_provider, read_message
from tests.fakes.tracker import Tracker


def split(field: str) -> dict[str, float]:
    """Return the milliseconds of each part, in order."""
    return {name: float(dur) for name, _, dur in (part.partition(";dur=") for part in field.split(", "))}


def test_the_value_has_the_format_that_browsers_read() -> None:
    assert server_timing(0.1234, 0.0, 38.2) == "gateway;dur=0.12, token;dur=0, upstream;dur=38.20"
    assert server_timing(0.1, 0.004, 0.0) == "gateway;dur=0.10, token;dur=0.00, upstream;dur=0.00"


async def test_time_spent_at_the_provider_counts_as_upstream(clock: Clock) -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_message(reader)
            clock.ahead_s += 5
            writer.write(OK)

    async with raw_provider(slow) as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = split(parsed(await gateway.call()).headers["server-timing"])
    assert list(response) == ["gateway", "token", "upstream"]
    assert 5000 <= response["upstream"] < 9000
    assert response["token"] == 0
    assert 0 < response["gateway"] < 4000


async def test_waiting_between_two_attempts_counts_as_upstream_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SteppingClock:
        def __getattr__(self, name: str) -> Any:
            return getattr(gateway_clock, name)

        async def sleep(self, _seconds: float) -> None:
            clock.ahead_s += 7

    monkeypatch.setattr("gateway.proxy.attempts.clock", SteppingClock())  # other modules also wait by gateway.clock
    busy = [b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"]

    async def once_busy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_message(reader)
            writer.write(busy.pop() if busy else OK)

    async with raw_provider(once_busy) as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = parsed(await gateway.call("/proxy/x", "Retries: 1"))
    assert response.headers["gateway-attempts"] == "2"
    result = split(response.headers["server-timing"])
    assert 7000 <= result["upstream"] < 11000
    assert result["gateway"] < 4000


async def test_the_providers_timing_is_kept_in_addition_to_ours() -> None:
    async def timed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_message(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nServer-Timing: db;dur=53\r\nContent-Length: 0\r\n\r\n")

    async with raw_provider(timed) as provider, gateway_to(opened_at(provider.port)) as gateway:
        raw = await gateway.call()
    lines = [line for line in raw.decode().split("\r\n") if line.lower().startswith("server-timing")]
    assert lines[0] == "Server-Timing: db;dur=53"
    assert lines[1].startswith("Server-Timing: gateway;dur=")
    assert len(lines) == 2


async def test_waiting_for_a_refresh_counts_as_token_time(
    running: RunningGateway, tracker: Tracker, clock: Clock
) -> None:
    tracker.ttl_s = 0.001
    await running.import_connection(tracker.grant())
    tracker.ttl_s = 3600
    tracker.hold.clear()
    call = asyncio.create_task(timing(running))
    async with asyncio.timeout(PATIENCE_S):
        while not tracker.calls["refresh_token"]:
            await asyncio.sleep(0)
    clock.ahead_s += 5
    tracker.hold.set()
    cold, warm = await call, await timing(running)
    assert 5000 <= cold["token"] < 9000
    assert cold["gateway"] + cold["upstream"] < 4000
    assert warm["token"] == 0
    assert warm["upstream"] > 0 < warm["gateway"]


async def test_the_refresh_after_a_401_counts_as_token_time_and_not_upstream_time(
    running: RunningGateway, tracker: Tracker, clock: Clock
) -> None:
    await running.import_connection(tracker.grant())
    assert (await timing(running))["upstream"] > 0
    tracker.grants[0].access_tokens = set()
    tracker.refusal = 401
    tracker.hold.clear()
    call = asyncio.create_task(timing(running))
    async with asyncio.timeout(PATIENCE_S):
        while not tracker.calls["refresh_token"]:
            await asyncio.sleep(0)
    clock.ahead_s += 5
    tracker.hold.set()
    response = await call
    assert 5000 <= response["token"] < 9000
    assert response["upstream"] + response["gateway"] < 4000


async def timing(running: RunningGateway) -> dict[str, float]:
    async with running.call_proxy("c1") as response:
        assert response.status == 200
        return split(response.headers["Server-Timing"])


async def test_an_error_of_the_gateway_has_the_field_too(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    for connection_id, headers, status in (
        ("nobody", {}, 404),
        ("c1", {"Base-Url-Override": "https://evil.example"}, 400),
        ("", {}, 400),  # the key was valid, but the headers were not
        ("c1", {"Gateway-Dry-Run": "true"}, 200),
    ):
        async with running.call_proxy(connection_id, headers=headers) as response:
            assert response.status == status
            (reply,) = response.headers.getall("Server-Timing")
        assert list(split(reply)) == ["gateway", "token", "upstream"]
        assert split(reply)["upstream"] == 0
        assert split(reply)["gateway"] > 0


async def test_a_provider_that_is_silent_shows_as_upstream_in_our_504(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    running.runtime.generation.egress.timeouts = Timeouts(first_byte_s=0.05)
    tracker.hold_api.clear()
    async with running.call_proxy("c1") as response:
        assert (response.status, response.headers["Gateway-Error"]) == (504, "upstream_timeout")
        result = split(response.headers["Server-Timing"])
    tracker.hold_api.set()
    assert result["upstream"] >= 0.9 * 50  # a timer can fire early by its resolution


async def test_other_responses_of_the_gateway_do_not_have_the_field(running: RunningGateway) -> None:
    for path, headers in (("/providers", running.headers), ("/health", {}), ("/proxy/x", {})):
        async with running.http.get(running.url + path, headers=headers) as response:
            assert "Server-Timing" not in response.headers


async def test_the_record_of_a_call_has_the_times_of_server_timing(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.import_connection(tracker.grant())
    records = []
    monkeypatch.setattr(running.runtime.call_queue, "record", records.append)
    result = await timing(running)
    await running.json("GET", "/connections", expect=200)
    call, listed = records
    assert round(call.gateway_ms, 2) == result["gateway"]
    assert round(call.upstream_ms, 2) == result["upstream"]
    assert call.token_ms >= 0
    assert (listed.gateway_ms, listed.token_ms, listed.upstream_ms) == (None, None, None)
