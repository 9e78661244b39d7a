"""The numbers of all workers, added up."""

from collections.abc import Iterable

from gateway import clock
from gateway.metrics.families import FAMILIES
from gateway.metrics.page import SEEN_AT, Key, Page

STALE_S = 5.0  # a gauge belongs to a living worker, while a counter outlives it


def total(pages: Iterable[Page]) -> dict[Key, list[float]]:
    """Every key with the sum of its numbers, or with the largest where its family says so."""
    sums: dict[Key, list[float]] = {}
    now = clock.monotonic()
    for page in pages:
        lives = page.cells[SEEN_AT] > now - STALE_S
        for key, numbers in page.read():
            family = FAMILIES.get(key[0])
            if family is not None and family.kind == "gauge" and not lives:
                continue
            before = sums.get(key)
            if before is None:
                sums[key] = numbers
            elif family is not None and family.largest:
                sums[key] = max(before, numbers, key=lambda some: abs(some[0]))
            else:
                sums[key] = [a + b for a, b in zip(before, numbers, strict=True)]
    return sums
