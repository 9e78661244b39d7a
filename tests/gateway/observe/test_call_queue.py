"""The queue between requests and their stored records: bounded, batched, and flushed at shutdown."""

import asyncio
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway import clock
from gateway.errors import Unavailable
from gateway.observe import call_queue, logs
from gateway.observe.call_queue import (
    BATCH_MULTIPLE,
    BATCH_RECORDS,
    LINES_PER_TURN,
    MAX_EXTRA_FAILURES,
    MAX_QUEUED,
    CallQueue,
    as_event,
    as_line,
)
from gateway.records.audit import CredentialUseCount
from gateway.records.filters import single_or_any_set
from gateway.records.operation import Operation, OperationFilter
from gateway.records.proxied_call import ExchangeRecord
from gateway.store.call_log.call_log_store import CallLogBounds
from gateway.store.call_log.sqlite_call_log import WAL_BYTES, SqliteCallLog
from tests.fakes.patience import PATIENCE_S


def exchange(number: int = 0, connection_id: str = "u1") -> ExchangeRecord:
    return ExchangeRecord(
        at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        request_id=str(number),
        environment="dev",
        integration_id="jira" if connection_id else "",
        connection_id=connection_id,
        method="GET",
        host="api.example.com" if connection_id else "",
        path="/a",
        status=200,
        duration_ms=1.5,
        bytes_in=0,
        bytes_out=7,
    )


