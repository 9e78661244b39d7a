"""The gateway's error message for a database file with damaged pages, and the advice in the message."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.store.preflight_checks import StoreDamaged
from gateway.store.sqlite.file_preflight import check_file, quick_check
from gateway.vault import Keyring
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker

PAGE = 4096


def file_of(running: RunningGateway) -> Path:
    return running.folder / "gateway.db"


def overwrite_pages(path: Path, table: str) -> None:
    """Overwrite all pages of `table` that contain rows."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    db.close()
    content = bytearray(path.read_bytes())
    content[(root - 1) * PAGE : root * PAGE] = b"\x55" * PAGE
    path.write_bytes(content)


async def stop_with_connection(running: RunningGateway, tracker: Tracker) -> Path:
    await running.import_connection(tracker.grant())
    await running.stop()
    return file_of(running)


async def test_list_from_a_damaged_database_reports_the_damage_without_retry_after(
    running: RunningGateway, tracker: Tracker
) -> None:
    overwrite_pages(await stop_with_connection(running, tracker), "connections")
    await running.start()
    with capture_logs() as logged:
        for _ in range(3):
            async with running.http.get(f"{running.url}/connections", headers=running.headers) as response:
                body = (await response.json())["error"]
                assert (response.status, body["code"]) == (503, "store_unavailable")
                assert "Retry-After" not in response.headers
    assert "damaged" in body["message"]
    assert "gateway restore" in body["message"]
    assert "Retry in" not in body["message"]
    assert "retry_at" not in body.get("payload", {})
    (line,) = [event for event in logged if event["event"] == "database_damaged"]
    assert (line["log_level"], line["detail"]) == ("error", "database disk image is malformed")
    assert "restore a backup" in line["fix"]


async def test_ready_says_that_the_database_is_damaged(running: RunningGateway, tracker: Tracker) -> None:
    overwrite_pages(await stop_with_connection(running, tracker), "connections")
    await running.start()

    async def ready(query: str = "") -> tuple[int, Any]:
        async with running.http.get(f"{running.url}/ready{query}") as response:
            return response.status, await response.json()

    async with running.http.get(f"{running.url}/connections", headers=running.headers) as response:
        assert response.status == 503
    assert await ready() == (200, {"result": "ok", "store": "damaged"})
    assert await ready("?store=required") == (503, {"result": "not ready", "store": "damaged"})


async def test_the_check_finds_damaged_pages_and_nothing_in_a_sound_file(
    running: RunningGateway, tracker: Tracker
) -> None:
    assert quick_check(file_of(running), at_most_s=10), "the check also works while a gateway uses the file"
    path = await stop_with_connection(running, tracker)
    assert quick_check(path, at_most_s=10)
    assert not quick_check(path, at_most_s=-1)
    overwrite_pages(path, "connection_history")
    with pytest.raises(StoreDamaged, match=r"is damaged .* restore a backup with `gateway restore`"):
        quick_check(path, at_most_s=10)


@pytest.mark.parametrize(("first", "expected_text"), [(0, "or its first page is damaged"), (100, "is damaged")])
async def test_a_damaged_first_page_advises_to_restore(
    running: RunningGateway, tracker: Tracker, first: int, expected_text: str
) -> None:
    path = await stop_with_connection(running, tracker)
    content = bytearray(path.read_bytes())
    content[first : first + 16] = b"\x55" * 16
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match=rf"{expected_text}.*restore a backup with `gateway restore`"):
        check_file(path, Keyring([bytes(range(32))]))
