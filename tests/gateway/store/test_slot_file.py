import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.store.slot_file import ROOM, SLOT_BYTES, SlotFile, all_files, is_dead, records, unfinished_files

OTHER = """
import os, sys
from pathlib import Path
from gateway.store.slot_file import SlotFile
file = SlotFile(Path(sys.argv[1]))
WRITE
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("write", ['file.write(file.taken(4), b"left")', 'file.jotted(b"left")'])
def test_records_are_read_back_from_the_file_of_a_dead_process(write: str, tmp_path: Path) -> None:
    place = tmp_path / "pairs"
    subprocess.run([sys.executable, "-c", OTHER.replace("WRITE", write), str(place)], check=False, timeout=60)
    (path,) = all_files(place)
    assert is_dead(path)
    assert list(records(path)) == [b"left"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_living_are_not_taken_for_dead(tmp_path: Path) -> None:
    file = SlotFile(tmp_path / "pairs")
    assert not is_dead(file.path)
    file.close()
    assert all_files(tmp_path / "pairs") == []


def test_what_is_still_needed_stays_when_the_file_is_closed(tmp_path: Path) -> None:
    file = SlotFile(tmp_path / "pairs")
    kept, gone = file.taken(3), file.taken(3)
    file.write(kept, b"one")
    file.write(gone, b"two")
    file.give_back(gone)
    file.close()
    assert sorted(records(file.path)) == [b"one", b"two"], "a record is gone only when it is written over"
    assert is_dead(file.path)


def test_room_is_used_again_and_long_records_have_room_of_their_own(tmp_path: Path) -> None:
    file = SlotFile(tmp_path / "pairs")
    for turn in range(100):
        room = file.taken(10)
        file.write(room, f"record {turn:3}".encode())
        file.give_back(room)
    many = [file.taken(10) for _ in range(20)]
    assert len({room.start for room in many}) == 20
    long = os.urandom(3 * SLOT_BYTES)
    room = file.taken(len(long))
    assert len(room) == 4
    assert not set(room) & {slot for one in many for slot in one}
    file.write(room, long)
    assert long in list(records(file.path))
    file.give_back(room)
    assert {file.taken(10).start for _ in range(4)} <= set(room) | set(range(100))


def test_what_was_cut_off_or_spoiled_yields_nothing_but_itself(tmp_path: Path) -> None:
    file = SlotFile(tmp_path / "pairs")
    rooms = [file.taken(5) for _ in range(3)]
    for number, room in enumerate(rooms):
        file.write(room, f"good{number}".encode())
    with file.path.open("r+b") as raw:
        raw.seek(rooms[1].start * SLOT_BYTES)
        raw.write(b"\xff" * 6)
    assert sorted(records(file.path)) == [b"good0", b"good2"]
    os.truncate(file.path, max(room.start for room in rooms) * SLOT_BYTES + 3)
    assert len(list(records(file.path))) <= 2


def test_what_has_no_room_just_now_is_not_jotted_down(tmp_path: Path) -> None:
    file = SlotFile(tmp_path / "pairs")
    rooms = [file.jotted(b"x") for _ in range(ROOM)]
    assert len({room.start for room in rooms if room is not None}) == ROOM
    assert file.jotted(b"x") is None, "it would have to grow, which takes its time"
    file.noted(b"y")
    assert file.jotted(os.urandom(SLOT_BYTES)) is None, "it is too long"
    room = file.jotted(b"x")
    assert room is not None
    with file._choosing:
        assert file.jotted(b"x") is None, "another is at it"
    file.give_back(room)
    file.close()
    assert all_files(tmp_path / "pairs") == [file.path], "the others are still needed"


def test_where_it_cannot_be_made_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwrite", lambda _fd, content, _at: len(content) // 2)  # as on a disk that fills up
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            SlotFile(tmp_path / "pairs")
    assert list(tmp_path.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_record_that_is_written_half_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SlotFile(tmp_path / "pairs")
    monkeypatch.setattr(os, "pwrite", lambda _fd, content, _at: len(content) - 1)
    assert file.jotted(b"one") is None
    with pytest.raises(OSError, match="No space"):
        file.noted(b"one")
    file.close()
    assert all_files(tmp_path / "pairs") == [], "no room of it is taken"


def test_what_a_process_left_that_was_killed_while_it_made_its_file_is_found_later(tmp_path: Path) -> None:
    place = tmp_path / "pa[i]rs"
    place.with_name("pa[i]rs.0123.new").touch()
    now = time.time()
    assert (unfinished_files(place, now), len(unfinished_files(place, now + 3600))) == ([], 1)
    file = SlotFile(place)
    assert (all_files(place), file.lost) == ([file.path], False)
    file.path.unlink()
    assert file.lost
    file.close()


def test_a_system_without_fdatasync_has_another_way(tmp_path: Path) -> None:
    """As macOS, where people try things first."""
    code = "import os, sys; del os.fdatasync; " + OTHER.replace("WRITE", 'file.noted(b"left")').replace(
        "import os, sys\n", ""
    )
    subprocess.run([sys.executable, "-c", code.lstrip(), str(tmp_path / "pairs")], check=False, timeout=60)
    (path,) = all_files(tmp_path / "pairs")
    assert list(records(path)) == [b"left"]