class RecordingStore:
    """A store that keeps the given records, unless it is `down`."""

    def __init__(self) -> None:
        self.batches: list[list[ExchangeRecord]] = []
        self.down: Exception | None = None
        self.asked = asyncio.Event()
        self.free: asyncio.Event | None = None  # if set, the store waits for it

    async def add_many(self, exchanges: Sequence[ExchangeRecord]) -> None:
        self.asked.set()
        if self.free is not None:
            await self.free.wait()
        if self.down is not None:
            raise self.down
        self.batches.append(list(exchanges))

    @property
    def ids(self) -> list[str]:
        return [item.request_id for batch in self.batches for item in batch]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The lines written to stderr."""
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(logs, "write_events", seen.extend)
    return seen


async def wait_until_written(log: CallQueue, kept: RecordingStore) -> None:
    """Run one round of the writing task."""
    kept.asked.clear()
    task = asyncio.create_task(log.write_to(kept, every_s=0))
    async with asyncio.timeout(PATIENCE_S):
        await kept.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_every_exchange_is_a_line_and_those_of_a_connection_are_stored(lines: list[dict[str, Any]]) -> None:
    log, kept = CallQueue(), RecordingStore()
    log.record(exchange(1))
    log.record(exchange(2, connection_id=""))
    await wait_until_written(log, kept)
    assert kept.ids == ["1"]
    assert [line["request_id"] for line in lines] == ["1", "2"]


async def test_line_omits_unknown_members(lines: list[dict[str, Any]]) -> None:
    log, kept = CallQueue(), RecordingStore()
    log.record(exchange(connection_id=""))
    await log.close()
    assert lines == [
        {
            "event": "exchange",
            "level": "info",
            "timestamp": "2026-01-02T03:04:05.000+00:00",
            "request_id": "0",
            "environment": "dev",
            "method": "GET",
            "path": "/a",
            "status": 200,
            "duration_ms": 1.5,
            "bytes_in": 0,
            "bytes_out": 7,
        }
    ]
    assert kept.batches == []


async def test_batches_have_a_limit_and_keep_the_order() -> None:
    log, kept = CallQueue(), RecordingStore()
    for number in range(BATCH_RECORDS + BATCH_MULTIPLE):
        log.record(exchange(number))
    await wait_until_written(log, kept)
    await log.close()
    assert [len(batch) for batch in kept.batches] == [BATCH_RECORDS, BATCH_MULTIPLE]
    assert kept.ids == [str(number) for number in range(BATCH_RECORDS + BATCH_MULTIPLE)]


async def test_rows_beyond_full_batches_wait_for_the_next_write() -> None:
    log, kept = CallQueue(), RecordingStore()
    for number in range(2 * BATCH_MULTIPLE + 3):
        log.record(exchange(number))
    await wait_until_written(log, kept)
    assert [len(batch) for batch in kept.batches] == [2 * BATCH_MULTIPLE]
    await wait_until_written(log, kept)
    assert kept.ids == [str(number) for number in range(2 * BATCH_MULTIPLE + 3)]


async def test_rows_added_during_a_write_wait_for_the_next_write() -> None:
    """If a write also took rows that arrive during it, a store that is slow under load would get more and more small
    batches.
    """

    class BusyStore(RecordingStore):
        async def add_many(self, exchanges: Sequence[ExchangeRecord]) -> None:
            assert len(self.batches) < 3, "the queue writes without end"
            log.record(exchange(9))
            await super().add_many(exchanges)

    log, kept = CallQueue(), BusyStore()
    log.record(exchange(1))
    await wait_until_written(log, kept)
    assert kept.ids == ["1"]
    await wait_until_written(log, kept)
    assert kept.ids == ["1", "9"]


async def test_other_tasks_run_while_many_lines_are_written(lines: list[dict[str, Any]]) -> None:
    log, seen = CallQueue(), list[int]()

    async def record_progress() -> None:
        while len(lines) < 3 * LINES_PER_TURN:
            seen.append(len(lines))
            await asyncio.sleep(0)

    for number in range(3 * LINES_PER_TURN):
        log.record(exchange(number, connection_id=""))
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(log.close(), record_progress())
    assert {LINES_PER_TURN, 2 * LINES_PER_TURN} <= set(seen)
    assert [line["request_id"] for line in lines] == [str(number) for number in range(3 * LINES_PER_TURN)]


async def test_full_queue_drops_records_and_counts_them(lines: list[dict[str, Any]]) -> None:
    log = CallQueue(max_queued=2)
    for number in range(5):
        log.record(exchange(number, connection_id=""))
    await log.close()
    assert [line["request_id"] for line in lines] == ["0", "1"]
    assert log.dropped == 3


@pytest.mark.parametrize("trouble", [Unavailable("store_unavailable", "x", retry_after_s=1), ValueError("odd")])
async def test_records_are_written_after_the_store_recovers(trouble: Exception) -> None:
    log, kept = CallQueue(), RecordingStore()
    kept.down = trouble
    log.record(exchange(1))
    task = asyncio.create_task(log.write_to(kept, every_s=0))
    async with asyncio.timeout(PATIENCE_S):
        await kept.asked.wait()
    kept.down = None
    async with asyncio.timeout(PATIENCE_S):
        while not kept.batches:
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kept.ids == ["1"]


@pytest.mark.parametrize("fault", [Unavailable("store_unavailable", "x", retry_after_s=1), ValueError("unexpected")])
async def test_close_writes_the_rest_and_survives_a_failing_store(fault: Exception) -> None:
    log, kept = CallQueue(), RecordingStore()
    await wait_until_queue_is_empty(log, kept)
    log.record(exchange(1))
    await log.close()
    assert kept.ids == ["1"]
    log.record(exchange(2))
    kept.down = fault
    await log.close()
    assert kept.ids == ["1"]


async def test_close_during_a_batch_stores_nothing_twice() -> None:
    log, kept = CallQueue(), RecordingStore()
    kept.free = asyncio.Event()
    task = asyncio.create_task(log.write_to(kept, every_s=0))
    log.record(exchange(1))
    async with asyncio.timeout(PATIENCE_S):
        await kept.asked.wait()
    log.record(exchange(2))
    closing = asyncio.create_task(log.close())
    await asyncio.sleep(0)
    kept.free.set()
    await closing
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kept.ids == ["1", "2"]


async def wait_until_queue_is_empty(log: CallQueue, kept: RecordingStore) -> None:
    """Connect the log to its store."""
    task = asyncio.create_task(log.write_to(kept, every_s=60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_shutdown_waits_for_a_running_batch_and_writes_none_twice(lines: list[dict[str, Any]]) -> None:
    class SlowStore(RecordingStore):
        def __init__(self) -> None:
            super().__init__()
            self.go_on = asyncio.Event()

        async def add_many(self, exchanges: Sequence[ExchangeRecord]) -> None:
            await super().add_many(exchanges)
            await self.go_on.wait()

    log, kept = CallQueue(), SlowStore()
    for number in range(3):
        log.record(exchange(number))
    writing = asyncio.create_task(log.write_to(kept, every_s=0))
    async with asyncio.timeout(PATIENCE_S):
        await kept.asked.wait()
        closing = asyncio.create_task(log.close())
        await asyncio.sleep(0)
        kept.go_on.set()
        await closing
    writing.cancel()
    assert kept.ids == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("token_ms", "upstream_ms", "result"),
    [(None, None, {}), (0.0, 0.0, {"upstream_ms": 0.0}), (4.0049, 12.345, {"token_ms": 4.0, "upstream_ms": 12.35})],
)
def test_log_line_has_the_time_of_each_wait(
    token_ms: float | None, upstream_ms: float | None, result: dict[str, float]
) -> None:
    line = as_event(exchange()._replace(token_ms=token_ms, upstream_ms=upstream_ms))
    assert {name: value for name, value in line.items() if name in {"token_ms", "upstream_ms"}} == result


WHOLE_LINE = {
    "event": "exchange",
    "level": "info",
    "timestamp": "2026-11-20T12:00:00.000+00:00",
    "request_id": "r1",
    "environment": "dev",
    "integration": "tracker",
    "connection_id": "c\n1",
    "method": "GET",
    "host": "api.example.com",
    "path": '/a"b\\c\u2028é',
    "status": 502,
    "duration_ms": 12.5,
    "token_ms": 2.0,
    "upstream_ms": 1.23,
    "bytes_in": 3,
    "bytes_out": 700,
    "key_id": 7,
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "tool": 'get_"issue"',
    "dry_run": True,
    "error": "cut",
}
WHOLE_RECORD = ExchangeRecord(
    at=datetime(2026, 11, 20, 12, tzinfo=UTC),
    request_id="r1",
    environment="dev",
    integration_id="tracker",
    connection_id="c\n1",
    method="GET",
    host="api.example.com",
    path='/a"b\\c\u2028é',
    status=502,
    duration_ms=12.5,
    bytes_in=3,
    bytes_out=700,
    error_code="cut",
    tool='get_"issue"',
    dry_run=True,
    gateway_ms=0.1,
    token_ms=2.0,
    upstream_ms=1.23456,
    key_id=7,
    traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
)


@pytest.mark.parametrize(
    ("changes", "left_out"),
    [
        ({}, set[str]()),
        (
            {"connection_id": "", "integration_id": "", "environment": "", "host": "", "path": ""},
            {"connection_id", "integration", "environment", "host", "path"},
        ),
        ({"error_code": None, "token_ms": 0.0, "upstream_ms": None}, {"error", "token_ms", "upstream_ms"}),
        ({"key_id": None, "traceparent": "no trace"}, {"key_id", "trace_id"}),
        ({"tool": None, "dry_run": False}, {"tool", "dry_run"}),
    ],
)
def test_a_line_has_its_members_in_order_without_unknown_ones(changes: dict[str, Any], left_out: set[str]) -> None:
    line = as_line(WHOLE_RECORD._replace(**changes))
    assert list(json.loads(line).items()) == [(k, v) for k, v in WHOLE_LINE.items() if k not in left_out]
    assert "\n" not in line


def test_a_terminal_shows_the_members_of_the_line() -> None:
    assert as_event(WHOLE_RECORD) == WHOLE_LINE


def test_the_docs_list_the_members_of_a_line() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    table = page.partition("| member of a line |")[2].partition("\n\n")[0]
    listed = [name for row in table.splitlines()[2:] for name in re.findall(r"`([a-z_]+)`", row.split("|")[1])]
    assert listed == list(WHOLE_LINE)


def test_the_docs_state_the_size_of_the_queue() -> None:
    queued, extra = f"up to {MAX_QUEUED:,} in each worker", f"{MAX_EXTRA_FAILURES:,} more"
    for page in ("operations.md", "call-log.md"):
        text = " ".join((Path(__file__).parents[3] / "docs" / page).read_text().split())
        assert queued in text, page
        assert extra in text, page


async def test_rows_are_not_queued_if_the_call_log_is_off(lines: list[dict[str, Any]]) -> None:
    log, kept = CallQueue(stores_calls=False), RecordingStore()
    writing = asyncio.create_task(log.write_to(kept, every_s=0))
    log.record(exchange(1))
    log.stores_calls = True
    log.record(exchange(2))
    await asyncio.wait_for(kept.asked.wait(), PATIENCE_S)
    writing.cancel()
    await log.close()
    assert kept.ids == ["2"]
    assert [line["request_id"] for line in lines] == ["1", "2"]


# ── Counts of the use of credentials.


class UseCountStore:
    """A store that accepts counts, unless it is `away`."""

    def __init__(self) -> None:
        self.got: list[CredentialUseCount] = []
        self.away = False

    async def add_many(self, counts: Sequence[CredentialUseCount]) -> None:
        if self.away:
            raise Unavailable("store_unavailable", "away")
        self.got += counts


def sent_exchange(**fields: Any) -> ExchangeRecord:
    """Return the record of a proxied call that reached its provider."""
    return exchange()._replace(gateway_ms=0.1, **fields)


async def test_unstored_use_counts_are_added_to_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 1, 2, 3, 59, 59, tzinfo=UTC)
    monkeypatch.setattr(clock, "now", lambda: now)
    queue, uses = CallQueue(max_queued=1), UseCountStore()
    writing = asyncio.create_task(queue.write_to(RecordingStore(), 3600, uses=uses))
    await asyncio.sleep(0)
    for _ in range(3):  # the queue drops two of the records, but no count
        queue.record(sent_exchange(key_id=7))
    uses.away = True
    await queue.flush()
    now += timedelta(seconds=2)
    await queue.flush()
    queue.record(sent_exchange(key_id=7, status=502))
    queue.record(sent_exchange(key_id=None))
    queue.record(sent_exchange(key_id=7, attempts=0))  # nothing was sent
    uses.away = False
    await queue.flush()
    assert [(item.hour.hour, item.use.key_id, item.calls, item.failed) for item in uses.got] == [
        (3, 7, 3, 0),
        (4, 7, 1, 1),
        (4, 0, 1, 0),
    ]
    await queue.flush()
    assert len(uses.got) == 3
    writing.cancel()


async def test_full_queue_still_accepts_failures_and_other_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_queue, "MAX_EXTRA_FAILURES", 3)
    log, kept = CallQueue(max_queued=2), RecordingStore()
    for number in range(4):
        log.record(exchange(number))
    log.record(exchange(4)._replace(status=502))
    log.record(exchange(5)._replace(status=502, error_code="upstream_timeout"))
    log.record_operation(Operation("refresh", datetime.now(UTC), "6", "dev"))
    log.record(exchange(7)._replace(status=403))  # failures are limited too
    writing = asyncio.create_task(log.write_to(kept, 3600))
    await asyncio.sleep(0)
    await log.flush()
    writing.cancel()
    assert kept.ids == ["0", "1", "4", "5", "6"]
    assert log.dropped == 2 + 1 + 5  # rows, and the lines of all calls except the first two


async def test_at_12_000_calls_a_second_the_log_stays_within_its_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[dict[str, Any]]
) -> None:
    """Ten seconds of synthetic calls, into the real file, which blocks during five of them. No real time passes."""
    a_second, bound = 12_000, 8 << 20
    stored = SqliteCallLog(tmp_path / "gateway.calls.db", CallLogBounds(max_bytes=bound + WAL_BYTES))
    queue = CallQueue()
    writing = asyncio.create_task(queue.write_to(stored, 3600))
    await asyncio.sleep(0)
    failed = list[str]()
    most = 0
    for second in range(10):
        for number in range(a_second):
            item = exchange(second * a_second + number)._replace(at=datetime.now(UTC))
            if number % 100 == 0:
                item = item._replace(status=502, error_code="upstream_timeout")
                failed.append(item.request_id)
            queue.record(item)
        most = max(most, queue.waiting)
        if not 2 <= second < 7:
            await queue.flush()
    assert most <= MAX_QUEUED + MAX_EXTRA_FAILURES
    assert (tmp_path / "gateway.calls.db").stat().st_size <= bound * 1.1
    page = await stored.find(OperationFilter("dev", error_codes=single_or_any_set("upstream_timeout"), limit=1000))
    found = [operation.operation.request_id for operation in page.operations][::-1]
    assert found == failed[-len(found) :]  # the newest failures that the size limit kept, without gaps
    assert len(found) > 500
    writing.cancel()
    await stored.close()
