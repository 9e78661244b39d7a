"""Totals of the call log, by quarter of an hour, and by integration and result."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from gateway.records.operation import OperationKind

SLOT_S: Final = 900
TIMES_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
"""Upper bounds, in milliseconds, of the classes of the histogram of providers' response times. One more class follows,
which has no upper bound."""


class SlotTotal(NamedTuple):
    """The proxied calls in the quarter of an hour that starts at `at`. `timed`: the number of calls with measured
    times. The times are totals of these calls."""

    at: datetime
    calls: int
    failed: int
    timed: int
    gateway_ms: float
    token_ms: float
    upstream_ms: float


class PlaceTotal(NamedTuple):
    """The operations with the same kind, integration and result. `reason`: an error code, a status of 400 or above, or
    empty on success. `times`: the number of calls in each class of `TIMES_MS`."""

    kind: OperationKind
    integration_id: str
    reason: str
    calls: int
    last_at: datetime
    times: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """The totals of the call log. Quarters of an hour without a call are left out."""

    slots: Sequence[SlotTotal] = field(default_factory=list)
    places: Sequence[PlaceTotal] = field(default_factory=list)


def quantile_ms(times: Sequence[int], share: float) -> int | None:
    """Return the upper bound, in milliseconds, of the class that contains the quantile. `share`: the quantile, from 0
    to 1. Return None if there are no calls, or if the class has no upper bound."""
    total, count_so_far = sum(times), 0
    for upper_bound_ms, count in zip(TIMES_MS, times, strict=False):
        count_so_far += count
        if total and count_so_far >= share * total:
            return upper_bound_ms
    return None
