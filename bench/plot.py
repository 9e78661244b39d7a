"""bench/results.svg: CPU time per request as a bar chart, for light and dark mode."""

from typing import Final
from xml.sax.saxutils import escape

from bench.result import MANY, Result

WIDTH: Final = 760
_LEFT, _BAR, _GAP, _TOP = 200, 22, 12, 56
_ROOM: Final = WIDTH - _LEFT - 150

_STYLE: Final = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .note, .figure { fill: #59636e; }
  .bar { fill: #8c959f; }
  .ours { fill: #0969da; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .note, .figure { fill: #9198a1; }
    .bar { fill: #656c76; }
    .ours { fill: #4493f8; }
  }
"""


def as_svg(result: Result) -> str:
    """Return the chart. All bars start at zero, so the shortest bar shows the least CPU time."""
    measured = [(row, cpu) for row in result.rows if (cpu := row.middle(MANY, "cpu_us"))]
    longest = max((cpu for _, cpu in measured), default=1.0)
    height = _TOP + len(measured) * (_BAR + _GAP) + 30
    reported = ", ".join(f"{row.title.strip('*')} {cpu:.0f} µs" for row, cpu in measured)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="t d">',
        '<title id="t">CPU time per request, by proxy</title>',
        f'<desc id="d">{escape(reported)}</desc>',
        f"<style>{_STYLE}</style>",
        '<text class="title" x="10" y="26">CPU time per request, µs (less is better)</text>',
    ]
    for place, (row, cpu) in enumerate(measured):
        y = _TOP + place * (_BAR + _GAP)
        width = max(1.0, cpu / longest * _ROOM)
        kind = "bar ours" if row.name == "gateway" else "bar"
        first = measured[0][1]
        lines += [
            f'<text x="{_LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(row.title.strip("*"))}</text>',
            f'<rect class="{kind}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="3"/>',
            f'<text class="figure" x="{_LEFT + width + 8:.1f}" y="{y + 16}">{cpu:.0f} · {cpu / first:.1f} ×</text>',
        ]
    note = f"GET of 1.3 kB, {MANY} keep-alive connections; the gateway with key, connection, injection and log"
    lines += [f'<text class="note" x="10" y="{height - 12}">{note}</text>', "</svg>"]
    return "\n".join(lines) + "\n"
