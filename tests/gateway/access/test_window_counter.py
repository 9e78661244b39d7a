"""The counter of events by key within a time window."""

from gateway.access.window_counter import WindowCounter
from tests.fakes.clock import Clock


def test_events_are_counted_by_key_and_can_be_taken_back() -> None:
    counter: WindowCounter[str] = WindowCounter(60)
    counter.restart_if_over()
    assert [counter.add("a"), counter.add("a"), counter.add("b")] == [1, 2, 1]
    counter.subtract("a")
    counter.subtract("unknown")
    assert (counter["a"], counter["b"], counter["unknown"]) == (1, 1, 0)
    assert ("a" in counter, "unknown" in counter, len(counter)) == (True, False, 2)


def test_all_counts_restart_when_the_window_is_over(clock: Clock) -> None:
    counter: WindowCounter[str] = WindowCounter(60)
    counter.restart_if_over()
    counter.add("a")
    clock.ahead_s += 40
    counter.restart_if_over()
    assert counter["a"] == 1
    assert 1 <= counter.left_s <= 20
    clock.ahead_s += 20
    counter.restart_if_over()
    assert (counter["a"], len(counter)) == (0, 0)
    assert 40 <= counter.left_s <= 60
    counter.subtract("a")
    assert counter["a"] == 0
