"""Which numbers a request adds to.

On its path that is one look-up and a few additions to computed places: no objects, no locks, no text. The labels come
from lists that are known beforehand (methods, statuses, our codes, declared integrations), so that no caller and no
provider can make them many.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final, TypeAlias, get_args

import structlog

from gateway import clock
from gateway.errors import Code
from gateway.metrics.families import BOUNDS_MS, FAMILIES, OTHERS, REQUESTS
from gateway.metrics.page import SEEN_AT, SPARE_CELLS, Key, Page, PageFull
from gateway.records.exchange import Exchange

Whose: TypeAlias = tuple[str, str]
Answer: TypeAlias = tuple[str, int, str | None]
Split: TypeAlias = tuple[dict[Answer, int], int]  # where its answers are counted; where its histograms begin
Sample: TypeAlias = tuple[Key, float]

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
STATUSES: Final = frozenset({499, *(status.value for status in HTTPStatus)})
ERRORS: Final = frozenset({"client_left", "cut", "stopped", *get_args(Code)})
OTHER: Final = "other"

PARTS: Final = ("gateway", "token", "upstream")
BUCKETS: Final = len(BOUNDS_MS) + 1
HISTOGRAM: Final = BUCKETS + 1  # the last cell is the sum, in ms
GATEWAY, TOKEN, UPSTREAM = (n * HISTOGRAM for n in range(3))
SPLIT: Final = "split"  # the key of an integration's three histograms, side by side

MOST_INTEGRATIONS: Final = 1000
REST: Final[Whose] = ("", OTHER)  # of those beyond

log = structlog.get_logger(__name__)


class Metrics:
    """The numbers of this process; handed on from one configuration to the next.

    `known` says whether an environment has an integration of that name. Requests that name another are counted under an
    empty one.
    """

    def __init__(self, known: Callable[[str, str], bool], page: Page | None = None) -> None:
        self.known = known
        self._watched: list[Callable[[], Iterable[Sample]]] = []
        self.move_to(page or Page.alone())

    def move_to(self, page: Page) -> None:
        """Count on `page` from now on, going on from what stands there."""
        self._page = page
        self._cells = page.cells
        self._split: dict[Whose, Split] = {}
        self._named = {key[1:] for key, _ in page.read() if key[0] == SPLIT}
        self._others: dict[Answer, int] = {}
        self._places: dict[Key, int] = {}
        self._begun_with: dict[Key, float] = {}
        self._full = False

    def turn_to(self, known: Callable[[str, str], bool]) -> None:
        """Let `known` decide from now on. What was counted stays."""
        self.known = known
        self._split.clear()

    def observe(self, exchange: Exchange) -> None:
        """Count a request that is over. Under a microsecond for all but the first of its kind."""
        upstream_ms = exchange.upstream_ms
        if upstream_ms is None:
            self._add(self._others, (OTHERS,), (exchange.method, exchange.status, exchange.error_code))
            return
        cells = self._cells
        try:
            answers, at = self._split[exchange.environment, exchange.integration_id]
            cells[answers[exchange.method, exchange.status, exchange.error_code]] += 1.0
        except KeyError:
            at = self._first_of_its_kind(exchange)
        gateway_ms, token_ms = exchange.gateway_ms or 0.0, exchange.token_ms
        cells[at + bisect_left(BOUNDS_MS, gateway_ms)] += 1.0
        cells[at + BUCKETS] += gateway_ms
        if upstream_ms:
            cells[at + UPSTREAM + bisect_left(BOUNDS_MS, upstream_ms)] += 1.0
            cells[at + UPSTREAM + BUCKETS] += upstream_ms
        if token_ms:
            cells[at + TOKEN + bisect_left(BOUNDS_MS, token_ms)] += 1.0
            cells[at + TOKEN + BUCKETS] += token_ms

    def add(self, name: str, *labels: str) -> None:
        """One more of a counter that is not counted for every request. `name` is one of FAMILIES."""
        self._cells[self._place(checked((name, *labels), "counter"))] += 1.0

    def watch(self, read: Callable[[], Iterable[Sample]]) -> None:
        """Ask `read` whenever the numbers are wanted: for gauges, and for counters of this process that others keep."""
        self._watched.append(read)

    def publish(self) -> None:
        """Write down what is watched, for whoever reads the page."""
        told: dict[Key, float] = {}
        for read in self._watched:
            for key, number in read():
                told[key] = told.get(key, 0.0) + number
        for key in self._begun_with.keys() - told.keys():
            if FAMILIES[key[0]].kind == "gauge":
                self._cells[self._place(key)] = 0.0
        for key, number in told.items():
            at = self._place(checked(key, "gauge", "counter"))
            if key not in self._begun_with:  # a counter goes on from where whoever was here before has left it
                self._begun_with[key] = self._cells[at] if FAMILIES[key[0]].kind == "counter" else 0.0
            self._cells[at] = self._begun_with[key] + number
        self._cells[SEEN_AT] = clock.monotonic()

    def _first_of_its_kind(self, exchange: Exchange) -> int:
        whose = exchange.environment, exchange.integration_id
        if not self.known(*whose):
            whose = exchange.environment, ""
        elif whose not in self._named and len(self._named) >= MOST_INTEGRATIONS:
            whose = REST
        answers, at = self._split.get(whose) or self._begin(whose)
        self._add(answers, (REQUESTS, *whose), (exchange.method, exchange.status, exchange.error_code))
        return at

    def _begin(self, whose: Whose) -> Split:
        begun: Split = {}, self._place((SPLIT, *whose), len(PARTS) * HISTOGRAM)
        self._named.add(whose)
        self._split[whose] = begun
        return begun

    def _add(self, answers: dict[Answer, int], family: Key, answer: Answer) -> None:
        at = answers.get(answer)
        if at is None:
            method, status, error = answer = spelled(answer)
            at = answers[answer] = self._place((*family, method, status_text(status), error or ""))
        self._cells[at] += 1.0

    def _place(self, key: Key, width: int = 1) -> int:
        at = self._places.get(key)
        if at is None:
            try:
                at = self._places[key] = self._page.place(key, width)
            except PageFull:
                at = self._spare()
        return at

    def _spare(self) -> int:
        """Where counts go that find no room any more, to be told of no one."""
        if not self._full:
            self._full = True
            log.error("metrics_full", effect="what is new is not told at /metrics from now on")
        return len(self._cells) - SPARE_CELLS


def spelled(answer: Answer) -> Answer:
    """With what is on no list replaced by something that is."""
    method, status, error = answer
    return (
        method if method in METHODS else OTHER,
        status if status in STATUSES else status // 100 if 100 <= status <= 599 else 0,
        error if error is None or error in ERRORS else OTHER,
    )


def status_text(status: int) -> str:
    """``404``; ``4xx`` for one that is not registered, and ``other``."""
    return OTHER if status == 0 else f"{status}xx" if status < 10 else str(status)


def checked(key: Key, *kinds: str) -> Key:
    """Raises ValueError for what the page about metrics would not tell of."""
    family = FAMILIES.get(key[0])
    if family is None or family.kind not in kinds or len(key) != 1 + len(family.labels):
        raise ValueError(f"{key} is not in FAMILIES as a {' or '.join(kinds)} with these labels")
    return key
