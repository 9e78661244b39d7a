"""Numbers ▸ the text that Prometheus reads (exposition format 0.0.4)."""

from collections.abc import Iterable, Iterator
from itertools import accumulate, product
from typing import Final

from gateway.metrics.counts import BUCKETS, OUR_API, PARTS, STATUSES
from gateway.metrics.families import BOUNDS, FAMILIES, Family
from gateway.metrics.snapshot import Sample, Snapshot

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
ANSWERED: Final = tuple(product(("provider", "gateway"), ("read", "write"), range(STATUSES)))


def exposition(snapshot: Snapshot) -> str:
    """All families that have something to tell, in the order of FAMILIES."""
    samples: dict[str, list[str]] = {name: [] for name in FAMILIES}
    for name, line in _lines(snapshot):
        samples[name].append(line)
    told: list[str] = []
    for name, lines in samples.items():
        if lines:
            family = FAMILIES[name]
            told += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}", *lines]
    return "\n".join([*told, ""])


def _lines(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for whose, numbers in sorted(snapshot.exchanges.items()):
        for (by, method, status), number in zip(ANSWERED, numbers, strict=False):
            labels = (method, f"{status}xx" if status else "other")
            if number and whose == OUR_API:
                yield "gateway_api_requests_total", _line(("gateway_api_requests_total", *labels), number)
            elif number:
                proxied = ("gateway_proxy_requests_total", *whose, *labels, by)
                yield proxied[0], _line(proxied, number)
        for part, at in PARTS.items():
            counts, total = numbers[at : at + BUCKETS], numbers[at + BUCKETS]
            if any(counts):
                for line in _histogram(("gateway_proxy_seconds", *whose, part), counts, total):
                    yield "gateway_proxy_seconds", line
    for sample, number in sorted({**snapshot.counters, **snapshot.gauges}.items()):
        yield sample[0], _line(sample, number)


def _histogram(sample: Sample, counts: list[float], total: float) -> Iterator[str]:
    name, *labels = sample
    family = FAMILIES[name]
    bounds = [*map(repr, BOUNDS), "+Inf"]
    for bound, number in zip(bounds, accumulate(counts), strict=True):
        yield f"{name}_bucket{_labels(family, labels, bound)} {_number(number)}"
    yield f"{name}_sum{_labels(family, labels)} {_number(total)}"
    yield f"{name}_count{_labels(family, labels)} {_number(sum(counts))}"


def _line(sample: Sample, number: float) -> str:
    name, *labels = sample
    return f"{name}{_labels(FAMILIES[name], labels)} {_number(number)}"


def _labels(family: Family, values: Iterable[str], bound: str | None = None) -> str:
    pairs = [f'{name}="{value.translate(ESCAPED)}"' for name, value in zip(family.labels, values, strict=True)]
    if bound is not None:
        pairs.append(f'le="{bound}"')
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _number(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)
