"""The writer: each call of an attempt stays recorded until it is released, and files without open records are
deleted."""

import asyncio
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog
from multidict import CIMultiDict

from gateway.journal import Entry, JournalWriter, new_key, open_reply
from gateway.journal.reader import unfinished_files
from gateway.journal.segment import SEGMENT_BYTES
from gateway.journal.writer import RESERVED_BYTES
from gateway.records.provider_call import ProviderCall, Reply
from tests.fakes.journal import left
from tests.fakes.patience import PATIENCE_S

CALL = ProviderCall("https://a.example/token", {}, b"refresh_token=old")
AT = datetime(2026, 1, 2, tzinfo=UTC)


def entry(folder: Path, attempt: str = "a1") -> Entry:
    about = {"ref": ["dev", "tracker", "c1"], "row": "u1", "version": 1, "attempt": attempt, "key": "00"}
    return Entry(folder, attempt, about, new_key())


def reply(body: bytes = b"fresh") -> Reply:
    return Reply(200, CIMultiDict([("Set-Cookie", "a"), ("Set-Cookie", "b")]), body, AT)


async def record_call(writer: JournalWriter, first_entry: Entry, step: int = 0, body: bytes = b"fresh") -> None:
    recorded_call = await writer.begin(first_entry, step)
    assert recorded_call is not None
    assert await writer.reply(first_entry, step, recorded_call, CALL, reply(body))


async def wait_until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_call_is_recorded_as_begun_then_with_its_reply_sealed(tmp_path: Path) -> None:
    writer, item = JournalWriter(tmp_path), entry(tmp_path)
    recorded_call = await writer.begin(item, 0)
    assert recorded_call is not None
    assert [sealed for _, sealed in left(tmp_path)] == [b""]
    assert await writer.reply(item, 0, recorded_call, CALL, reply())
    ((about, sealed),) = left(tmp_path)
    found = open_reply(item.key, about, sealed)
    assert found is not None
    assert (found.reply, found.call, found.attempt, found.step) == (reply(), "POST https://a.example/token", "a1", 0)
    assert b"fresh" not in recorded_call.path.read_bytes()
    assert open_reply(new_key(), about, sealed) is None
    assert open_reply(item.key, {**about, "version": 2}, sealed) is None
    await writer.close()
    assert len(left(tmp_path)) == 1, "the record stays, because nobody has released it"


async def test_released_record_is_not_found_and_close_removes_its_file(tmp_path: Path) -> None:
    writer, one, other = JournalWriter(tmp_path), entry(tmp_path), entry(tmp_path, "a2")
    await record_call(writer, one, 0)
    await record_call(writer, one, 1)
    await record_call(writer, other)
    writer.release("a1")
    assert [about["attempt"] for about, _ in left(tmp_path)] == ["a2"]
    writer.release("a2")
    writer.release("unknown")
    assert left(tmp_path) == []
    await writer.close()
    assert list(tmp_path.iterdir()) == []


async def test_releasing_one_call_keeps_the_other_calls_of_its_attempt(tmp_path: Path) -> None:
    writer, item = JournalWriter(tmp_path), entry(tmp_path)
    await record_call(writer, item, 0)
    recorded_call = await writer.begin(item, 1)
    assert recorded_call is not None
    writer.release_call(item, 1, recorded_call)
    assert [about["step"] for about, _ in left(tmp_path)] == [0]
    assert recorded_call.reserved == 0
    await writer.close()


