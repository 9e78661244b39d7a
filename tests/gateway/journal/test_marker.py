"""A process's marker file shows other processes on the machine whether it is alive."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from gateway.journal import ProcessMarker
from gateway.journal.marker import is_alive

OTHER = """
import asyncio, os, sys
from pathlib import Path
from gateway.journal import ProcessMarker
print(asyncio.run(ProcessMarker(Path(sys.argv[1])).name()), flush=True)
os.kill(os.getpid(), 9)
"""


async def test_process_counts_as_alive_until_it_is_killed(tmp_path: Path) -> None:
    marker = ProcessMarker(tmp_path / "journal")
    assert is_alive(tmp_path / "journal", await marker.name())
    command = [sys.executable, "-c", OTHER, str(tmp_path / "journal")]
    dead = await asyncio.to_thread(subprocess.run, command, stdout=subprocess.PIPE, timeout=60)
    assert is_alive(tmp_path / "journal", dead.stdout.decode().strip()) is False
    marker.close()


async def test_concurrent_attempts_share_one_marker(tmp_path: Path) -> None:
    marker = ProcessMarker(tmp_path)
    assert len(set(await asyncio.gather(*(marker.name() for _ in range(20))))) == 1
    assert len(list(tmp_path.iterdir())) == 1
    marker.close()
    assert list(tmp_path.iterdir()) == []


async def test_removed_marker_is_created_again(tmp_path: Path) -> None:
    marker = ProcessMarker(tmp_path)
    first = await marker.name()
    (tmp_path / f"{first}.process").unlink()
    assert await marker.name() != first
    marker.close()


async def test_missing_marker_means_that_it_is_unknown_whether_the_process_lives(tmp_path: Path) -> None:
    assert is_alive(tmp_path, "elsewhere") is None


async def test_missing_folder_means_no_marker_and_is_logged_once(tmp_path: Path) -> None:
    marker = ProcessMarker(tmp_path / "not" / "there")
    with structlog.testing.capture_logs() as logged:
        assert [await marker.name(), await marker.name()] == ["", ""]
    assert [event["event"] for event in logged] == ["refresh_journal_unwritable"]


@pytest.mark.parametrize("twice", [False, True])
async def test_close_without_a_marker_does_nothing(tmp_path: Path, twice: bool) -> None:
    marker = ProcessMarker(tmp_path)
    for _ in range(1 + twice):
        marker.close()
    assert list(tmp_path.iterdir()) == []
