"""bench/results.md: the figures of one run, as tables."""

import statistics

from bench.goals import goals
from bench.result import MANY, Result, Row, ratio

NOTHING = "–"


def as_markdown(result: Result) -> str:
    """Return the whole page."""
    parts = [
        "# Results of `make bench`",
        _conditions(result),
        "![CPU time per request, by contender](results.svg)",
        "## Goals",
        _table(["goal", "limit", "found", ""], [_goal_cells(result, number) for number in range(len(goals(result)))]),
        "## Requests",
        "A GET of 1.3 kB. CPU: time of all the contender's processes; `×`: to the first row, the median of each round's ratio.",
        _requests(result.rows),
        "## Streams and memory",
        "Growth: the highest resident memory during a stream, less what stood before it. Events: how late one arrives.",
        _streams(result.rows),
    ]
    if result.variants:
        parts += ["## The gateway under other conditions", _requests(result.variants)]
    parts += ["## Left out", *_left_out_lines(result)]
    return "\n\n".join(parts) + "\n"


def _conditions(result: Result) -> str:
    options = result.options
    versions = ", ".join(f"{row.title.strip('*')} {row.version}".strip() for row in result.rows)
    return (
        f"{result.made}, {result.machine}. Load by {result.generator}: {options['rounds']} rounds of {options['seconds']:g} s, "
        f"in turns, all on this machine over the loopback address. {versions}."
    )


def _goal_cells(result: Result, number: int) -> list[str]:
    goal = goals(result)[number]
    sign = "≥" if goal.at_least else "≤"
    return [goal.words, f"{sign} {goal.limit:.3g}", _figure(goal.found, 2), goal.verdict]


def _requests(rows: list[Row]) -> str:
    first = next((row for row in rows if row.loads), None)
    head = [
        "",
        "CPU µs",
        "range",
        "×",
        "req/s, 32",
        "p50 ms",
        "p99 ms",
        "CPU µs, 1",
        "req/s, 1",
        "p50 ms",
        "p99 ms",
        "note",
    ]
    lines = []
    for row in rows:
        cells = [row.title, _figure(row.middle(MANY, "cpu_us"), 0), _range(row), _figure(ratio(row, first), 1)]
        for connections in (MANY, 1):
            if connections == 1:
                cells.append(_figure(row.middle(1, "cpu_us"), 0))
            cells.append(_figure(row.middle(connections, "per_second"), 0))
            cells += [_figure(_ms(row.middle(connections, figure)), 2) for figure in ("p50_us", "p99_us")]
        lines.append([*cells, row.note])
    return _table(head, lines)


def _streams(rows: list[Row]) -> str:
    head = ["", "down MiB/s", "CPU ms/MiB", "growth MiB", "up MiB/s", "CPU ms/MiB", "growth MiB"]
    head += ["event p50 ms", "worst ms", "idle MiB", "idle connections", "KiB each", "start s", "CPU s"]
    lines = []
    for row in rows:
        cells = [row.title]
        for direction in ("down", "up"):
            cells.append(_figure(row.stream(direction, "mib_per_second"), 0))
            cells.append(_figure(row.stream(direction, "cpu_ms_per_mib"), 2))
            cells.append(_figure(row.stream(direction, "grown_mib"), 1))
        delays = row.event_delays_ms
        cells += [_figure(statistics.median(delays), 2), _figure(delays[-1], 2)] if delays else [NOTHING, NOTHING]
        cells.append(_figure(row.idle_mib or None, 1))
        cells += [f"{row.idle.connections:,}", _figure(row.idle.kib_each, 1)] if row.idle else [NOTHING, NOTHING]
        lines.append([*cells, _figure(row.start_s, 2), _figure(row.start_cpu_s, 2)])
    return _table(head, lines)


def _left_out_lines(result: Result) -> list[str]:
    reported = [
        f"- {title}: {why}; `make bench-peers` installs what Debian has." for title, why in result.missing.items()
    ]
    for row in [*result.rows, *result.variants]:
        reported += [f"- {row.title}: {words}" for words in dict.fromkeys(row.skipped)]
    return ["\n".join(reported) or "Nothing."]


def _range(row: Row) -> str:
    found = [load.cpu_us for load in row.loads.get(MANY, [])]
    return f"{min(found):.0f}–{max(found):.0f}" if found else NOTHING


def _ms(us: float | None) -> float | None:
    return None if us is None else us / 1000


def _figure(value: float | None, places: int) -> str:
    return NOTHING if value is None else f"{value:,.{places}f}"


def _table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *lines])
