"""A large folder is parsed once, and again when anything it depends on changes."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gateway import documents
from gateway.catalog import compiled
from gateway.catalog import folder as folders
from gateway.catalog.load_catalog import load_catalog
from gateway.catalog.yaml_file import CatalogFaults
from tests.gateway.catalog.folders import MAIL, TRACKER, folder

COUNT = compiled.MIN_FILES


@pytest.fixture
def large_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    at = tmp_path / "catalog"
    at.mkdir()
    return folder(at, tracker=TRACKER, **{f"mail_{number}": MAIL for number in range(COUNT)})


@pytest.fixture
def parsed_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were parsed as YAML."""
    names: list[str] = []
    read = folders.read_yaml

    def counting(path: Path) -> object:
        names.append(path.name)
        return read(path)

    monkeypatch.setattr(folders, "read_yaml", counting)
    return names


def cache_file(large_folder: Path) -> Path:
    return large_folder / ".compiled.jsonl"


def test_second_start_loads_the_same_entries_without_parsing(large_folder: Path, parsed_files: list[str]) -> None:
    first = load_catalog([large_folder])
    assert len(parsed_files) == COUNT + 1
    parsed_files.clear()
    second = load_catalog([large_folder])
    assert parsed_files == []
    assert dict(second.providers) == dict(first.providers)
    assert second.file_and_line("mail-7", "docs").endswith("mail-7.yaml:3")


def test_changed_file_with_the_same_time_and_size_is_read_again(large_folder: Path, parsed_files: list[str]) -> None:
    load_catalog([large_folder])
    path = large_folder / "mail-7.yaml"
    before = path.stat()
    path.write_text(path.read_text().replace("Mail API", "Mail IPA"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert load_catalog([large_folder]).providers["mail-7"].display_name == "Mail IPA"


def test_added_and_removed_files_are_noticed(large_folder: Path) -> None:
    load_catalog([large_folder])
    (large_folder / "mail-7.yaml").rename(large_folder / "post.yaml")
    names = set(load_catalog([large_folder]).providers)
    assert "post" in names
    assert "mail-7" not in names


def test_a_fault_is_reported_at_every_start(large_folder: Path) -> None:
    (large_folder / "mail-7.yaml").write_text("auth_mode: API_KEY\n")
    for _ in range(2):
        with pytest.raises(CatalogFaults, match=r"mail-7\.yaml:1: display_name is missing"):
            load_catalog([large_folder])
    assert not cache_file(large_folder).exists()


def test_cache_is_not_used_by_a_process_that_lacks_a_mode_or_script_of_its_entries(
    large_folder: Path, parsed_files: list[str]
) -> None:
    load_catalog([large_folder])
    parsed_files.clear()
    load_catalog(
        [large_folder], scripts=["jira_post_connection", "jira_webhook_routing", "more"], modes=["API_KEY", "OAUTH2"]
    )
    assert parsed_files == []
    with pytest.raises(CatalogFaults, match="there is no script 'jira_post_connection'"):
        load_catalog([large_folder], scripts=[])
    with pytest.raises(CatalogFaults, match="there is no auth mode 'OAUTH2'"):
        load_catalog([large_folder], modes=["API_KEY"])


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"[]\n", b"null\nx", b"\xff\xfe", b'{"key": 1}\n'])
def test_damaged_cache_file_is_rebuilt(large_folder: Path, parsed_files: list[str], damage: bytes) -> None:
    whole = dict(load_catalog([large_folder]).providers)
    cache_file(large_folder).write_bytes(damage)
    parsed_files.clear()
    assert dict(load_catalog([large_folder]).providers) == whole
    assert len(parsed_files) == COUNT + 1
    parsed_files.clear()
    load_catalog([large_folder])
    assert parsed_files == []


def test_truncated_cache_file_is_rebuilt(large_folder: Path, parsed_files: list[str]) -> None:
    load_catalog([large_folder])
    cache_file(large_folder).write_bytes(cache_file(large_folder).read_bytes()[:-40])
    parsed_files.clear()
    assert len(load_catalog([large_folder]).providers) == COUNT + 1
    assert parsed_files


def test_cache_file_writable_by_others_is_not_used(large_folder: Path, parsed_files: list[str]) -> None:
    load_catalog([large_folder])
    assert cache_file(large_folder).stat().st_mode & 0o777 == 0o644
    cache_file(large_folder).chmod(0o666)
    parsed_files.clear()
    load_catalog([large_folder])
    assert len(parsed_files) == COUNT + 1


def test_cache_is_in_the_users_cache_folder_if_the_catalog_folder_is_read_only(
    large_folder: Path, parsed_files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkstemp

    def refuse_folder(**options: Any) -> tuple[int, str]:
        if options["dir"] == large_folder:
            raise PermissionError(13, "read-only")
        return make(**options)

    monkeypatch.setattr(tempfile, "mkstemp", refuse_folder)
    load_catalog([large_folder])
    assert not cache_file(large_folder).exists()
    assert len(list((large_folder.parent / "cache" / "integration-gateway").iterdir())) == 1
    parsed_files.clear()
    load_catalog([large_folder])
    assert parsed_files == []


def test_catalog_loads_without_a_writable_folder(large_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_write(place: Path, text: bytes) -> None:
        raise OSError(30, "read-only file system")

    monkeypatch.setattr(compiled, "_write", refuse_write)
    assert len(load_catalog([large_folder]).providers) == COUNT + 1
    assert list(large_folder.glob(".comp*")) == []


def test_small_folder_gets_no_cache_file(tmp_path: Path) -> None:
    load_catalog([folder(tmp_path, mail=MAIL)])
    assert [path.name for path in tmp_path.iterdir()] == ["mail.yaml"]


def test_cache_of_a_folder_is_rebuilt_when_an_earlier_folder_changes(
    large_folder: Path, tmp_path: Path, parsed_files: list[str]
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    folder(base, tracker=TRACKER)
    heirs = {f"heir_{number}": "alias: tracker\n" for number in range(COUNT)}
    at = tmp_path / "heirs"
    at.mkdir()
    folder(at, **heirs)
    load_catalog([base, at])
    (base / "tracker.yaml").write_text((base / "tracker.yaml").read_text().replace("Tracker", "Tracer"))
    assert load_catalog([base, at]).providers["heir-3"].display_name == "Tracer"


def test_other_yaml_parser_invalidates_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "read_document.py").write_text("MAX_DEPTH = 7")
    before = compiled.cache_key([], ())
    monkeypatch.setattr(documents, "__path__", [str(tmp_path)])
    compiled.code_digest.cache_clear()
    try:
        assert compiled.cache_key([], ()) != before
    finally:
        compiled.code_digest.cache_clear()
