"""The journal's files: appended records are read back, up to the first incomplete record."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.journal.segment import BEGUN, RELEASED, REPLY, Segment, is_dead, records

OTHER = """
import os, sys
from pathlib import Path
from gateway.journal.segment import REPLY, Segment
Segment(Path(sys.argv[1]), "other").append(REPLY, b"left")
os.kill(os.getpid(), 9)
"""


def test_records_are_read_back_from_the_file_of_a_dead_process(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", OTHER, str(tmp_path)], check=False, timeout=60)
    (path,) = tmp_path.iterdir()
    assert is_dead(path)
    assert list(records(path)) == [(REPLY, b"left")]
    assert path.stat().st_mode & 0o777 == 0o600


def test_journal_works_without_fdatasync_and_fallocate(tmp_path: Path) -> None:
    """For example macOS, on which people try the gateway first."""
    code = "import os\ndel os.fdatasync, os.posix_fallocate\n" + OTHER
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)
    (path,) = tmp_path.iterdir()
    assert list(records(path)) == [(REPLY, b"left")]


def test_running_process_is_not_considered_dead(tmp_path: Path) -> None:
    segment = Segment(tmp_path, "one")
    assert not is_dead(segment.path)
    segment.close(remove=False)
    assert is_dead(segment.path)
    assert not is_dead(tmp_path / "none")


def test_space_is_allocated_when_the_file_is_created(tmp_path: Path) -> None:
    segment = Segment(tmp_path, "one", size=1 << 20)
    assert segment.path.stat().st_blocks * 512 >= 1 << 20
    segment.append(BEGUN, b"x" * 1000)
    assert segment.path.stat().st_size == 1 << 20
    segment.close(remove=True)
    assert list(tmp_path.iterdir()) == []


def test_append_to_a_full_file_fails_and_keeps_its_records(tmp_path: Path) -> None:
    segment = Segment(tmp_path, "one", size=100)
    segment.append(BEGUN, b"x" * 50)
    with pytest.raises(OSError, match="No space"):
        segment.append(BEGUN, b"x" * 50)
    assert list(records(segment.path)) == [(BEGUN, b"x" * 50)]


@pytest.mark.parametrize("position", range(0, 30, 3))
def test_reading_ends_at_a_damaged_record_wherever_it_is_damaged(tmp_path: Path, position: int) -> None:
    segment = Segment(tmp_path, "one", size=4096)
    segment.append(BEGUN, b"first")
    start = segment.next_offset
    segment.append(REPLY, b"the second one of them")
    segment.append(RELEASED, b"third")
    raw = bytearray(segment.path.read_bytes())
    raw[start + position] ^= 1
    segment.path.write_bytes(bytes(raw))
    assert list(records(segment.path)) == [(BEGUN, b"first")]


def test_reading_ends_where_the_file_was_cut_off(tmp_path: Path) -> None:
    segment = Segment(tmp_path, "one", size=4096)
    segment.append(BEGUN, b"first")
    segment.append(REPLY, b"second")
    os.truncate(segment.path, segment.next_offset - 1)
    assert list(records(segment.path)) == [(BEGUN, b"first")]


def test_failed_creation_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            Segment(tmp_path, "one")
    assert list(tmp_path.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before
