"""Modules that are loaded when somebody first uses them."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gateway.startup.imports import Deferred, find_when_asked, lent, loaded, put_off

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
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The modules of ours that have been loaded so far: `rare_one`, and `package.rare`."""
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


def test_a_module_put_off_is_loaded_once_when_an_attribute_is_asked_for(times: list[str]) -> None:
    put_off("rare_one")
    import rare_one  # type: ignore[import-not-found]

    assert (loaded("rare_one"), times) == (False, [])
    assert rare_one.twice(2) == 4
    from rare_one import Shape

    assert (Shape(3).sides, loaded("rare_one"), times) == (3, True, ["rare_one"])


def test_what_it_does_not_have_it_does_not_have(times: list[str]) -> None:
    put_off("rare_one")
    import rare_one

    for _ in range(2):
        with pytest.raises(AttributeError, match="no attribute 'thrice'"):
            _ = rare_one.thrice
    assert times == ["rare_one"]


def test_what_everything_is_asked_for_loads_nothing(times: list[str]) -> None:
    put_off("rare_one")
    import rare_one

    assert not hasattr(rare_one, "__wrapped__")
    assert times == []


def test_what_is_given_for_the_meantime_needs_no_loading(times: list[str]) -> None:
    put_off("rare_one", twice=lambda number: number + number)
    from rare_one import twice

    assert (twice(4), times) == (8, [])
    from rare_one import Shape, twice

    assert (Shape(1).sides, twice.__module__, times) == (1, "rare_one", ["rare_one"])


def test_a_module_of_a_package_is_found_through_it(times: list[str]) -> None:
    put_off("package.rare")
    import package.rare  # type: ignore[import-not-found]

    assert times == []
    assert package.rare.twice(1) == 2
    assert times == ["package.rare"]


def test_one_that_is_loaded_stays_as_it_is(times: list[str]) -> None:
    import rare_one

    put_off("rare_one")
    with lent("rare_one"):
        assert sys.modules["rare_one"] is rare_one
    assert (sys.modules["rare_one"] is rare_one, times) == (True, ["rare_one"])


def test_one_that_is_nowhere_is_still_missing() -> None:
    put_off("no_such_module_at_all")
    with pytest.raises(ModuleNotFoundError):
        __import__("no_such_module_at_all")


def test_one_that_fails_to_load_is_tried_again(times: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    put_off("rare_one")
    import rare_one

    monkeypatch.delattr(sys.modules["times_loaded"], "LOADED")
    with pytest.raises(AttributeError, match="LOADED"):
        rare_one.twice(1)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "times_loaded", SimpleNamespace(LOADED=times))  # type: ignore[arg-type]
    assert (rare_one.twice(1), times) == (2, ["rare_one"])


def test_threads_that_ask_at_once_load_it_once(times: list[str]) -> None:
    put_off("rare_one")
    import rare_one

    together = Barrier(8)

    def ask(number: int) -> int:
        together.wait()
        twice: int = rare_one.twice(number)
        return twice

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(8))) == [2 * number for number in range(8)]
    assert times == ["rare_one"]


def test_a_library_that_is_lent_a_module_does_not_load_it(times: list[str]) -> None:
    with lent("rare_one"):
        import library  # type: ignore[import-not-found]
    assert (loaded("rare_one"), times) == (False, [])
    assert isinstance(library.Shape, Deferred)
    assert library.twice(3) == 6
    assert times == ["rare_one"]


def test_a_deferred_name_does_what_the_real_one_would(times: list[str]) -> None:
    with lent("rare_one"):
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
    assert times == ["rare_one"]


def test_others_find_the_real_things_in_the_library_when_they_ask(times: list[str]) -> None:
    with lent("rare_one"):
        import library
    find_when_asked(library)
    assert (library.OWN, hasattr(library, "nothing_of_that_name"), times) == (1, False, [])
    from library import Shape
    from rare_one import Shape as Real

    assert Shape is Real
    assert vars(library)["Shape"] is Real


def test_a_library_keeps_its_own_way_to_find_names(times: list[str]) -> None:
    with lent("rare_one"):
        import library
    library.__getattr__ = lambda name: f"own {name}"
    find_when_asked(library)
    assert (library.anything, library.twice(1), times) == ("own anything", 2, ["rare_one"])
