"""``${now:FORMAT}``: a moment written in the format tokens that catalog authors know (YYYY-MM-DD, HH:mm:ss, X …)."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

# Units of ${now+7:days}, in seconds. Months and years are left out: their length depends on the date.
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
UNITS: Final = _SECONDS | {f"{unit}s": seconds for unit, seconds in _SECONDS.items()}

_TOKEN = re.compile(r"\[([^\]]*)\]|YYYY|YY|M{1,4}|D{1,2}|d{1,4}|H{1,2}|h{1,2}|a|A|m{1,2}|s{1,2}|SSS|ZZ|Z|X|x")

# English names whatever the process's locale is: a provider reads them.
_WRITE: Final[dict[str, Callable[[datetime], str]]] = {
    "YYYY": lambda at: f"{at.year:04}",
    "YY": lambda at: f"{at.year % 100:02}",
    "MMMM": lambda at: MONTHS[at.month - 1],
    "MMM": lambda at: MONTHS[at.month - 1][:3],
    "MM": lambda at: f"{at.month:02}",
    "M": lambda at: str(at.month),
    "DD": lambda at: f"{at.day:02}",
    "D": lambda at: str(at.day),
    "dddd": lambda at: DAYS[at.weekday()],
    "ddd": lambda at: DAYS[at.weekday()][:3],
    "dd": lambda at: DAYS[at.weekday()][:2],
    "d": lambda at: str(at.isoweekday() % 7),
    "HH": lambda at: f"{at.hour:02}",
    "H": lambda at: str(at.hour),
    "hh": lambda at: f"{at.hour % 12 or 12:02}",
    "h": lambda at: str(at.hour % 12 or 12),
    "a": lambda at: "am" if at.hour < 12 else "pm",
    "A": lambda at: "AM" if at.hour < 12 else "PM",
    "mm": lambda at: f"{at.minute:02}",
    "m": lambda at: str(at.minute),
    "ss": lambda at: f"{at.second:02}",
    "s": lambda at: str(at.second),
    "SSS": lambda at: f"{at.microsecond // 1000:03}",
    "ZZ": lambda _at: "+0000",
    "Z": lambda _at: "+00:00",
    "X": lambda at: str(int(at.timestamp())),
    "x": lambda at: str(int(at.timestamp()) * 1000 + at.microsecond // 1000),
}


def write(at: datetime, format_: str | None) -> str:
    """The aware time `at` in UTC as `format_` says, ``[text]`` being literal; None is ISO 8601 with milliseconds."""
    at = at.astimezone(UTC)
    if format_ is None:
        return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03}Z"
    return _TOKEN.sub(lambda found: _token(found, at), format_)


def _token(found: re.Match[str], at: datetime) -> str:
    if found[1] is not None:
        return found[1]
    return _WRITE[found[0]](at) if found[0] in _WRITE else found[0]
