"""`call_log` in gateway.yaml decides which calls are logged and how long, from the start and after each reload.

The former section `request_log` still works.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from gateway import clock
from gateway.app import lifetime
from gateway.observe.metrics_text import total
from gateway.records.operation import Operation, OperationFilter
from gateway.store.call_log import sqlite_call_log
from tests.fakes.gateways import RunningGateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker
from tests.gateway.app.test_reload import reload_gateway

MIN_BYTES = 16 << 20  # the lowest `call_log.max_bytes` that gateway.yaml can have
Apply = Callable[[RunningGateway], Awaitable[Any]]

each_section = pytest.mark.parametrize("section", ["call_log", "request_log"])
at_start_and_reload = pytest.mark.parametrize(
    "apply", [RunningGateway.restart, reload_gateway], ids=["start", "reload"]
)


def recorded_calls(running: RunningGateway) -> float:
    numbers = total([running.runtime.metrics.page])
    return sum(reported[0] for key, reported in numbers.items() if key[0] == "gateway_proxy_requests_total")


async def call(running: RunningGateway, request_id: str, path: str = "/me", *, status: int = 200) -> None:
    """Make a call, and wait until it is recorded: this happens after its response."""
    before = recorded_calls(running)
    async with running.call_proxy("c1", path, headers={"X-Request-Id": request_id}) as response:
        assert response.status == status
    async with asyncio.timeout(PATIENCE_S):
        while recorded_calls(running) == before:
            await asyncio.sleep(0)


async def logged_calls(running: RunningGateway) -> list[str]:
    """Return the request IDs of all calls in the call log, oldest first."""
    await running.runtime.call_queue.flush()
    page = await running.runtime.store.call_log.find(OperationFilter("dev", kind="call", limit=10_000))
    return [item.operation.request_id for item in reversed(page.operations)]


async def add_rows(running: RunningGateway, *request_ids: str, age: timedelta = timedelta(0)) -> None:
    at = clock.now() - age
    rows = [Operation("call", at, request_id, "dev", "tracker", "c1") for request_id in request_ids]
    await running.runtime.store.call_log.add_many(rows)


async def wait_for_pruning(running: RunningGateway) -> None:
    """Wait until the background task has pruned the call log with the settings of now."""
    pruned_at, since = running.runtime.store.pruned_at, clock.now()
    async with asyncio.timeout(PATIENCE_S):
        while pruned_at.get("call_log", since) <= since:
            await asyncio.sleep(0.005)


@pytest.fixture
async def pruning(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> RunningGateway:
    """A gateway that prunes its call log again and again, from its start on."""
    monkeypatch.setattr(lifetime, "HOUSEKEEPING_DELAY_S", 0.0)
    monkeypatch.setattr(lifetime, "PRUNE_CALL_LOG_INTERVAL_S", 0.01)
    await running.restart()
    return running


@each_section
async def test_enabled_decides_whether_calls_are_logged(
    running: RunningGateway, tracker: Tracker, section: str
) -> None:
    running.document[section] = {"enabled": False}
    await running.restart()
    await running.import_connection(tracker.grant())
    await call(running, "off-at-start")
    running.document[section] = {"enabled": True}
    assert await reload_gateway(running)
    await call(running, "switched-on")
    running.document[section] = {"enabled": False}
    assert await reload_gateway(running)
    await call(running, "switched-off")
    assert await logged_calls(running) == ["switched-on"]


async def test_sample_decides_which_successful_calls_are_logged(running: RunningGateway, tracker: Tracker) -> None:
    running.document["call_log"] = {"sample": 0}
    await running.restart()
    await running.import_connection(tracker.grant())
    tracker.forbidden.add("/nowhere")
    await call(running, "none-sampled")
    await call(running, "failure", "/nowhere", status=403)
    running.document["call_log"] = {"sample": 1}
    assert await reload_gateway(running)
    await call(running, "all-sampled")
    running.document["call_log"] = {"sample": 0}
    assert await reload_gateway(running)
    await call(running, "none-sampled-again")
    assert await logged_calls(running) == ["failure", "all-sampled"]


@each_section
@at_start_and_reload
async def test_rows_older_than_keep_days_are_removed(pruning: RunningGateway, section: str, apply: Apply) -> None:
    await add_rows(pruning, "old", age=timedelta(days=3))
    await add_rows(pruning, "new")
    await wait_for_pruning(pruning)
    assert await logged_calls(pruning) == ["old", "new"]
    pruning.document[section] = {"keep_days": 2}
    await apply(pruning)
    await wait_for_pruning(pruning)
    del pruning.document[section]
    assert await reload_gateway(pruning)  # with `keep_days: 2`, the log would hide the row even if it were still there
    assert await logged_calls(pruning) == ["new"]


@at_start_and_reload
async def test_oldest_rows_above_max_bytes_are_removed(
    pruning: RunningGateway, monkeypatch: pytest.MonkeyPatch, apply: Apply
) -> None:
    """The log must fit into `max_bytes` together with its WAL. With a large WAL, few rows exceed the limit."""
    monkeypatch.setattr(sqlite_call_log, "WAL_BYTES", MIN_BYTES - (256 << 10))
    monkeypatch.setattr(sqlite_call_log, "SEGMENT_ROWS", 50)
    added = [f"r{number}" for number in range(1000)]
    for first in range(0, len(added), 50):
        await add_rows(pruning, *added[first : first + 50])
    await wait_for_pruning(pruning)
    assert await logged_calls(pruning) == added
    pruning.document["call_log"] = {"max_bytes": MIN_BYTES}
    await apply(pruning)
    await wait_for_pruning(pruning)
    kept = await logged_calls(pruning)
    assert 0 < len(kept) < len(added) / 2
    assert kept == added[-len(kept) :]


@at_start_and_reload
async def test_oldest_rows_above_the_former_max_rows_are_removed(
    pruning: RunningGateway, monkeypatch: pytest.MonkeyPatch, apply: Apply
) -> None:
    monkeypatch.setattr(sqlite_call_log, "SEGMENT_ROWS", 5)
    added = [f"r{number}" for number in range(60)]
    for first in range(0, len(added), 5):
        await add_rows(pruning, *added[first : first + 5])
    await wait_for_pruning(pruning)
    assert await logged_calls(pruning) == added
    pruning.document["request_log"] = {"max_rows": 24}
    await apply(pruning)
    await wait_for_pruning(pruning)
    assert await logged_calls(pruning) == added[-20:]
