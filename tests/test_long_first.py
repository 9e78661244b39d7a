"""Each part of the list of tests begins with some of the longest modules."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.long_first import LONGEST, ROOT, _with_long_modules_first


def made_items(*names: str) -> list[Any]:
    return [SimpleNamespace(path=ROOT / name, number=number) for number, name in enumerate(names)]


def test_each_listed_module_exists() -> None:
    assert [name for name in LONGEST if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("parts", [2, 4, 6])
def test_each_part_begins_with_long_modules_and_no_item_is_lost(parts: int) -> None:
    short_modules = [f"gateway/test_{number % 50}.py" for number in range(997)]
    items = made_items(*short_modules, *[name for name in reversed(LONGEST) for _ in range(3)])
    ordered: list[Any] = _with_long_modules_first(items, parts)
    assert sorted(item.number for item in ordered) == list(range(len(items)))
    size = len(items) // parts
    firsts = {ordered[part * size].path for part in range(parts)}
    assert firsts == {ROOT / name for name in LONGEST[:parts]}


def test_a_part_can_consist_of_long_modules_only() -> None:
    items = made_items(*LONGEST)
    assert len(_with_long_modules_first(items, 6)) == len(LONGEST)
    assert isinstance(items[0].path, Path)
