"""The demo's folder: created once, private, kept over restarts, used by one demo at a time."""

import stat
from pathlib import Path

import pytest
import yaml

from gateway import resources
from gateway.cli.demo import DemoFailed
from gateway.cli.demo.demo_folder import DemoFolder


@pytest.fixture
def folder(tmp_path: Path) -> DemoFolder:
    return DemoFolder(tmp_path / "state")


def test_a_new_folder_has_keys_and_a_configuration_that_only_their_owner_reads(folder: DemoFolder) -> None:
    with folder.lock():
        pass
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    for name in ("encryption_key", "secret_key", "sandbox_client_secret", "gateway.yaml"):
        assert stat.S_IMODE((folder.path / name).stat().st_mode) == 0o600, name
    configuration = yaml.safe_load(folder.configuration.read_text())
    assert configuration["server"]["port"] == "${file:port}"
    assert configuration["egress"]["allow"] == ["127.0.0.1/32:${file:sandbox_port}"]
    assert configuration["environments"]["dev"]["secret_keys"] == ["${file:secret_key}"]
    assert len(folder.secret_key().reveal()) >= 16


def test_a_second_start_changes_nothing_that_an_operator_may_have_edited(folder: DemoFolder) -> None:
    with folder.lock():
        folder.configuration.write_text("edited: true\n")
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    with folder.lock():
        pass
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_two_demos_do_not_share_a_folder(folder: DemoFolder) -> None:
    with folder.lock(), pytest.raises(DemoFailed, match=r"the demo of .* already runs; .* --state"), folder.lock():
        raise AssertionError("two demos use the same folder")
    with folder.lock():
        folder.write_url("http://127.0.0.1:3003")
        with (
            pytest.raises(DemoFailed, match=r"already runs on http://127.0.0.1:3003; end it with Ctrl-C"),
            folder.lock(),
        ):
            raise AssertionError("two demos use the same folder")


def test_no_new_key_is_made_for_a_database_whose_key_is_missing(folder: DemoFolder) -> None:
    with folder.lock():
        (folder.path / "gateway.db").write_bytes(b"sealed")
        (folder.path / "encryption_key").unlink()
    with pytest.raises(DemoFailed, match="encryption_key is missing"), folder.lock():
        raise AssertionError("a database without its key was accepted")
    assert not (folder.path / "encryption_key").exists()


def test_a_folder_that_cannot_be_made_is_reported_with_the_flag(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DemoFailed, match="--state"), DemoFolder(tmp_path / "file" / "state").lock():
        raise AssertionError("a folder that cannot be created was accepted")


def test_the_sandbox_entry_is_the_shipped_one_with_the_present_url(
    folder: DemoFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = "# why\ntoken_url: http://127.0.0.1:3004/oauth/token\nproxy:\n  base_url: http://127.0.0.1:3004\n"
    (tmp_path / "sandbox.yaml").write_text(shipped)
    monkeypatch.setattr(resources, "folder", lambda _name: tmp_path)
    with folder.lock():
        for port in (4011, 4012):
            folder.point_catalog_at(f"http://127.0.0.1:{port}")
    written = (folder.path / "catalog" / "sandbox.yaml").read_text()
    assert written.endswith(shipped.replace("3004", "4012"))
    assert [path.name for path in (folder.path / "catalog").iterdir()] == ["sandbox.yaml"]
