"""Refreshes that are due together start one after the other, and none starts later than it is due."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.refresh.schedule import MIN_SLOTS_BEFORE_CLEANUP, RefreshSlots

WIDTH_S = 0.05


def reserved(slots: RefreshSlots, dues: list[float], *, earliest: float = 0.0, now: float = 0.0) -> list[float]:
    return [slots.reserve(due, earliest=earliest, now=now) for due in dues]


def test_refreshes_due_at_different_times_start_when_due() -> None:
    dues = [100.01, 250.3, 399.99]
    assert reserved(RefreshSlots(WIDTH_S), dues) == dues


def test_refreshes_due_in_one_minute_are_spread_evenly() -> None:
    dues = [3300 + n * 60 / 10_000 for n in range(10_000)]
    moments = sorted(reserved(RefreshSlots(WIDTH_S), dues))
    assert 3360 - 501 < moments[0] < 3360 - 499
    assert len({int(moment / WIDTH_S + 1e-6) for moment in moments}) == 10_000


@given(st.lists(st.floats(0, 20), max_size=300), st.floats(0, 20))
def test_no_refresh_is_late_or_too_early(dues: list[float], earliest: float) -> None:
    for due, moment in zip(dues, reserved(RefreshSlots(WIDTH_S), dues, earliest=earliest), strict=True):
        assert moment <= due
        assert moment == due or moment >= earliest


def test_a_refresh_without_a_free_slot_begins_when_it_is_due() -> None:
    slots = RefreshSlots(WIDTH_S)
    moments = reserved(slots, [10.0] * 50, earliest=9.0)
    # Twenty refreshes fill the slots of the second before 10.0, one has the slot at 10.0, and 29 find no free slot.
    assert moments.count(10.0) == 30
    assert min(moments) >= 9.0
    assert slots.reserve(10.0, earliest=0.0, now=9.5) == 10.0, "a slot in the past is not free"


def test_passed_slots_are_forgotten() -> None:
    slots = RefreshSlots(WIDTH_S)
    for second in range(4 * MIN_SLOTS_BEFORE_CLEANUP):
        slots.reserve(second, earliest=0.0, now=float(second))
    assert len(slots) <= MIN_SLOTS_BEFORE_CLEANUP + 1
