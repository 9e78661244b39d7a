"""Figures as inline SVG: bars over time, and the parts of one duration. No script, no style attribute, a text for readers."""

from collections.abc import Sequence
from typing import Final, NamedTuple

WIDTH: Final = 720
HEIGHT: Final = 96


class Bar(NamedTuple):
    """Calls in one span of time; `failed` are among `total`."""

    label: str
    total: int
    failed: int


def bars(given: Sequence[Bar]) -> dict[str, object]:
    """Rectangles of a bar chart, in units of `WIDTH` by `HEIGHT`; failed ones lie at the bottom of each bar."""
    most = max((bar.total for bar in given), default=0)
    step = WIDTH / max(len(given), 1)
    shapes = []
    for place, bar in enumerate(given):
        high, bad = (round(HEIGHT * number / most, 1) if most else 0.0 for number in (bar.total, bar.failed))
        x, width = round(place * step, 1), round(max(step - 2, 1), 1)
        shapes.append({"x": x, "width": width, "high": high, "bad": bad, "text": _text(bar)})
    return {"width": WIDTH, "height": HEIGHT, "bars": shapes, "most": most}


def _text(bar: Bar) -> str:
    return f"{bar.label}: {bar.total}, {bar.failed} failed"


class Part(NamedTuple):
    name: str
    ms: float


def parts(given: Sequence[Part]) -> dict[str, object]:
    """Where a duration went: each part behind the one before, in units of `WIDTH`."""
    whole = sum(part.ms for part in given) or 1.0
    shapes, x = [], 0.0
    for part in given:
        width = WIDTH * part.ms / whole
        shapes.append({"name": part.name, "ms": round(part.ms, 1), "x": round(x, 1), "width": round(width, 1)})
        x += width
    return {"width": WIDTH, "parts": shapes}
