"""Pages that repeat in a cycle of any length are noticed, and pages that do not repeat are not."""

import pytest

from gateway.http.paging.next_page import CycleDetector


@pytest.mark.parametrize("before", [0, 1, 5])
@pytest.mark.parametrize("around", [1, 2, 3, 7, 100])
def test_cycle_is_detected_within_three_rounds(before: int, around: int) -> None:
    circle = CycleDetector()
    for number in range(before):
        assert not circle.detect_repeat(f"before {number}")
    result = next(count for count in range(100_000) if circle.detect_repeat(f"around {count % around}"))
    assert result <= 3 * (before + around) + 1


def test_repeat_of_the_last_page_is_detected_immediately() -> None:
    circle = CycleDetector()
    assert [circle.detect_repeat(key) for key in ("a", "a")] == [False, True]


def test_different_pages_are_not_a_cycle() -> None:
    circle = CycleDetector()
    assert not any(circle.detect_repeat(str(number)) for number in range(10_000))
