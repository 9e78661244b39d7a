"""Points in time as credentials spell them: ISO 8601 with a final Z, to the millisecond (docs/compatibility.md#connections)."""

from datetime import UTC, datetime


def iso(when: datetime) -> str:
    """``2026-01-02T03:04:05.678Z``."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(text: object) -> datetime | None:
    """The aware time that `iso` wrote, or any ISO 8601 text; without an offset it is UTC. None for all else."""
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
