"""Modules that are imported on first use."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gateway.startup.imports import Deferred, lazy_imports, resolve_on_access

RARE = """
import times_loaded
times_loaded.LOADED.append(__name__)
from collections import OrderedDict as Kept
TABLE = {"amp": "&"}
class Shape:
    def __init__(self, sides=0): self.sides = sides
def twice(number): return number * 2
"""


@pytest.fixture
def imported_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The test modules that have been imported so far: `rare_one`, and `package.rare`."""
    counter: Any = ModuleType("times_loaded")
    counter.LOADED = []
    monkeypatch.setitem(sys.modules, "times_loaded", counter)
    (tmp_path / "rare_one.py").write_text(RARE)
    (tmp_path / "library.py").write_text("from rare_one import Shape, twice, TABLE\nOWN = 1\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "rare.py").write_text(RARE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield counter.LOADED
    for name in ("rare_one", "library", "package", "package.rare"):
        sys.modules.pop(name, None)


def test_already_imported_module_is_not_deferred(imported_modules: list[str]) -> None:
    import rare_one  # type: ignore[import-not-found]

    with lazy_imports("rare_one"):
        assert sys.modules["rare_one"] is rare_one
    assert (sys.modules["rare_one"] is rare_one, imported_modules) == (True, ["rare_one"])


def test_library_does_not_import_a_deferred_module(imported_modules: list[str]) -> None:
    with lazy_imports("rare_one"):
        import library  # type: ignore[import-not-found]
    assert imported_modules == []
    assert isinstance(library.Shape, Deferred)
    assert library.twice(3) == 6
    assert imported_modules == ["rare_one"]


def test_a_lazily_imported_name_behaves_like_the_real_one(imported_modules: list[str]) -> None:
    with lazy_imports("rare_one"):
        import library

    class Square(library.Shape):  # type: ignore[misc]
        pass

    import rare_one

    assert isinstance(Square(4), rare_one.Shape)
    assert isinstance(rare_one.Shape(3), library.Shape)
    assert library.Shape(sides=5).sides == 5
    assert ("amp" in library.TABLE, library.TABLE["amp"], library.TABLE.get("lt")) == (True, "&", None)
    with pytest.raises(AttributeError):
        _ = library.twice.__wrapped__
    assert imported_modules == ["rare_one"]


def test_attribute_access_replaces_a_deferred_name_by_the_real_object(imported_modules: list[str]) -> None:
    with lazy_imports("rare_one"):
        import library
    resolve_on_access(library)
    assert (library.OWN, hasattr(library, "nothing_of_that_name"), imported_modules) == (1, False, [])
    from library import Shape
    from rare_one import Shape as Real

    assert Shape is Real
    assert vars(library)["Shape"] is Real


def test_library_keeps_its_own_getattr(imported_modules: list[str]) -> None:
    with lazy_imports("rare_one"):
        import library
    library.__getattr__ = lambda name: f"own {name}"
    resolve_on_access(library)
    assert (library.anything, library.twice(1), imported_modules) == ("own anything", 2, ["rare_one"])
