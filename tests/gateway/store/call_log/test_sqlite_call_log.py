"""The SQLite call log file: several writers, kills, a full disk, damage, and its size limit."""

import asyncio
import multiprocessing
import os
import sqlite3
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.errors import Unavailable
from gateway.records.operation import Operation, OperationFilter
from gateway.store.call_log import sqlite_call_log
from gateway.store.call_log.call_log_store import CallLogBounds
from gateway.store.call_log.sqlite_call_log import SqliteCallLog, call_log_beside


def operation(number: int, process: int = 0) -> Operation:
    return Operation(
        "call", datetime.now(UTC), f"p{process}-r{number}", "dev", "jira", f"u{number % 50}", path="/x" * 20
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return call_log_beside(tmp_path / "gateway.db")


async def ids(log: SqliteCallLog) -> list[str]:
    page = await log.find(OperationFilter("dev", limit=10**6))
    return [item.operation.request_id for item in page.operations]


async def test_only_the_owner_can_read_the_file(path: Path) -> None:
    log = SqliteCallLog(path)
    assert await ids(log) == []
    assert not path.exists()
    await log.add_many([operation(1)])
    await log.close()
    assert path.name == "gateway.calls.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def _write(path: Path, process: int, batches: int) -> None:
    log = SqliteCallLog(path)
    for batch in range(batches):
        await log.add_many([operation(number, process) for number in range(batch * 20, batch * 20 + 20)])
    await log.close()


def _writer(path: Path, process: int, batches: int) -> None:
    sqlite_call_log.SEGMENT_ROWS = 100  # type: ignore[misc]
    asyncio.run(_write(path, process, batches))


async def test_a_limit_counts_matching_rows_and_not_rows_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_call_log, "SEGMENT_ROWS", 300)
    monkeypatch.setattr("gateway.store.call_log.sqlite_search.FEW_SUBJECTS", 1)
    log = SqliteCallLog(path)
    for batch in range(4):
        rows = [operation(number)._replace(status=500) for number in range(batch * 300, batch * 300 + 300)]
        await log.add_many(rows)
    mine = frozenset({("jira", "u3"), ("jira", "u4")})
    wanted = [f"p0-r{number}" for number in range(1199, -1, -1) if number % 50 in (3, 4)]
    for case in ({}, {"status": (500, 599)}):
        page = await log.find(OperationFilter("dev", connections=mine, limit=5, **case))  # type: ignore[arg-type]
        assert [item.operation.request_id for item in page.operations] == wanted[:5], case
        assert page.more
        page = await log.find(OperationFilter("dev", connections=mine, limit=1000, **case))  # type: ignore[arg-type]
        assert [item.operation.request_id for item in page.operations] == wanted, case
    await log.close()


async def test_error_other_than_damage_does_not_move_the_file_aside(path: Path) -> None:
    log = SqliteCallLog(path)
    await log.add_many([operation(1)])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TRIGGER refuse BEFORE INSERT ON calls_1 BEGIN SELECT raise(ABORT, 'no'); END")
    with pytest.raises(Unavailable, match="cannot be used: no"):
        await log.add_many([operation(2)])
    other.execute("DROP TRIGGER refuse")
    other.close()
    await log.add_many([operation(3)])
    assert await ids(log) == ["p0-r3", "p0-r1"]
    assert not path.with_name("gateway.calls.db.damaged").exists()
    await log.close()


async def test_several_processes_write_one_log_and_nothing_is_lost(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_call_log, "SEGMENT_ROWS", 100)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_writer, args=(path, process, 25)) for process in (1, 2, 3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        await asyncio.to_thread(writer.join)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    log = SqliteCallLog(path)
    found = await ids(log)
    await log.close()
    assert sorted(found) == sorted(f"p{process}-r{number}" for process in (1, 2, 3) for number in range(500))
    for process in (1, 2, 3):
        mine = [item for item in found if item.startswith(f"p{process}-")]
        assert mine == [f"p{process}-r{number}" for number in range(499, -1, -1)]


async def test_the_file_stays_within_its_bound_and_does_not_grow(path: Path) -> None:
    bound = 4 << 20
    log = SqliteCallLog(path, CallLogBounds(max_bytes=bound + sqlite_call_log.WAL_BYTES))
    kept = []
    for batch in range(60):
        await log.add_many([operation(number) for number in range(batch * 2000, batch * 2000 + 2000)])
        kept.append(path.stat().st_size)
    newest = await ids(log)
    await log.close()
    assert max(kept) <= bound * 1.1
    assert newest[0] == "p0-r119999"
    assert len(newest) > 15_000  # most of the allowed space is used
    assert newest == [f"p0-r{number}" for number in range(119_999, 119_999 - len(newest), -1)]


async def test_disk_space_is_freed_when_the_limit_is_lowered(path: Path) -> None:
    log = SqliteCallLog(path)
    for batch in range(20):
        await log.add_many([operation(number) for number in range(batch * 2000, batch * 2000 + 2000)])
    large = path.stat().st_size
    log.bounds = CallLogBounds(keep_days=7, max_bytes=sqlite_call_log.WAL_BYTES + (1 << 20))
    await log.add_many([operation(1)])
    await log.add_many([operation(1)])
    await log.prune(datetime.now(UTC))
    await log.close()
    assert path.stat().st_size < large / 3


async def test_a_full_disk_stops_the_log_and_nothing_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = SqliteCallLog(path)
    await log.add_many([operation(1)])
    monkeypatch.setattr(sqlite_call_log, "RESERVE_BYTES", 1 << 60)
    with pytest.raises(Unavailable, match="MiB are free on its disk"):
        await log.add_many([operation(2)])
    monkeypatch.undo()
    await log.add_many([operation(3)])
    assert await ids(log) == ["p0-r3", "p0-r1"]
    await log.close()


async def test_a_damaged_file_is_renamed_and_logging_continues(path: Path) -> None:
    log = SqliteCallLog(path)
    await log.add_many([operation(1)])
    await log.close()
    path.write_bytes(os.urandom(20_000))
    log = SqliteCallLog(path)
    with pytest.raises(Unavailable, match="cannot be used"):
        await log.add_many([operation(2)])
    await log.add_many([operation(3)])
    assert await ids(log) == ["p0-r3"]
    await log.close()
    assert path.with_name("gateway.calls.db.damaged").stat().st_size == 20_000


async def test_a_locked_file_is_waited_for_and_then_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_call_log, "BUSY_S", 0.05)
    log = SqliteCallLog(path)
    await log.add_many([operation(1)])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        await log.add_many([operation(2)])
    assert await ids(log) == ["p0-r1"]  # readers do not wait
    other.execute("ROLLBACK")
    await log.add_many([operation(2)])
    assert await ids(log) == ["p0-r2", "p0-r1"]
    other.close()
    await log.close()
