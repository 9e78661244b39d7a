"""Numbers ▸ the text that Prometheus reads (exposition format 0.0.4)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from gateway.metrics.counts import BUCKETS, HISTOGRAM, PARTS, SPLIT
from gateway.metrics.families import BOUNDS_MS, DURATION, FAMILIES
from gateway.metrics.page import Key

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
BOUNDS: Final = (*(repr(bound / 1000) for bound in BOUNDS_MS), "+Inf")


def exposition(numbers: Mapping[Key, Sequence[float]]) -> str:
    """All families that have something to tell, in the order of FAMILIES."""
    samples: dict[str, list[str]] = {name: [] for name in FAMILIES}
    for key in sorted(numbers):
        if key[0] == SPLIT:
            samples[DURATION] += _split(key[1:], numbers[key])
        else:
            name, *labels = key
            samples[name].append(f"{name}{_labels(name, labels)} {_number(numbers[key][0])}")
    told: list[str] = []
    for name, lines in samples.items():
        if lines:
            family = FAMILIES[name]
            told += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}", *lines]
    return "\n".join([*told, ""])


def _split(whose: Key, numbers: Sequence[float]) -> Iterator[str]:
    for n, part in enumerate(PARTS):
        *counts, sum_ms = numbers[n * HISTOGRAM : n * HISTOGRAM + BUCKETS + 1]
        if not any(counts):
            continue
        labels = _labels(DURATION, (*whose, part))
        begin = f"{DURATION}_bucket{labels[:-1]},le="
        reached = 0.0
        for bound, reached in zip(BOUNDS, accumulate(counts), strict=True):
            yield f'{begin}"{bound}"}} {_number(reached)}'
        yield f"{DURATION}_sum{labels} {_number(sum_ms / 1000)}"
        yield f"{DURATION}_count{labels} {_number(reached)}"


def _labels(name: str, values: Iterable[str]) -> str:
    pairs = zip(FAMILIES[name].labels, values, strict=True)
    told = ",".join(f'{label}="{value.translate(ESCAPED)}"' for label, value in pairs)
    return f"{{{told}}}" if told else ""


def _number(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)
