"""The journal folder of nodes that share a database: one private folder per machine."""

import os
import stat
from pathlib import Path

import pytest

from gateway.journal.journal_folder import journal_of_node


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)


def folder(tmp_path: Path) -> Path:
    return tmp_path / f"integration-gateway-{os.geteuid()}"


def test_folder_depends_on_the_database(tmp_path: Path) -> None:
    journal = journal_of_node("a")
    assert journal is not None
    assert journal.parent == folder(tmp_path)
    assert (journal_of_node("a"), journal_of_node("b") == journal) == (journal, False)
    assert stat.S_IMODE(journal.parent.stat().st_mode) == 0o700


def test_state_directory_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", f"{tmp_path}/state:{tmp_path}/more")
    journal = journal_of_node("a")
    assert journal is not None
    assert journal.parent == folder(tmp_path / "state")


@pytest.mark.parametrize("how", ["open to others", "a link", "a file", "another's"])
def test_folder_of_another_user_is_not_used(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "open to others":
        folder(tmp_path).mkdir()
        folder(tmp_path).chmod(0o770)
    elif how == "a link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        folder(tmp_path).symlink_to(tmp_path / "theirs")
    elif how == "a file":
        folder(tmp_path).touch(mode=0o600)
    else:
        folder(tmp_path).mkdir(mode=0o700)
        theirs, ours = folder(tmp_path), os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: ours)
        theirs.rename(folder(tmp_path))
    assert journal_of_node("a") is None


def test_no_usable_folder_means_no_journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    assert journal_of_node("a") is None
