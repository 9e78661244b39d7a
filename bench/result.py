"""The results of a run: one Row per contender, medians over all rounds, and ratios of figures of the same round."""

import statistics
from dataclasses import dataclass, field
from typing import Final

from bench.load import Load
from bench.streams import Idle, Stream

MANY: Final = 32  # connections under load


@dataclass(slots=True)
class Row:
    """All results of one contender.

    `idle_mib`: resident memory of all its processes, in MiB. `worker_mib`: resident memory of its largest process.
    `loads`: number of connections ▸ one load per round. `skipped`: what failed.
    """

    name: str
    title: str
    note: str
    version: str
    starts_s: list[float] = field(default_factory=list)
    starts_cpu_s: list[float] = field(default_factory=list)
    idle_mib: float = 0.0
    worker_mib: float = 0.0
    loads: dict[int, list[Load]] = field(default_factory=dict)
    down: list[Stream] = field(default_factory=list)
    up: list[Stream] = field(default_factory=list)
    event_delays_ms: list[float] = field(default_factory=list)
    idle: Idle | None = None
    skipped: list[str] = field(default_factory=list)

    def middle(self, connections: int, what: str) -> float | None:
        """Return the median of one figure of a Load over all rounds, or None if the figure was not measured."""
        loads = self.loads.get(connections)
        figures: list[float] = [getattr(load, what) for load in loads or []]
        return statistics.median(figures) if figures else None

    @property
    def start_s(self) -> float | None:
        """The median time of the contender's starts. A start lasts until the first correct response."""
        return statistics.median(self.starts_s) if self.starts_s else None

    @property
    def start_cpu_s(self) -> float | None:
        """The median CPU time of the contender's starts. It depends less on how busy the machine is than the time."""
        return statistics.median(self.starts_cpu_s) if self.starts_cpu_s else None

    def stream(self, direction: str, what: str) -> float | None:
        """Return the median of one figure of a Stream over all rounds, or the maximum for memory growth. `way`: down or
        up.
        """
        streams: list[Stream] = getattr(self, direction)
        if not streams:
            return None
        figures: list[float] = [getattr(stream, what) for stream in streams]
        return max(figures) if what == "grown_mib" else statistics.median(figures)


@dataclass(slots=True)
class Result:
    """A whole run. `variants`: the gateway under other conditions. `missing`: name of a contender ▸ why it was not run."""

    machine: str
    made: str
    generator: str
    options: dict[str, object]
    rows: list[Row] = field(default_factory=list)
    variants: list[Row] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def row(self, name: str) -> Row | None:
        return next((row for row in [*self.rows, *self.variants] if row.name == name and row.loads), None)


def ratio(first: Row | None, second: Row | None, what: str = "cpu_us", connections: int = MANY) -> float | None:
    """Return the median over all rounds of the ratio `first` / `second`.

    Both figures of a ratio are from the same round, so a slow minute affects both.
    """
    if first is None or second is None:
        return None
    theirs = {load.round: getattr(load, what) for load in second.loads.get(connections, [])}
    ours = [(getattr(load, what), theirs.get(load.round)) for load in first.loads.get(connections, [])]
    found: list[float] = [figure / beside for figure, beside in ours if beside]
    return statistics.median(found) if found else None


def speed_ratio(first: Row | None, second: Row | None, direction: str) -> float | None:
    """Return the median ratio of the stream speed of `first` to the stream speed of `second`. `direction`: down or up."""
    if first is None or second is None:
        return None
    pairs = zip(getattr(first, direction), getattr(second, direction), strict=False)
    found: list[float] = [a.mib_per_second / b.mib_per_second for a, b in pairs]
    return statistics.median(found) if found else None
