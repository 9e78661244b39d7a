"""Metrics of a running gateway: its calls, its refreshes, and the use of its connections to providers."""

import asyncio
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import structlog
from aiohttp import web
from sqlalchemy import update

from gateway import clock
from gateway.egress.pool import PoolLimits
from gateway.errors import Unavailable
from gateway.events import audit_keeper, event_keeper
from gateway.events.audit_keeper import AuditKeeper
from gateway.observe.metrics_text import exposition, total
from gateway.refresh.refresher import RefreshQueue
from gateway.store import Store
from gateway.store.sqlite.file_preflight import sqlite_path
from gateway.store.sqlite.sqlite_backup import back_up
from gateway.store.tables import connections
from gateway.timestamps import iso
from gateway.vault import Keyring
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker


def metric_values(running: RunningGateway, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of one metric family by their label values, without zeros."""
    metrics = running.runtime.metrics
    metrics.publish()
    return {key[1:]: reported[0] for key, reported in total([metrics.page]).items() if key[0] == name and reported[0]}


async def call_status(running: RunningGateway, connection_id: str = "c1", **options: str) -> int:
    async with running.call_proxy(connection_id, **options) as response:
        status: int = response.status
        await response.read()
        return status


@pytest.mark.parametrize(("name", "expected"), [("full", "full"), ("read_only", "read-only")])
async def test_database_that_cannot_be_written_is_reported(
    name: str, expected: str, running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert metric_values(running, "gateway_store_unwritable") == {}
    monkeypatch.setattr(Store, name, True)
    assert metric_values(running, "gateway_store_unwritable") == {(): 1}
    for query, status in (("", 200), ("?store=required", 503)):
        async with running.http.get(f"{running.url}/ready{query}") as response:
            assert (response.status, (await response.json())["store"]) == (status, expected)


async def test_a_call_is_counted_for_its_integration_and_a_refusal_by_its_code(
    running: RunningGateway, tracker: Tracker
) -> None:
    await running.import_connection(tracker.grant())
    for connection_id, integration, status in (
        ("c1", "tracker", 200),
        ("c1", "tracker", 200),
        ("nobody", "tracker", 404),
        ("c1", "made-up", 404),
    ):
        assert await call_status(running, connection_id, integration=integration) == status
    async with running.http.get(f"{running.url}/proxy/x") as response:
        assert response.status == 401
    assert metric_values(running, "gateway_proxy_requests_total") == {
        ("dev", "tracker", "GET", "200", ""): 2,
        ("dev", "tracker", "GET", "404", "unknown_connection"): 1,
        ("dev", "", "GET", "404", "unknown_provider_config"): 1,
    }
    assert metric_values(running, "gateway_api_requests_total") == {
        ("POST", "201", ""): 1,
        ("GET", "401", "missing_auth_header"): 1,
    }


async def test_refreshes_are_counted_by_outcome(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker.ttl_s = 0.001
    for connection_id in ("c1", "c2", "c3", "c4"):
        await running.import_connection(tracker.grant(), connection_id)
    tracker.ttl_s = 3600
    assert await call_status(running, "c1") == 200
    tracker.response = web.json_response({"error": "invalid_grant"}, status=400)
    assert await call_status(running, "c2") == 424
    tracker.response = web.Response(status=503)
    assert await call_status(running, "c3") == 503
    monkeypatch.setattr(RefreshQueue, "acquire", None)
    assert await call_status(running, "c4") == 500
    assert metric_values(running, "gateway_token_refreshes_total") == {
        ("dev", "tracker", outcome): 1 for outcome in ("renewed", "refused", "unavailable", "failed")
    }


async def test_connections_are_counted_per_provider_and_state(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    assert await call_status(running) == 200
    assert metric_values(running, "gateway_upstream_connections") == {("tracker", "idle"): 1}
    assert metric_values(running, "gateway_live_connections") == {(): 1}
    tracker.hold_api.clear()
    calls = [asyncio.create_task(call_status(running)) for _ in range(3)]
    async with asyncio.timeout(PATIENCE_S):
        while tracker.calls["api"] < 4:
            await asyncio.sleep(0)
    assert metric_values(running, "gateway_upstream_connections") == {("tracker", "busy"): 3}
    assert metric_values(running, "gateway_upstream_outstanding") == {("tracker",): 3}
    tracker.hold_api.set()
    assert await asyncio.gather(*calls) == [200, 200, 200]
    assert metric_values(running, "gateway_upstream_connections") == {("tracker", "idle"): 3}
    assert metric_values(running, "gateway_upstream_outstanding") == {}


async def test_open_circuit_breakers_are_counted_per_provider(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    assert await call_status(running) == 200
    gate = running.runtime.egress_limits.for_origin(("http", "127.0.0.1", int(tracker.url.rpartition(":")[2])))
    for _ in range(20):
        gate.release("failed", probe=await gate.acquire())
    assert metric_values(running, "gateway_upstream_breakers_open") == {("tracker",): 1}
    assert await call_status(running) == 503
    assert metric_values(running, "gateway_proxy_requests_total")["dev", "tracker", "GET", "503", "busy"] == 1


async def test_waiting_requests_are_counted_per_provider(running: RunningGateway, tracker: Tracker) -> None:
    await running.import_connection(tracker.grant())
    assert await call_status(running) == 200
    pool = running.runtime.generation.egress.pool(("http", "127.0.0.1", int(tracker.url.rpartition(":")[2])))
    assert pool is not None
    pool._limits = PoolLimits(1, 10, PATIENCE_S)
    tracker.hold_api.clear()
    calls = [asyncio.create_task(call_status(running)) for _ in range(3)]
    async with asyncio.timeout(PATIENCE_S):
        while metric_values(running, "gateway_upstream_connections_waited_for") != {("tracker",): 2}:
            await asyncio.sleep(0)
    tracker.hold_api.set()
    assert await asyncio.gather(*calls) == [200, 200, 200]
    assert metric_values(running, "gateway_upstream_connections_waited_for") == {}


async def test_records_that_were_dropped_are_reported(running: RunningGateway, tracker: Tracker) -> None:
    running.runtime.call_queue._max_queued = 0
    await running.import_connection(tracker.grant())
    assert metric_values(running, "gateway_request_log_dropped_total")[()] >= 1


async def test_missing_journal_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.sqlite.sqlite_backend.journal_beside", lambda _path: None)
    node = RunningGateway(tmp_path, document([]))
    write_entry(tmp_path, "tracker", tracker_entry("http://127.0.0.1:9"))
    with structlog.testing.capture_logs() as logged:
        await node.start()
    try:
        (event,) = [item for item in logged if item["event"] == "refresh_journal_unwritable"]
        assert event["log_level"] == "error"
        assert "TMPDIR" in event["detail"]
        assert metric_values(node, "gateway_refresh_journal_unwritable") == {(): 1}
        async with node.http.get(f"{node.url}/ready") as response:
            assert (response.status, await response.json()) == (200, {"result": "ok", "journal": "unwritable"})
    finally:
        await node.stop()


async def test_writable_journal_is_reported_as_such(running: RunningGateway) -> None:
    assert metric_values(running, "gateway_refresh_journal_unwritable") == {}
    async with running.http.get(f"{running.url}/ready") as response:
        assert await response.json() == {"result": "ok"}


async def test_connections_are_counted_by_state_and_by_their_end(
    running: RunningGateway, tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.now()
    for name, ends_in in (
        ("c1", None),
        ("c2", timedelta(hours=5)),
        ("c3", timedelta(days=5)),
        ("c4", timedelta(days=20)),
    ):
        grant = {key: text for key, text in tracker.grant().items() if key not in ("refresh_token", "expires_in")}
        if ends_in is not None:
            grant["expires_at"] = iso(now + ends_in)
        await running.import_connection(grant, name)
    await running.json("DELETE", "/connections/c1?provider_config_key=tracker")
    keeper = running.runtime.keeper
    monkeypatch.setattr(event_keeper, "COUNT_COST_RATIO", 0)
    async with asyncio.timeout(PATIENCE_S):
        while metric_values(running, "gateway_connections") != {("dev", "active"): 3}:
            await keeper.run_once()
    assert metric_values(running, "gateway_connections_ending") == {("dev", "1"): 1, ("dev", "7"): 2, ("dev", "30"): 3}
    assert metric_values(running, "gateway_keep_alive_overdue_seconds") == {}
    table = connections.c
    late = update(connections).where(table.connection_id == "c4").values(keep_alive_at=now - timedelta(hours=2))
    await running.runtime.store.transactions.write(lambda db: db.execute(late))
    await keeper.run_once()
    ((whose, overdue_s),) = metric_values(running, "gateway_keep_alive_overdue_seconds").items()
    assert whose == ("dev", "active")
    assert overdue_s >= 7200
    assert metric_values(running, "gateway_connections_ending") == {("dev", "1"): 1, ("dev", "7"): 2, ("dev", "30"): 2}


async def test_counting_takes_at_most_a_hundredth_of_the_time(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = running.runtime.keeper
    monkeypatch.setattr(event_keeper, "COUNT_COST_RATIO", 1e9)
    before = keeper.connections = [*keeper.connections]
    async with asyncio.timeout(PATIENCE_S):
        while keeper.connections is before:
            await keeper.run_once()
    before = keeper.connections
    await keeper.run_once()
    assert keeper.connections is before


async def test_a_refresh_is_timed_and_one_that_fails_is_counted_by_its_reason(
    running: RunningGateway, tracker: Tracker
) -> None:
    for name in ("c1", "c2"):
        ended = {key: text for key, text in tracker.grant().items() if key != "expires_in"}
        await running.import_connection({**ended, "expires_at": "2020-01-01T00:00:00Z"}, name)
    assert await call_status(running) == 200
    tracker.response = web.json_response({"error": "invalid_client"}, status=401)
    assert await call_status(running, "c2") == 424
    metrics = running.runtime.metrics
    text = exposition(total([metrics.page]))
    assert 'gateway_token_refresh_seconds_count{environment="dev",integration="tracker"} 1' in text
    assert 'gateway_token_refresh_seconds_bucket{environment="dev",integration="tracker",le="+Inf"} 1' in text
    failures = metric_values(running, "gateway_token_refresh_failures_total")
    assert failures == {("dev", "tracker", "invalid_client"): 1}


async def test_blocked_event_loop_is_reported(running: RunningGateway) -> None:
    lag = running.runtime.loop_lag
    async with asyncio.timeout(PATIENCE_S):
        while lag.longest_s < 0.3:
            time.sleep(0.4)  # noqa: ASYNC251 (this is what is measured)
            await asyncio.sleep(0)
    assert metric_values(running, "gateway_event_loop_lag_seconds")[()] >= 0.3


async def test_waits_for_the_database_are_counted(running: RunningGateway, tracker: Tracker) -> None:
    before = metric_values(running, "gateway_database_accesses_total")
    waited = metric_values(running, "gateway_database_wait_seconds_total").get(("write",), 0.0)
    transactions = running.runtime.store.transactions
    started, free = asyncio.Event(), asyncio.Event()

    async def hold(_: object) -> None:
        started.set()
        await free.wait()

    holder = asyncio.create_task(transactions.write(hold))
    await started.wait()
    importing = asyncio.create_task(running.import_connection(tracker.grant()))
    async with asyncio.timeout(PATIENCE_S):
        while not transactions._waiting:
            await asyncio.sleep(0)
    requested_at = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() - requested_at < 0.05:
        await asyncio.sleep(0)
    free.set()
    await asyncio.gather(holder, importing)
    after = metric_values(running, "gateway_database_accesses_total")
    assert after[("read",)] > before[("read",)]
    assert after[("write",)] > before.get(("write",), 0.0)
    assert metric_values(running, "gateway_database_wait_seconds_total")[("write",)] >= waited + 0.05


async def test_times_of_pruning_and_backup_are_reported(
    running: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the start itself does not wait for pruning
    assert metric_values(running, "gateway_prune_success_timestamp_seconds") == {}
    monkeypatch.setattr("gateway.app.lifetime.HOUSEKEEPING_DELAY_S", 0.0)
    await running.restart()
    began = time.time()
    async with asyncio.timeout(PATIENCE_S):
        while metric_values(running, "gateway_prune_success_timestamp_seconds").keys() != {("store",), ("call_log",)}:
            await asyncio.sleep(0.01)
    for at in metric_values(running, "gateway_prune_success_timestamp_seconds").values():
        assert abs(at - began) < 3600
    monkeypatch.setattr(audit_keeper, "PRUNE_EVERY_S", 0)
    await AuditKeeper(running.runtime.store, running.runtime.current).run_once()
    assert ("audit",) in metric_values(running, "gateway_prune_success_timestamp_seconds")
    assert metric_values(running, "gateway_backup_success_timestamp_seconds") == {}
    config = running.runtime.generation.config
    source, keyring = sqlite_path(config.store.url), Keyring(config.store.encryption_keys)
    await asyncio.to_thread(back_up, source, tmp_path / "copy", keyring, replaces=False, step=lambda *_: None)
    assert abs(metric_values(running, "gateway_backup_success_timestamp_seconds")[()] - began) < 3600


async def test_audit_records_that_cannot_be_sealed_are_reported(
    running: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.app.lifetime.AuditKeeper", partial(AuditKeeper, batch_delay_s=0.01))
    await running.restart()
    keeper = running.runtime.audit_keeper

    async def raise_unavailable() -> int:
        raise Unavailable("store_unavailable", "away")

    monkeypatch.setattr(running.runtime.store.audit, "append_to_chain", raise_unavailable)
    running.runtime.store.trail.record_written.set()
    async with asyncio.timeout(PATIENCE_S):
        while not keeper.failing:
            await asyncio.sleep(0.01)
    assert metric_values(running, "gateway_audit_not_sealed") == {(): 1}
    monkeypatch.undo()
    running.runtime.store.trail.record_written.set()
    async with asyncio.timeout(PATIENCE_S):
        while keeper.failing:
            await asyncio.sleep(0.01)
    assert metric_values(running, "gateway_audit_not_sealed") == {}
