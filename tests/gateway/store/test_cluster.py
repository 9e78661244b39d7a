"""Who holds a lease: the store finds the process by the owner's name and by the files on this machine."""

import fcntl
from pathlib import Path
from typing import Any

import pytest

from gateway.journal import ProcessMarker
from gateway.records.connection import Lease
from gateway.refresh.decision import Holder
from gateway.store.backend import NO_NODE_ID, NODE_ID_FILE, ONLY_NODE, node_id
from gateway.store.cluster import Holders
from tests.fakes.journal import slot_file
from tests.gateway.store.conftest import NOW


class Files:
    """Files that this process has locked."""

    def __init__(self, marker: ProcessMarker | None) -> None:
        self._marker = marker

    async def process_name(self) -> str | None:
        return await self._marker.name() if self._marker is not None else None


@pytest.fixture
def journal_folder(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db-refresh-journal"


def holders(journal_folder: Path | None, node: str, own: ProcessMarker | None = None) -> Holders:
    journal: Any = Files(own)
    return Holders(journal_folder, node, journal)


async def holder_of(known: Holders, owner: str) -> Holder:
    return await known.holder_of(Lease(owner, NOW))


async def test_an_owner_names_machine_process_and_attempt(journal_folder: Path) -> None:
    own = ProcessMarker(journal_folder)
    known = holders(journal_folder, "n1", own)
    one, other = await known.new_owner(), await known.new_owner()
    assert one != other
    assert one.split(".")[:2] == other.split(".")[:2] == ["n1", await own.name()]
    assert await holder_of(known, one) is Holder.HERE_ENDED
    own.close()


@pytest.mark.parametrize("former", [False, True])
async def test_a_local_process_counts_as_alive_while_its_marker_is_locked(journal_folder: Path, former: bool) -> None:
    marker, known = ProcessMarker(journal_folder), holders(journal_folder, "n1")
    name = await marker.name()
    owner = f"{name}.a" if former else f"n1.{name}.a"
    assert await holder_of(known, owner) is Holder.HERE_ALIVE
    marker.release()  # as the system does when it kills a process
    assert await holder_of(known, owner) is Holder.HERE_DEAD
    (journal_folder / f"{name}.process").unlink()
    assert await holder_of(known, owner) is (Holder.ELSEWHERE if former else Holder.HERE_ENDED)


async def test_a_process_of_a_release_before_the_journal_is_known_by_its_slot_file(journal_folder: Path) -> None:
    file = slot_file(journal_folder.with_name("gateway.db-pairs"), [])
    name = file.name.rpartition("-")[2]
    known = holders(journal_folder, "n1")
    with file.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert await holder_of(known, f"{name}.a") is Holder.HERE_ALIVE
    assert await holder_of(known, f"{name}.a") is Holder.HERE_DEAD


@pytest.mark.parametrize("owner", ["n2.ab12.x", "ab12.x", "killed", "", "../x.one", "n1.../x.one", "delete-1", ".one"])
async def test_unknown_owner_may_be_a_running_process_of_another_machine(journal_folder: Path, owner: str) -> None:
    assert await holder_of(holders(journal_folder, "n1"), owner) is Holder.ELSEWHERE
    assert await holder_of(holders(None, NO_NODE_ID), owner) is Holder.ELSEWHERE


async def test_owner_on_a_machine_without_a_journal_is_recognized_by_its_empty_name(journal_folder: Path) -> None:
    without = holders(None, NO_NODE_ID)
    owner = await without.new_owner()
    assert await holder_of(without, owner) is Holder.HERE_ENDED
    assert await holder_of(holders(None, NO_NODE_ID), owner) is Holder.WITHOUT_JOURNAL
    assert await holder_of(holders(journal_folder, "n1"), owner) is Holder.WITHOUT_JOURNAL
    assert await holders(journal_folder, "n1").holder_of(None) is Holder.NOBODY


@pytest.mark.parametrize("owner", ["killed", "ab12.x", "local.ab12.x"])
async def test_with_sqlite_every_owner_counts_as_a_process_of_this_machine(journal_folder: Path, owner: str) -> None:
    assert await holder_of(holders(journal_folder, ONLY_NODE), owner) is Holder.HERE_ENDED


def test_machine_name_is_stable(tmp_path: Path) -> None:
    name = node_id(tmp_path)
    assert name.isalnum()
    assert node_id(tmp_path) == name
    assert [path.name for path in tmp_path.iterdir()] == [NODE_ID_FILE]
    assert node_id(tmp_path / "nowhere") == NO_NODE_ID


@pytest.mark.parametrize("damaged", [b"", b"../x", b"\xff\xfe"])
def test_truncated_machine_name_is_replaced(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / NODE_ID_FILE).write_bytes(damaged)
    name = node_id(tmp_path)
    assert name.isalnum()
    assert node_id(tmp_path) == name
