"""Entry points of a group, with as little as possible loaded for them."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from gateway.startup.entry_points import entry_points

OFFER = "[tests.shapes]\nround = shapes:Round\n"
METADATA = "Metadata-Version: 2.1\nName: shapes\nVersion: 1\n"


def names(group: str) -> list[str]:
    return [point.name for point in entry_points(group=group)]


@pytest.mark.parametrize("kind", ["shapes-1.dist-info", "shapes.egg-info"])
def test_what_an_installed_package_offers_is_found(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / kind).mkdir()
    (tmp_path / kind / "METADATA").write_text(METADATA)
    (tmp_path / kind / "entry_points.txt").write_text(OFFER)
    assert names("tests.shapes") == []
    monkeypatch.syspath_prepend(str(tmp_path))
    assert names("tests.shapes") == ["round"]


def test_what_an_archive_offers_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ZipFile(tmp_path / "shapes.zip", "w") as archive:
        archive.writestr("shapes-1.dist-info/METADATA", METADATA)
        archive.writestr("shapes-1.dist-info/entry_points.txt", OFFER)
    monkeypatch.syspath_prepend(str(tmp_path / "shapes.zip"))
    assert names("tests.shapes") == ["round"]


def test_what_a_finder_of_somebody_elses_offers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import Distribution, DistributionFinder

    class Made(Distribution):
        def read_text(self, filename: str) -> str | None:
            return {"METADATA": METADATA, "entry_points.txt": OFFER}.get(filename)

        def locate_file(self, path: object) -> Path:
            return Path(str(path))

    class Finder(DistributionFinder):
        def find_spec(self, *_args: object, **_more: object) -> None:
            return None

        def find_distributions(self, context: object = None) -> list[Distribution]:
            return [Made()]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert names("tests.shapes") == ["round"]


def test_where_nobody_offers_anything_nothing_is_loaded() -> None:
    code = (
        "import sys; from gateway.startup.entry_points import entry_points; "
        "print(list(entry_points(group='tests.nobody')), 'importlib.metadata' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout.strip(), ran.stderr) == ("[] False", "")
