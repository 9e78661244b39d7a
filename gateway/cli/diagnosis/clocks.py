"""Our clock against those of others, as the Date of their answers tells it (RFC 9110 §6.6.1), to a second."""

from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from statistics import median
from typing import Final

from gateway.cli.diagnosis.finding import Finding, Level, ok
from gateway.cli.diagnosis.patient import Patient

FINE_S: Final = 5.0
BAD_S: Final = 60.0  # where token endpoints begin to refuse what was signed here, and tokens end unnoticed


def skew_s(date: str, asked: datetime, answered: datetime) -> float | None:
    """By how many seconds our clock is ahead of the one that wrote `date`; 0 where the exchange itself explains it."""
    try:
        told = parsedate_to_datetime(date)
        early, late = (asked - told).total_seconds() - 1, (answered - told).total_seconds()
    except (ValueError, TypeError):
        return None
    return 0.0 if early <= 0 <= late else (early if early > 0 else late)


def clocks(patient: Patient) -> Iterator[Finding]:
    """One finding, from the middle of all that were heard."""
    if not patient.skews_s:
        return
    skew = median(seconds for _, seconds in patient.skews_s)
    who = ", ".join(sorted({name for name, _ in patient.skews_s}))
    if abs(skew) <= FINE_S:
        yield ok("clock", f"it agrees with {who}")
        return
    level: Level = "fail" if abs(skew) > BAD_S else "warn"
    way = "ahead of" if skew > 0 else "behind"
    yield Finding(
        level,
        "clock",
        f"it is {abs(skew):.0f} s {way} {who}; tokens would be renewed at the wrong time, and signatures refused",
        "this machine",
        "have it keep time: timedatectl set-ntp true, or chrony",
    )
