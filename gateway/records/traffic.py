"""Totals of the call log over some hours: by quarter of an hour, and by integration and result."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from gateway.records.operation import OperationKind

SLOT_S: Final = 900
TIMES_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
"""Upper bounds of the histogram's classes for a provider's time; the class after the last bound has none."""


class SlotTotal(NamedTuple):
    """Proxied calls in the quarter of an hour that starts at `at`. The times are totals of the `timed` calls."""

    at: datetime
    calls: int
    failed: int
    timed: int
    gateway_ms: float
    token_ms: float
    upstream_ms: float


class PlaceTotal(NamedTuple):
    """Operations of one kind, integration and result. `reason`: an error code, a status from 400, or empty on success.
    `times`: the number of calls in each class of `TIMES_MS`."""

    kind: OperationKind
    integration_id: str
    reason: str
    calls: int
    last_at: datetime
    times: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """The totals. Quarters of an hour without a call are left out."""

    slots: Sequence[SlotTotal] = field(default_factory=list)
    places: Sequence[PlaceTotal] = field(default_factory=list)


def quantile_ms(times: Sequence[int], share: float) -> int | None:
    """Return the bound of the class that holds this quantile; None without calls, or above the last bound."""
    whole, reached = sum(times), 0
    for ends, count in zip(TIMES_MS, times, strict=False):
        reached += count
        if whole and reached >= share * whole:
            return ends
    return None
