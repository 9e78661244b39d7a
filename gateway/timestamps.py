"""Times as in credentials: ISO 8601 with a final Z, to the millisecond (docs/compatibility.md#connections)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_SPAN: Final = re.compile(r"([0-9]{1,4})([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def iso(when: datetime) -> str:
    """Return the time as ``2026-01-02T03:04:05.678Z``."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(text: object) -> datetime | None:
    """Parse a time from `iso`, or any ISO 8601 text; without an offset it is UTC. Return None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    try:
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except OverflowError:  # before year 1 or after 9999 in UTC
        return None


def span(text: str) -> timedelta | None:
    """Parse ``90s``, ``15m``, ``12h`` or ``30d``; return None for anything else."""
    found = _SPAN.fullmatch(text)
    return None if found is None else timedelta(**{_UNITS[found[2]]: int(found[1])})


def ago(text: str, now: datetime) -> datetime | None:
    """Return the time ``30s``, ``10m``, ``2h`` or ``3d`` before `now`, or parse an ISO 8601 text;
    None for anything else."""
    if (back := span(text)) is not None:
        return now - back
    return moment(text)
