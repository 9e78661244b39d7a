"""The clock of the whole gateway, in one place, so that a test can set the time.
Call ``clock.now()``; do not use ``from gateway.clock import now``, because a test replaces the function in this module.

Nodes that share a PostgreSQL database compare times: expiry, schedules, back-off. So `now` is the time of that
database: this machine's clock plus an offset that the node measures at each heartbeat (`offset`). With SQLite, and
before the first measurement, the offset is 0. Leases of refreshes do not depend on `now`: the database itself compares
their times (ADR 42). Leases of deliveries and tasks do: if they overlap, an event is sent twice.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

REPORTED_OFFSET_S: Final = 2.0
"""An offset above this many seconds is shown in `/ready` and logged.

After a change by more than this value, the offset is logged again.
"""
MAX_OFFSET_S: Final = 600.0
"""If the offset is above this many seconds, the node claims no lease.
The node's clock or the database's clock is wrong, so the node could also misjudge the expiry of tokens and
certificates.
"""

monotonic: Callable[[], float] = time.monotonic
"""Return monotonic seconds, for durations and deadlines within this process.
The name refers to `time.monotonic` itself, without a wrapper, because each request calls it several times."""


class Offset:
    """How far the database's clock is ahead of this machine's clock. Each process has one instance, `offset`.

    A measurement has three times: this machine's time before an SQL statement (`sent_at`) and after the statement
    (`received_at`), and the time of the database in between (`database_time`). So the offset lies between
    `database_time - received_at` and `database_time - sent_at`. A long round trip makes this range wide. A measurement
    replaces the previous measurement if its round trip is shorter, or if the previous offset is outside the new range.
    """

    def __init__(self) -> None:
        self._value = timedelta(0)
        self._round_trip: timedelta | None = None  # None before the first measurement
        self._reported_s = 0.0

    @property
    def value(self) -> timedelta:
        return self._value

    @property
    def seconds(self) -> float:
        return self._value.total_seconds()

    @property
    def is_reported(self) -> bool:
        """Whether the offset is large enough to be reported to operators."""
        return abs(self.seconds) > REPORTED_OFFSET_S

    @property
    def is_refused(self) -> bool:
        """Whether the offset is so large that this node claims no lease."""
        return abs(self.seconds) > MAX_OFFSET_S

    def add_measurement(self, sent_at: datetime, received_at: datetime, database_time: datetime) -> bool:
        """Add a measurement, and return whether to log `offset`.

        `sent_at`, `received_at`: this machine's time (`machine`) before and after the SQL statement. `database_time`: the
        time that the statement returned. The offset is logged if it differs by more than REPORTED_OFFSET_S from the offset
        logged last (at first 0).
        """
        round_trip = received_at - sent_at
        if round_trip < timedelta(0):
            return False  # this machine's clock was set back
        lowest, highest = database_time - received_at, database_time - sent_at
        if self._round_trip is None or round_trip <= self._round_trip or not lowest <= self._value <= highest:
            self._value, self._round_trip = lowest + round_trip / 2, round_trip
        if abs(self.seconds - self._reported_s) <= REPORTED_OFFSET_S:
            return False
        self._reported_s = self.seconds if self.is_reported else 0.0
        return True


offset: Final = Offset()

HINT_FROM_S: Final = 5.0
"""A difference from the providers' clocks above this many seconds is logged as a hint.

After a change by more than this value, the hint is logged again.
"""
AGREEING_RESPONSES: Final = 3
"""The hint is given only if this many responses in a row agree."""


class ProviderDates:
    """How far the clocks of token endpoints are ahead of `now`. Each process has one instance, `provider_dates`.

    The difference is calculated from the `Date` of the endpoints' responses. It is only a hint for operators, mainly
    with SQLite, where `offset` is 0. Nothing is corrected, because a provider's clock can be wrong. For the same
    reason, the hint needs three responses in a row that agree. `Date` is in whole seconds (RFC 9110 §6.6.1), so each
    response gives a range for the difference.
    """

    def __init__(self) -> None:
        self._ranges = deque[tuple[float, float]](maxlen=AGREEING_RESPONSES)
        self._reported_s = 0.0

    @property
    def seconds(self) -> float:
        """The difference in seconds; 0 if it is too small for a hint, or if the last responses do not agree."""
        if len(self._ranges) < AGREEING_RESPONSES:
            return 0.0
        lowest, highest = max(low for low, _ in self._ranges), min(high for _, high in self._ranges)
        return (lowest + highest) / 2 if lowest <= highest and (lowest > HINT_FROM_S or highest < -HINT_FROM_S) else 0.0

    def add_date(self, sent_at: datetime, received_at: datetime, date: str) -> bool:
        """Add the `Date` of a response, and return whether to log `seconds`. An unreadable `Date` is ignored.

        `sent_at`, `received_at`: the time (`now`) before and after the call. `seconds` is logged if it differs by more than
        HINT_FROM_S from the value logged last (at first 0).
        """
        try:
            provider_time = parsedate_to_datetime(date[:64])
            self._ranges.append(
                ((provider_time - received_at).total_seconds(), (provider_time - sent_at).total_seconds() + 1)
            )
        except (ValueError, TypeError, OverflowError):
            return False
        if abs(self.seconds - self._reported_s) <= HINT_FROM_S:
            return False
        self._reported_s = self.seconds
        return True


provider_dates: Final = ProviderDates()


def machine() -> datetime:
    """Return the time of this machine's clock, in UTC.

    Use this time for comparisons with other processes of this machine, and to measure `offset`.
    """
    return datetime.now(UTC)


def now() -> datetime:
    """Return the time that all nodes on one database share, in UTC."""
    return machine() + offset.value


async def sleep(seconds: float) -> None:
    """Sleep without blocking the event loop."""
    await asyncio.sleep(seconds)


async def give_way() -> None:
    """Let other ready tasks run first.

    Call this function between the parts of a computation that would block other tasks for a millisecond or longer.
    """
    await asyncio.sleep(0)
