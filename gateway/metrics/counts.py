"""The numbers of this process.

On the path of a request there is one list an integration, whose places are computed: no objects, no locks, no labels
to hash. Everything else is counted where it is rare, or read only when somebody asks.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from gateway.metrics.families import BOUNDS, FAMILIES
from gateway.metrics.snapshot import Sample, Snapshot, Whose

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
STATUSES: Final = 6  # 1xx to 5xx stand at their first digit; an odd one stands at 0
REQUESTS: Final = 4 * STATUSES  # by the provider or by us, each read or write
BUCKETS: Final = len(BOUNDS) + 1
HISTOGRAM: Final = BUCKETS + 1  # the last place is the sum
GATEWAY: Final = REQUESTS
TOKEN: Final = GATEWAY + HISTOGRAM
UPSTREAM: Final = TOKEN + HISTOGRAM
SIZE: Final = UPSTREAM + HISTOGRAM
GATEWAY_SUM: Final = GATEWAY + BUCKETS
TOKEN_SUM: Final = TOKEN + BUCKETS
UPSTREAM_SUM: Final = UPSTREAM + BUCKETS
PARTS: Final = {"gateway": GATEWAY, "token": TOKEN, "upstream": UPSTREAM}

OUR_API: Final[Whose] = ("", "")


class Metrics:
    """Made once a process, and handed from one generation of Services to the next."""

    def __init__(self) -> None:
        self._exchanges: dict[Whose, list[float]] = {}
        self._counters: dict[Sample, float] = {}
        self._watched: list[tuple[Sample, Callable[[], float]]] = []

    def request(self, method: str, status: int) -> None:
        """One that no connection was found for, or that was for our own API."""
        numbers = self._exchanges.get(OUR_API) or self._begin(OUR_API)
        numbers[place(method, status, True)] += 1

    def exchange(
        self, whose: Whose, method: str, status: int, ours: bool, gateway_s: float, token_s: float, upstream_s: float
    ) -> None:
        """A proxied one. A part of no length was not waited for, and is left out of its histogram."""
        try:
            numbers = self._exchanges[whose]
        except KeyError:
            numbers = self._begin(whose)
        numbers[place(method, status, ours)] += 1
        numbers[bisect_left(BOUNDS, gateway_s) + GATEWAY] += 1
        numbers[GATEWAY_SUM] += gateway_s
        if upstream_s:
            numbers[bisect_left(BOUNDS, upstream_s) + UPSTREAM] += 1
            numbers[UPSTREAM_SUM] += upstream_s
        if token_s:
            numbers[bisect_left(BOUNDS, token_s) + TOKEN] += 1
            numbers[TOKEN_SUM] += token_s

    def add(self, name: str, *labels: str) -> None:
        """One more of a counter that is not counted for every request. `name` is one of FAMILIES."""
        check(name, labels, "counter")
        sample = (name, *labels)
        self._counters[sample] = self._counters.get(sample, 0) + 1

    def watch(self, name: str, *labels: str, read: Callable[[], float]) -> None:
        """Ask `read` whenever the numbers are wanted. `name` is a gauge of FAMILIES, or a counter that others keep."""
        check(name, labels, "gauge", "counter")
        self._watched.append(((name, *labels), read))

    def snapshot(self) -> Snapshot:
        counters, gauges = dict(self._counters), dict[Sample, float]()
        for sample, read in self._watched:
            told = counters if FAMILIES[sample[0]].kind == "counter" else gauges
            told[sample] = told.get(sample, 0) + read()
        return Snapshot(self._exchanges, counters, gauges)

    def go_on_from(self, former: Snapshot) -> None:
        """Begin where a worker that has ended stopped counting: a total that falls looks like a restart of all."""
        self._exchanges = {whose: list(numbers) for whose, numbers in former.exchanges.items()}
        self._counters = dict(former.counters)

    def _begin(self, whose: Whose) -> list[float]:
        return self._exchanges.setdefault(whose, [0] * SIZE)


def place(method: str, status: int, ours: bool) -> int:
    """Where a request is counted."""
    kind = status // 100 if 99 < status < 600 else 0
    if ours:
        kind += 2 * STATUSES
    return kind if method in READS else kind + STATUSES


def check(name: str, labels: tuple[str, ...], *kinds: str) -> None:
    """Raises ValueError for what the page about metrics would not tell of."""
    family = FAMILIES.get(name)
    if family is None or family.kind not in kinds or len(labels) != len(family.labels):
        raise ValueError(f"{name}{list(labels)} is not in FAMILIES as a {' or '.join(kinds)} with these labels")
