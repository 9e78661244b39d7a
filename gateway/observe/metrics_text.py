"""Returns the numbers of all workers as text for Prometheus."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from gateway import clock
from gateway.observe.metrics import BOUNDS_MS, DURATION, FAMILIES, HISTOGRAM_CELLS, PARTS, PARTS_KEY
from gateway.observe.metrics_page import PUBLISHED_AT, Key, MetricsPage

# ── The numbers of all workers, added up.

# Gauges of a worker that has not published for this time are left out; the worker's counters stay.
STALE_S = 5.0


def total(pages: Iterable[MetricsPage]) -> dict[Key, list[float]]:
    """Return every key with the sum of the workers' numbers.

    If `Family.largest` is set, return the number farthest from 0 instead. Gauges of workers that no longer publish are
    left out.
    """
    sums: dict[Key, list[float]] = {}
    now = clock.monotonic()
    for page in pages:
        is_publishing = page.cells[PUBLISHED_AT] > now - STALE_S
        for key, numbers in page.read():
            family = FAMILIES.get(key[0])
            if family is not None and family.kind == "gauge" and not is_publishing:
                continue
            sum_so_far = sums.get(key)
            if sum_so_far is None:
                sums[key] = numbers
            elif family is not None and family.largest:
                sums[key] = max(sum_so_far, numbers, key=lambda candidate: abs(candidate[0]))
            else:
                sums[key] = [a + b for a, b in zip(sum_so_far, numbers, strict=True)]
    return sums


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
BUCKET_LABELS: Final = (*(repr(bound / 1000) for bound in BOUNDS_MS), "+Inf")


def exposition(numbers: Mapping[Key, Sequence[float]]) -> str:
    """Return the text of all metrics that have samples, in the order of FAMILIES."""
    samples: dict[str, list[str]] = {name: [] for name in FAMILIES}
    for key in sorted(numbers):
        if key[0] == PARTS_KEY:
            samples[DURATION] += _histograms_by_part(key[1:], numbers[key])
        elif FAMILIES[key[0]].kind == "histogram":
            samples[key[0]] += _histogram(key[0], key[1:], numbers[key])
        else:
            name, *labels = key
            samples[name].append(f"{name}{_labels(name, labels)} {_number(numbers[key][0])}")
    text: list[str] = []
    for name, lines in samples.items():
        if lines:
            family = FAMILIES[name]
            text += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}", *lines]
    return "\n".join([*text, ""])


def _histograms_by_part(label_values: Key, numbers: Sequence[float]) -> Iterator[str]:
    for index, part in enumerate(PARTS):
        yield from _histogram(
            DURATION, (*label_values, part), numbers[index * HISTOGRAM_CELLS : (index + 1) * HISTOGRAM_CELLS]
        )


def _histogram(name: str, values: Key, numbers: Sequence[float]) -> Iterator[str]:
    """Yield the lines of the histogram's buckets, sum and count; yield nothing if nothing was measured."""
    *counts, sum_ms = numbers
    if not any(counts):
        return
    labels = _labels(name, values)
    line_start = f"{name}_bucket{labels[:-1]},le="
    count_so_far = 0.0
    for bound, count_so_far in zip(BUCKET_LABELS, accumulate(counts), strict=True):
        yield f'{line_start}"{bound}"}} {_number(count_so_far)}'
    yield f"{name}_sum{labels} {_number(sum_ms / 1000)}"
    yield f"{name}_count{labels} {_number(count_so_far)}"


def _labels(name: str, values: Iterable[str]) -> str:
    pairs = zip(FAMILIES[name].labels, values, strict=True)
    label_list = ",".join(f'{label}="{value.translate(ESCAPED)}"' for label, value in pairs)
    return f"{{{label_list}}}" if label_list else ""


def _number(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)
