"""Times as text in the format of credentials: ISO 8601, to the millisecond, with a final Z
(docs/compatibility.md#connections)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_DURATION: Final = re.compile(r"([0-9]{1,4})([smhd])")
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def iso(moment: datetime) -> str:
    """Return the time as text, such as ``2026-01-02T03:04:05.678Z``."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: object) -> datetime | None:
    """Parse an ISO 8601 text, for example from `iso`; return None for any other value.

    A time without an offset is in UTC.
    """
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:  # the time is before year 1 or after year 9999 in UTC
        return None


def parse_duration(text: str) -> timedelta | None:
    """Parse a duration such as ``90s``, ``15m``, ``12h`` or ``30d``; return None for any other text."""
    match = _DURATION.fullmatch(text)
    return None if match is None else timedelta(**{UNITS[match[2]]: int(match[1])})


def parse_time_or_age(text: str, now: datetime) -> datetime | None:
    """Parse a time: a duration before `now`, such as ``30s``, ``10m``, ``2h`` or ``3d``, or an ISO 8601 text.

    Return None for any other text.
    """
    if (age := parse_duration(text)) is not None:
        return now - age
    return parse_time(text)
