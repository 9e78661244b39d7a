"""Pauses grow for each key independently, up to a maximum."""

import pytest

from gateway import clock
from gateway.pauses import Pauses


def test_each_pause_is_twice_the_last_one_up_to_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    pauses = Pauses(first_s=5, max_pause_s=15)
    for pause_s in (5, 10, 15, 15):
        assert pauses.due(["a"]) == ["a"]
        now[0] += pause_s - 0.1
        assert pauses.due(["a"]) == []
        now[0] += 0.1


def test_keys_pause_independently_and_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    pauses = Pauses(first_s=5, max_pause_s=60)
    assert pauses.due(["a"]) == ["a"]
    assert pauses.due(["b", "a"]) == ["b"]
    now[0] = 5.0
    assert pauses.due({"b", "a"}) == ["a", "b"]
