"""The time, in one place, so that a test can set it.
Call it as ``clock.now()``, never ``from gateway.clock import now``.

Nodes that share a PostgreSQL database compare times: expiry, schedules, back-off. So `now` is the time of that
database: this machine's clock plus an offset that the node measures at each heartbeat (`offset`). With SQLite, and
before the first measurement, the offset is 0. Leases do not depend on `now` at all: the database compares their times
itself (ADR 42).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

REPORTED_OFFSET_S: Final = 2.0
"""An offset above this many seconds is shown in `/ready`. It is logged, and again after it changes by as much."""
MOST_OFFSET_S: Final = 600.0
"""Above this many seconds a node claims no lease:
if its clock or the database's is wrong, it also misjudges tokens and certificates."""

monotonic: Callable[[], float] = time.monotonic
"""Monotonic seconds for durations and deadlines within this process. Called several times per request, so without a
wrapper."""


class Offset:
    """How far the database's clock is ahead of this machine's. One instance per process: `offset`.

    A measurement has three times: this machine's before and after a statement, and the database's in between. So the
    offset lies between `database - received` and `database - sent`, and a long round trip makes that range wide. A
    measurement replaces the previous one if its round trip is shorter, or if it proves the previous one wrong.
    """

    def __init__(self) -> None:
        self._value = timedelta(0)
        self._round_trip: timedelta | None = None  # None: never measured
        self._reported_s = 0.0

    @property
    def value(self) -> timedelta:
        return self._value

    @property
    def seconds(self) -> float:
        return self._value.total_seconds()

    @property
    def reported(self) -> bool:
        """Whether the offset is large enough to be reported to operators."""
        return abs(self.seconds) > REPORTED_OFFSET_S

    @property
    def refused(self) -> bool:
        """Whether the offset is so large that this node claims no lease."""
        return abs(self.seconds) > MOST_OFFSET_S

    def add_measurement(self, sent: datetime, received: datetime, database: datetime) -> bool:
        """Use a measurement. `sent` and `received`: by `machine`, before and after the statement that read `database`.

        Returns whether to log `offset`: it differs by more than REPORTED_OFFSET_S from the value logged last (at first
        0).
        """
        round_trip = received - sent
        if round_trip < timedelta(0):
            return False  # this machine's clock was set back
        least, most = database - received, database - sent
        if self._round_trip is None or round_trip <= self._round_trip or not least <= self._value <= most:
            self._value, self._round_trip = least + round_trip / 2, round_trip
        if abs(self.seconds - self._reported_s) <= REPORTED_OFFSET_S:
            return False
        self._reported_s = self.seconds if self.reported else 0.0
        return True


offset: Final = Offset()

HINT_FROM_S: Final = 5.0
"""A difference from providers' clocks above this many seconds is a hint; again after it changes by as much."""
AGREEING: Final = 3


class ProviderDates:
    """How far the clocks of token endpoints are ahead of `now`, from the `Date` of their responses. One per process.

    Only a hint for operators, mainly with SQLite, where `offset` is 0: nothing is corrected, since a provider's clock
    may be wrong. For the same reason it is a hint only while the last three responses agree. `Date` is in whole seconds
    (RFC 9110 §6.6.1), so each response gives a range for the difference.
    """

    def __init__(self) -> None:
        self._ranges = deque[tuple[float, float]](maxlen=AGREEING)
        self._reported_s = 0.0

    @property
    def seconds(self) -> float:
        """The difference; 0 if it is small or if the responses do not agree."""
        if len(self._ranges) < AGREEING:
            return 0.0
        least, most = max(low for low, _ in self._ranges), min(high for _, high in self._ranges)
        return (least + most) / 2 if least <= most and (least > HINT_FROM_S or most < -HINT_FROM_S) else 0.0

    def add_date(self, sent: datetime, received: datetime, date: str) -> bool:
        """Use the `Date` of a response; an unreadable one is ignored.
        `sent` and `received`: by `now`, before and after the call.

        Returns whether to log `seconds`: it became a hint, stopped being one, or changed by as much.
        """
        try:
            shown = parsedate_to_datetime(date[:64])
            self._ranges.append(((shown - received).total_seconds(), (shown - sent).total_seconds() + 1))
        except (ValueError, TypeError, OverflowError):
            return False
        if abs(self.seconds - self._reported_s) <= HINT_FROM_S:
            return False
        self._reported_s = self.seconds
        return True


provider_dates: Final = ProviderDates()


def machine() -> datetime:
    """Return this machine's wall clock in UTC: for comparison with other processes of this machine,
    and for `offset`."""
    return datetime.now(UTC)


def now() -> datetime:
    """Return the time that all nodes on one database share, in UTC."""
    return machine() + offset.value


async def sleep(seconds: float) -> None:
    """Sleep without blocking the event loop."""
    await asyncio.sleep(seconds)


async def give_way() -> None:
    """Let ready tasks run first: call it between parts of work that would block others for a millisecond."""
    await asyncio.sleep(0)
