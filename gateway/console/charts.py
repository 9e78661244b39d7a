"""Charts as inline SVG: bars over time, areas over time, the parts of one duration.

The charts need no script and no style attribute, and each chart has a text for screen readers.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

WIDTH: Final = 720
HEIGHT: Final = 96


class Bar(NamedTuple):
    """The number of calls in one span of time. `total` includes `failed`."""

    label: str
    total: int
    failed: int


def bars(values: Sequence[Bar]) -> dict[str, object]:
    """Return the rectangles of a bar chart that is `WIDTH` by `HEIGHT` units large.

    The failed calls are at the bottom of each bar.
    """
    highest = max((bar.total for bar in values), default=0)
    step = WIDTH / max(len(values), 1)
    shapes = []
    for index, bar in enumerate(values):
        height, failed_height = (
            round(HEIGHT * number / highest, 1) if highest else 0.0 for number in (bar.total, bar.failed)
        )
        x, width = round(index * step, 1), round(max(step - 2, 1), 1)
        shapes.append({"x": x, "width": width, "high": height, "bad": failed_height, "text": _text(bar)})
    return {"width": WIDTH, "height": HEIGHT, "bars": shapes, "most": highest}


def _text(bar: Bar) -> str:
    return f"{bar.label}: {bar.total}, {bar.failed} failed"


def areas(series: Mapping[str, Sequence[float]]) -> dict[str, object]:
    """Return stacked areas as SVG paths, with the first area at the bottom.

    `series`: the values of each area by its name, one value for each step of time.
    """
    steps = max((len(values) for values in series.values()), default=0)
    lower_edge = [0.0] * steps
    totals = [sum(values[n] for values in series.values()) for n in range(steps)]
    highest = max(totals, default=0.0)
    shapes = []
    for name, values in series.items():
        upper_edge = [lower_value + value for lower_value, value in zip(lower_edge, values, strict=True)]
        upper = [_point(n, steps, value, highest) for n, value in enumerate(upper_edge)]
        lower = [_point(n, steps, value, highest) for n, value in reversed(list(enumerate(lower_edge)))]
        shapes.append({"name": name, "path": f"M{' '.join([*upper, *lower])}Z" if steps else ""})
        lower_edge = upper_edge
    return {"width": WIDTH, "height": HEIGHT, "areas": shapes, "most": round(highest, 1)}


def _point(index: int, steps: int, value: float, highest: float) -> str:
    x = WIDTH * (index + 0.5) / steps
    return f"{x:.0f},{HEIGHT - (HEIGHT * value / highest if highest else 0):.1f}"


class Part(NamedTuple):
    name: str
    ms: float


def parts(values: Sequence[Part]) -> dict[str, object]:
    """Return the parts of a duration as rectangles next to each other, which together are `WIDTH` units wide."""
    total = sum(part.ms for part in values) or 1.0
    shapes, x = [], 0.0
    for part in values:
        width = WIDTH * part.ms / total
        shapes.append({"name": part.name, "ms": round(part.ms, 1), "x": round(x, 1), "width": round(width, 1)})
        x += width
    return {"width": WIDTH, "parts": shapes}
