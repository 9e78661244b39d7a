"""The offset of the database's clock, measured at the middle of a round trip, with a bounded error."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gateway import clock
from gateway.clock import HINT_FROM_S, MAX_OFFSET_S, REPORTED_OFFSET_S, Offset, ProviderDates

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def measure(offset: Offset, ahead_s: float, *, there_s: float = 0.001, back_s: float = 0.001) -> bool:
    """Make a measurement of a database whose clock is `ahead_s` ahead."""
    sent = AT
    reached = sent + timedelta(seconds=there_s)
    return offset.add_measurement(sent, reached + timedelta(seconds=back_s), reached + timedelta(seconds=ahead_s))


def test_offset_is_measured_at_the_middle_of_the_round_trip() -> None:
    offset = Offset()
    assert offset.seconds == 0
    measure(offset, 35)
    assert offset.seconds == pytest.approx(35, abs=1e-6)
    skewed = Offset()
    measure(skewed, 35, there_s=0.9, back_s=0.1)
    assert skewed.seconds == pytest.approx(35, abs=0.5), "the error is at most half of the round trip"


def test_long_round_trip_replaces_a_measurement_only_if_it_proves_it_wrong() -> None:
    offset = Offset()
    measure(offset, 1)
    measure(offset, 1, there_s=1.5, back_s=0.1)
    assert offset.seconds == pytest.approx(1, abs=1e-6)
    measure(offset, 9, there_s=1.5, back_s=0.1)
    assert offset.seconds == pytest.approx(9, abs=0.8)
    measure(offset, 9)
    assert offset.seconds == pytest.approx(9, abs=1e-6)


def test_a_clock_that_was_set_back_during_a_measurement_measures_nothing() -> None:
    offset = Offset()
    assert not offset.add_measurement(AT, AT - timedelta(seconds=1), AT)
    assert offset.seconds == 0


def test_offset_is_reported_once_and_again_after_a_large_change() -> None:
    offset = Offset()
    assert not measure(offset, REPORTED_OFFSET_S - 0.1)
    assert not offset.is_reported
    assert measure(offset, REPORTED_OFFSET_S + 3)
    assert offset.is_reported
    assert not measure(offset, REPORTED_OFFSET_S + 3.5)
    assert measure(offset, MAX_OFFSET_S + 1)
    assert offset.is_refused
    assert measure(offset, 0)
    assert not offset.is_reported
    assert not measure(offset, 0.5)


def test_now_is_the_time_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "offset", Offset())
    monkeypatch.setattr(clock, "machine", lambda: AT)
    assert clock.now() == AT
    measure(clock.offset, -300)
    assert (clock.now() - AT).total_seconds() == pytest.approx(-300, abs=1e-6)


def response(dates: ProviderDates, ahead_s: float, *, took_s: float = 0.2) -> bool:
    """Record a response of a provider whose clock is `ahead_s` ahead, with a `Date` from the middle of the exchange."""
    date = format_datetime(AT + timedelta(seconds=took_s / 2 + ahead_s), usegmt=True)
    return dates.add_date(AT, AT + timedelta(seconds=took_s), date)


def test_three_responses_that_agree_are_a_hint_and_no_correction() -> None:
    dates = ProviderDates()
    assert [response(dates, -900.4) for _ in range(4)] == [False, False, True, False]
    assert dates.seconds == pytest.approx(-900.4, abs=1.2)
    assert [response(dates, 0) for _ in range(3)] == [True, False, False], (
        "the first response that disagrees removes the hint"
    )
    assert dates.seconds == 0


def test_one_provider_with_a_wrong_clock_gives_no_hint() -> None:
    dates = ProviderDates()
    assert not any(response(dates, ahead_s) for ahead_s in (900, 0, 900, 900, 0, 901, 900, 0))
    assert dates.seconds == 0


def test_difference_within_the_resolution_gives_no_hint() -> None:
    dates = ProviderDates()
    assert not any(response(dates, HINT_FROM_S) for _ in range(3))
    assert not any(response(dates, 8, took_s=10) for _ in range(3))
    assert not any(dates.add_date(AT, AT, date) for date in ("", "yesterday", "Wed, 99 Nov 2026 10:00:00 GMT"))
    assert dates.seconds == 0
