"""Times and spans as text."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from gateway.timestamps import iso, parse_duration, parse_time, parse_time_or_age

AT = datetime(2026, 1, 2, 3, 4, 5, 678_900, UTC)


def test_a_time_is_written_in_utc_to_the_millisecond() -> None:
    assert iso(AT) == "2026-01-02T03:04:05.678Z"
    assert iso(AT.astimezone(timezone(timedelta(hours=2)))) == iso(AT)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("2026-01-02T03:04:05.678Z", AT.replace(microsecond=678_000)),
        ("2026-01-02T05:04:05+02:00", AT.replace(microsecond=0)),
        ("2026-01-02", datetime(2026, 1, 2, tzinfo=UTC)),  # without an offset
        ("0001-01-01T00:00:00+01:00", None),  # before year 1 in UTC
        ("soon", None),
        (1767323045, None),
        (None, None),
    ],
)
def test_a_time_is_parsed_only_from_iso_8601(text: object, when: datetime | None) -> None:
    assert parse_time(text) == when


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("12h", timedelta(hours=12)),
        ("30d", timedelta(days=30)),
        ("10000d", None),
        ("-1h", None),
        ("1w", None),
        ("h", None),
    ],
)
def test_a_span_has_up_to_four_digits_and_a_unit(text: str, length: timedelta | None) -> None:
    assert parse_duration(text) == length


def test_time_ago_accepts_a_duration_or_a_time() -> None:
    assert parse_time_or_age("2h", AT) == AT - timedelta(hours=2)
    assert parse_time_or_age("2026-01-01", AT) == datetime(2026, 1, 1, tzinfo=UTC)
    assert parse_time_or_age("yesterday", AT) is None
