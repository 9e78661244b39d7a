"""When a server says to come back: seconds, a date, or a point in time (RFC 9110 §10.2.3)."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

_NUMBER: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
LONGEST_S: Final = 315_360_000.0  # ten years: a longer wait counts as this one
_MILLISECONDS_FROM: Final = 1e11  # as seconds that is the year 5138


def seconds_until(text: str, now: datetime) -> float | None:
    """Of ``Retry-After`` and its like: a span in seconds or an HTTP date; None where it is neither. 0 for the past."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return min(float(text), LONGEST_S)
    when = _date(text)
    return None if when is None else min(max(0.0, (when - now).total_seconds()), LONGEST_S)


def seconds_until_point(text: str, now: datetime) -> float | None:
    """Of ``X-RateLimit-Reset`` and its like: epoch seconds, epoch milliseconds or a date; None for the past, too."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        point = float(text)
        left = (point / 1000 if point >= _MILLISECONDS_FROM else point) - now.timestamp()
    elif (when := _date(text)) is not None:
        left = (when - now).total_seconds()
    else:
        return None
    return min(left, LONGEST_S) if left > 0 else None


def _date(text: str) -> datetime | None:
    """An HTTP date in any of its three forms (RFC 9110 §5.6.7), or an ISO one; without a zone it is UTC."""
    if len(text) > 64:
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            when = read(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return None