async def test_full_file_is_removed_after_its_last_release(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    first = entry(tmp_path, "first")
    await record_call(writer, first)
    number = 0
    while len(list(tmp_path.glob("*.journal"))) < 2:
        number += 1
        await record_call(writer, entry(tmp_path, f"a{number}"), body=os.urandom(RESERVED_BYTES // 2))
        writer.release(f"a{number}")
    assert number > SEGMENT_BYTES / RESERVED_BYTES
    assert [about["attempt"] for about, _ in left(tmp_path)] == ["first"]
    writer.release("first")
    assert len(list(tmp_path.glob("*.journal"))) == 1
    await writer.close()
    assert list(tmp_path.iterdir()) == []


async def test_file_that_cannot_be_removed_does_not_fail_the_release_of_its_last_record(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    writer = JournalWriter(folder)
    await record_call(writer, entry(folder, "first"))
    number = 0
    while len(list(folder.glob("*.journal"))) < 2:
        number += 1
        await record_call(writer, entry(folder, f"a{number}"), body=os.urandom(RESERVED_BYTES // 2))
        writer.release(f"a{number}")
    folder.rename(tmp_path / "moved")
    folder.write_text("a file, so that no path below it can be removed")
    writer.release("first")
    await writer.close()
    assert len(list((tmp_path / "moved").glob("*.journal"))) == 2, "the recovery removes them later"


async def test_call_is_not_recorded_but_sent_if_a_full_file_cannot_be_removed(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    writer = JournalWriter(folder)
    assert await writer.ready()
    folder.rename(tmp_path / "moved")
    folder.write_text("a file, so that no path below it can be removed")
    segments = list[Any]()
    while (begun := await writer.begin(entry(folder, f"a{len(segments)}"), 0)) is not None:
        segments.append(begun)
        writer.release_call(entry(folder, f"a{len(segments) - 1}"), 0, begun)
    assert segments
    assert writer.fault is not None
    await writer.close()


async def test_reply_longer_than_its_reservation_is_recorded(tmp_path: Path) -> None:
    writer, body = JournalWriter(tmp_path), os.urandom(3 << 20)
    others = [await writer.begin(entry(tmp_path, f"o{n}"), 0) for n in range(100)]
    one = entry(tmp_path)
    await record_call(writer, one, body=body)
    ((about, sealed),) = [found for found in left(tmp_path) if found[0]["attempt"] == "a1"]
    found = open_reply(one.key, about, sealed)
    assert found is not None
    assert found.reply.body == body
    assert all(other is not None and other.reserved for other in others)
    writer.release("a1")
    assert "a1" not in {about["attempt"] for about, _ in left(tmp_path)}
    await writer.close()


async def test_calls_that_begin_together_share_one_file(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    await asyncio.gather(*(record_call(writer, entry(tmp_path, f"a{n}")) for n in range(20)))
    assert len(list(tmp_path.iterdir())) == 1
    assert len(left(tmp_path)) == 20
    await writer.close()


async def test_reply_is_synced_unless_released_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = list[int]()
    monkeypatch.setattr("gateway.journal.segment.sync_data", syncs.append)
    monkeypatch.setattr("gateway.journal.writer.SYNC_AFTER_S", 0.01)
    writer = JournalWriter(tmp_path)
    await record_call(writer, entry(tmp_path, "stored"))
    writer.release("stored")
    await asyncio.sleep(0.05)
    assert syncs == []
    await record_call(writer, entry(tmp_path, "open"))
    await wait_until(lambda: len(syncs) == 1)
    await writer.close()


async def test_removed_file_is_replaced(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    await record_call(writer, entry(tmp_path))
    for path in tmp_path.iterdir():
        path.unlink()
    with structlog.testing.capture_logs() as logged:
        await record_call(writer, entry(tmp_path, "a2"))
    assert [event["event"] for event in logged] == ["refresh_journal_file_removed"]
    assert len(left(tmp_path)) == 1
    await writer.close()


async def test_unwritable_folder_is_a_fault_until_it_is_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.journal.writer.RETRY_S", 0.0)
    folder = tmp_path / "not" / "there"
    writer, item = JournalWriter(folder), entry(folder)
    with structlog.testing.capture_logs() as logged:
        assert await writer.begin(item, 0) is None
    ((event, level),) = [(each["event"], each["log_level"]) for each in logged]
    assert (event, level) == ("refresh_journal_unwritable", "error")
    assert writer.fault is not None
    assert "No such file" in writer.fault
    folder.parent.mkdir()
    assert await writer.ready()
    assert writer.fault is None
    await record_call(writer, item)
    await writer.close()


async def test_failing_journal_write_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, item = JournalWriter(tmp_path), entry(tmp_path)
    recorded_call = await writer.begin(item, 0)
    assert recorded_call is not None

    def failed(*_: Any) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pwrite", failed)
    assert not await writer.reply(item, 0, recorded_call, CALL, reply())
    assert writer.fault is not None
    assert "Input/output error" in writer.fault
    monkeypatch.undo()
    assert await writer.ready(), "the writer creates a file, and does not wait until a folder can be created"
    assert writer.fault is None
    await record_call(writer, entry(tmp_path, "a2"))
    assert len(list(tmp_path.glob("*.journal"))) == 2, "the first file keeps its open attempt"
    await writer.close()


async def test_failing_write_to_a_former_file_does_not_count_as_an_unwritable_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, one = JournalWriter(tmp_path), entry(tmp_path)
    recorded_call = await writer.begin(one, 0)
    assert recorded_call is not None
    while len(list(tmp_path.glob("*.journal"))) < 2:
        await record_call(writer, entry(tmp_path, "another"), body=os.urandom(RESERVED_BYTES))

    def failing(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(recorded_call, "append", failing)
    assert await writer.reply(one, 0, recorded_call, CALL, reply())
    assert writer.fault is None
    assert len([about for about, sealed in left(tmp_path) if sealed and about["attempt"] == "a1"]) == 1
    writer.release("another")
    await writer.close()


@pytest.mark.parametrize("harm", ["removed", "not writable"])
async def test_reply_whose_file_is_lost_is_recorded_in_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    writer, one = JournalWriter(tmp_path), entry(tmp_path)
    recorded_call = await writer.begin(one, 0)
    assert recorded_call is not None
    if harm == "removed":
        recorded_call.path.unlink()
    else:

        def failing(*_: Any) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(recorded_call, "append", failing)
    assert await writer.reply(one, 0, recorded_call, CALL, reply())
    assert writer.fault is None
    (found,) = [sealed for _, sealed in left(tmp_path) if sealed]
    assert found
    await writer.close()


async def test_a_file_that_cannot_be_synced_is_an_error_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("gateway.journal.segment.sync_data", failed)
    monkeypatch.setattr("gateway.journal.writer.SYNC_AFTER_S", 0.0)
    writer = JournalWriter(tmp_path)
    await record_call(writer, entry(tmp_path))
    await wait_until(lambda: writer.fault)
    monkeypatch.undo()
    assert await writer.ready()
    assert writer.fault is None
    assert len(left(tmp_path)) == 1
    await writer.close()


async def test_call_that_ends_after_the_close_is_written_to_no_other_file(tmp_path: Path) -> None:
    """A plugin's gateway can be closed during a token request, while the host's process goes on."""
    writer = JournalWriter(tmp_path / "journal")
    (tmp_path / "journal").mkdir()
    answered, refused = entry(tmp_path), entry(tmp_path, "a2")
    recorded_call, other_begun = await writer.begin(answered, 0), await writer.begin(refused, 0)
    assert recorded_call is not None
    assert other_begun is recorded_call
    await writer.close()
    with (tmp_path / "database").open("w+b") as database:  # gets the descriptor of the closed file, the lowest free one
        assert not await writer.reply(answered, 0, recorded_call, CALL, reply())
        writer.release_call(refused, 0, recorded_call)
        assert os.fstat(database.fileno()).st_size == 0


def test_unfinished_file_of_a_killed_process_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "x-refresh-journal"
    folder.mkdir()
    (folder / "0123-1.new").touch()
    (tmp_path / "x-pairs.0123.new").touch()
    now = time.time()
    assert list(unfinished_files(folder, now)) == []
    assert len(list(unfinished_files(folder, now + 3600))) == 2
