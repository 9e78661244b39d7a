"""The numbers of a process at one moment, in a form that can be added up and sent to another process."""

import marshal
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

Sample: TypeAlias = tuple[str, ...]  # a family's name, then its labels' values

Whose: TypeAlias = tuple[str, str]  # environment and integration; both empty for our own API


@dataclass(slots=True)
class Snapshot:
    """`exchanges` are laid out by `counts`. Gauges belong to a living process, while counters outlive it."""

    exchanges: dict[Whose, list[float]] = field(default_factory=dict)
    counters: dict[Sample, float] = field(default_factory=dict)
    gauges: dict[Sample, float] = field(default_factory=dict)

    def as_bytes(self) -> bytes:
        """For another process of the same gateway, and nobody else."""
        return marshal.dumps((self.exchanges, self.counters, self.gauges))

    @classmethod
    def from_bytes(cls, told: bytes) -> "Snapshot":
        return cls(*marshal.loads(told))  # noqa: S302 (written by a sibling, into memory that only the siblings have)


def added(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The sum."""
    total = Snapshot()
    for one in snapshots:
        for whose, numbers in one.exchanges.items():
            before = total.exchanges.get(whose)
            total.exchanges[whose] = (
                list(numbers) if before is None else [a + b for a, b in zip(before, numbers, strict=True)]
            )
        for sum_of, part_of in ((total.counters, one.counters), (total.gauges, one.gauges)):
            for sample, number in part_of.items():
                sum_of[sample] = sum_of.get(sample, 0) + number
    return total
