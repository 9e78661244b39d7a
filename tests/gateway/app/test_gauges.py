"""What metrics are told of a gateway that serves: its calls, its refreshes, and how its ways out are used."""

import asyncio
from pathlib import Path

import pytest
import structlog
from aiohttp import web

from gateway.observe.metrics_text import total
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker


def numbers(running: RunningGateway, name: str) -> dict[tuple[str, ...], float]:
    """Of one family: the labels' values ▸ the number. No zeros."""
    metrics = running.runtime.metrics
    metrics.publish()
    return {key[1:]: reported[0] for key, reported in total([metrics._page]).items() if key[0] == name and reported[0]}


async def called(running: RunningGateway, connection_id: str = "c1", **options: str) -> int:
    async with running.proxied(connection_id, **options) as answer:
        status: int = answer.status
        await answer.read()
        return status


async def test_a_call_is_counted_for_its_integration_and_a_refusal_by_its_code(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.imported(tracker.grant())
    for connection_id, integration, status in (
        ("c1", "tracker", 200),
        ("c1", "tracker", 200),
        ("nobody", "tracker", 404),
        ("c1", "made-up", 404),
    ):
        assert await called(running, connection_id, integration=integration) == status
    async with running.http.get(f"{running.url}/proxy/x") as answer:
        assert answer.status == 401
    assert numbers(running, "gateway_proxy_requests_total") == {
        ("dev", "tracker", "GET", "200", ""): 2,
        ("dev", "tracker", "GET", "404", "unknown_connection"): 1,
        ("dev", "", "GET", "404", "unknown_provider_config"): 1,
    }
    assert numbers(running, "gateway_api_requests_total") == {
        ("POST", "201", ""): 1,
        ("GET", "401", "missing_auth_header"): 1,
    }


async def test_refreshes_are_counted_by_outcome(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker.ttl_s = 0.001
    for connection_id in ("c1", "c2", "c3", "c4"):
        await running.imported(tracker.grant(), connection_id)
    tracker.ttl_s = 3600
    assert await called(running, "c1") == 200
    tracker.answer = web.json_response({"error": "invalid_grant"}, status=400)
    assert await called(running, "c2") == 424
    tracker.answer = web.Response(status=503)
    assert await called(running, "c3") == 503
    monkeypatch.setattr(running.runtime.renewer._turns, "take", None)
    assert await called(running, "c4") == 500
    assert numbers(running, "gateway_token_refreshes_total") == {
        ("dev", "tracker", outcome): 1 for outcome in ("renewed", "refused", "unavailable", "failed")
    }


async def test_connections_to_providers_are_reported_by_provider_and_state(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.imported(tracker.grant())
    assert await called(running) == 200
    assert numbers(running, "gateway_upstream_connections") == {("tracker", "idle"): 1}
    assert numbers(running, "gateway_live_connections") == {(): 1}
    tracker.hold_api.clear()
    calls = [asyncio.create_task(called(running)) for _ in range(3)]
    async with asyncio.timeout(PATIENCE_S):
        while tracker.calls["api"] < 4:
            await asyncio.sleep(0)
    assert numbers(running, "gateway_upstream_connections") == {("tracker", "busy"): 3}
    assert numbers(running, "gateway_upstream_outstanding") == {("tracker",): 3}
    tracker.hold_api.set()
    assert await asyncio.gather(*calls) == [200, 200, 200]
    assert numbers(running, "gateway_upstream_connections") == {("tracker", "idle"): 3}
    assert numbers(running, "gateway_upstream_outstanding") == {}


async def test_an_open_breaker_is_reported_by_provider(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported(tracker.grant())
    assert await called(running) == 200
    gate = running.runtime.egress_limits.to(("http", "127.0.0.1", int(tracker.url.rpartition(":")[2])))
    for _ in range(20):
        gate.release("failed", probe=await gate.acquire())
    assert numbers(running, "gateway_upstream_breakers_open") == {("tracker",): 1}
    assert await called(running) == 503
    assert numbers(running, "gateway_proxy_requests_total")["dev", "tracker", "GET", "503", "busy"] == 1


async def test_requests_that_wait_are_reported(running: RunningGateway, tracker: Tracker) -> None:
    await running.imported(tracker.grant())
    assert await called(running) == 200
    pool = running.runtime.generation.egress.pool(("http", "127.0.0.1", int(tracker.url.rpartition(":")[2])))
    assert pool is not None
    pool._limit = 1
    tracker.hold_api.clear()
    calls = [asyncio.create_task(called(running)) for _ in range(3)]
    async with asyncio.timeout(PATIENCE_S):
        while numbers(running, "gateway_upstream_connections_waited_for") != {("tracker",): 2}:
            await asyncio.sleep(0)
    tracker.hold_api.set()
    assert await asyncio.gather(*calls) == [200, 200, 200]
    assert numbers(running, "gateway_upstream_connections_waited_for") == {}


async def test_records_that_were_dropped_are_reported(running: RunningGateway, tracker: Tracker) -> None:
    running.runtime.request_log._bound = 0
    await running.imported(tracker.grant())
    assert numbers(running, "gateway_request_log_dropped_total")[()] >= 1


async def test_a_gateway_without_a_folder_for_its_journal_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.sqlite.sqlite_backend.journal_beside", lambda _path: None)
    node = RunningGateway(tmp_path, document([]))
    write_entry(tmp_path, "tracker", tracker_entry("http://127.0.0.1:9"))
    with structlog.testing.capture_logs() as logged:
        await node.start()
    try:
        (event,) = [one for one in logged if one["event"] == "refresh_journal_unwritable"]
        assert event["log_level"] == "error"
        assert "TMPDIR" in event["detail"]
        assert numbers(node, "gateway_refresh_journal_unwritable") == {(): 1}
        async with node.http.get(f"{node.url}/ready") as answer:
            assert (answer.status, await answer.json()) == (200, {"result": "ok", "journal": "unwritable"})
    finally:
        await node.stop()


async def test_a_journal_that_can_be_written_is_counted_so(running: RunningGateway) -> None:
    assert numbers(running, "gateway_refresh_journal_unwritable") == {}
    async with running.http.get(f"{running.url}/ready") as answer:
        assert await answer.json() == {"result": "ok"}
