"""Sums over some hours of the call log: by quarter of an hour, and by integration and result."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from gateway.records.operation import OperationKind

SLOT_S: Final = 900
TIMES_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
"""Upper ends of the classes of a provider's time; the last class has no end."""


class SlotTotal(NamedTuple):
    """Proxied calls in the quarter of an hour that begins `at`. Milliseconds: sums over the `timed` ones."""

    at: datetime
    calls: int
    failed: int
    timed: int
    gateway_ms: float
    token_ms: float
    upstream_ms: float


class PlaceTotal(NamedTuple):
    """Operations of one kind, integration and result. `reason`: an error code, a status from 400, or empty where it went well.
    `times`: how many in each class of `TIMES_MS`."""

    kind: OperationKind
    integration_id: str
    reason: str
    calls: int
    last_at: datetime
    times: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Slots without a call are left out."""

    slots: Sequence[SlotTotal] = field(default_factory=list)
    places: Sequence[PlaceTotal] = field(default_factory=list)


def quantile_ms(times: Sequence[int], share: float) -> int | None:
    """The end of the class in which that share of the calls is reached; None where there is none, or it is above the last end."""
    whole, reached = sum(times), 0
    for ends, count in zip(TIMES_MS, times, strict=False):
        reached += count
        if whole and reached >= share * whole:
            return ends
    return None
