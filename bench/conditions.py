"""``python -m bench.conditions``: ordinary calls of every shape, the gateway under other conditions, and latency at a
fixed rate.

Writes bench/shapes.md, with "met" or "missed" for each goal.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import load, proc
from bench.contenders import PEERS, Contender
from bench.gateway_contender import GatewayContender
from bench.goals import Goal
from bench.open_loop import Latency, at_rate
from bench.result import MANY
from bench.server import CannotRun, Server, raise_file_limit
from bench.shapes import MANY_TURNS, NAMES, WARM_S, measure, one_load, running_contenders, table

GET, POST = "GET 1.3 kB", "POST 300 B"
LATE: Final = 2.0  # largest accepted p99.9, as a multiple of the Go proxy's
ONCE_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class Pair:
    """Two loads to compare. `one`, `other`: the name of a contender and the name of a shape. `limit`: largest accepted
    ratio.
    """

    words: str
    one: tuple[str, str]
    other: tuple[str, str]
    limit: float


GATEWAY: Final = "gateway"
PAIRS: Final = (
    Pair("the plugin, through the chain, to ClientSession: GET 1.3 kB", ("plugin", GET), ("aiohttp", GET), 1.2),
    Pair("the plugin, through the chain, to ClientSession: POST 300 B", ("plugin", POST), ("aiohttp", POST), 1.2),
    Pair(
        "MCP tools/call, to the same POST",
        (GATEWAY, "MCP tools/call"),
        (GATEWAY, "POST, key with rules and budget"),
        1.5,
    ),
    Pair("PostgreSQL, to SQLite: POST 300 B", ("postgres", POST), (GATEWAY, POST), 1.1),
    Pair("2 workers, to one: POST 300 B", ("two", POST), (GATEWAY, POST), 1.1),
    Pair("1 % of the calls traced, to none: POST 300 B", ("traced", POST), (GATEWAY, POST), 1.03),
    Pair("the console on, to off: POST 300 B", ("console", POST), (GATEWAY, POST), 1.03),
    Pair("10,000 connections in turn, to one", ("many", "10,000 connections in turn"), ("many", GET), 1.25),
)
CONTENDERS: Final = (
    GatewayContender(),
    GatewayContender("plugin", plugin=True),
    GatewayContender("postgres", postgres=True),
    GatewayContender("two", workers=2),
    GatewayContender("traced", traced=0.01),
    GatewayContender("console", settings={"console": {"enabled": True}}),
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """`one` and `other`: CPU time per request in µs."""

    goal: Goal
    one: float
    other: float


def compare(pair: Pair, servers: dict[str, Server], rounds: int, seconds: int) -> Ratio:
    """Measure both loads of `pair` alternately. Raises CannotRun."""
    both: tuple[list[float], list[float]] = ([], [])
    sides = (pair.one, pair.other)
    for server, _ in sides:
        if server not in servers:
            raise CannotRun(f"{pair.words}: {server} is not available on this machine")
    for server, shape in sides:
        one_load(servers[server], shape, WARM_S)
    for number in range(rounds):
        for side in (0, 1) if number % 2 else (1, 0):
            server, shape = sides[side]
            both[side].append(one_load(servers[server], shape, seconds))
    found = statistics.median(a / b for a, b in zip(*both, strict=True))
    return Ratio(Goal(pair.words, pair.limit, found), statistics.median(both[0]), statistics.median(both[1]))


def latencies(servers: dict[str, Server], rounds: int, seconds: int) -> tuple[float, dict[str, list[Latency]]]:
    """Measure latencies at half of the gateway's maximum rate.

    Return this rate, and the latencies of each server, one per round. Raises CannotRun.
    """
    rate = load.measure_load(servers[GATEWAY], connections=MANY, seconds=max(2, seconds)).per_second / 2
    found: dict[str, list[Latency]] = {}
    names = [name for name in ("nginx", "go", "node", "aiohttp", GATEWAY) if name in servers]
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            found.setdefault(name, []).append(at_rate(servers[name].target, rate, 3 * seconds))
    return rate, found


def cold_and_warm(server: Server) -> tuple[float, float]:
    """Return the CPU time in µs of each connection's first call after the start, and the CPU time of its second call."""
    figures = []
    for _ in range(2):
        pids, before = server.pids(), proc.cpu_s(server.pids())
        load.once_each(server.target, MANY_TURNS, ONCE_AT_ONCE)
        figures.append((proc.cpu_s(pids) - before) * 1e6 / MANY_TURNS)
    return figures[0], figures[1]


def ratio_table(ratios: list[Ratio]) -> str:
    lines = ["| what, to what | CPU µs | CPU µs | limit | found | |", "|---|---:|---:|---:|---:|---|"]
    for ratio in ratios:
        figures = f"{ratio.one:.0f} | {ratio.other:.0f} | {ratio.goal.limit:g} | {ratio.goal.found:.2f}"
        lines.append(f"| {ratio.goal.words} | {figures} | {ratio.goal.verdict} |")
    return "\n".join(lines)


def latency_table(latencies_by_server: dict[str, list[Latency]]) -> tuple[str, Goal]:
    """Return the table of latencies, and the goal for p99.9."""
    lines = ["| | p50 ms | p99 ms | p99.9 ms |", "|---|---:|---:|---:|"]
    for name, rounds in latencies_by_server.items():
        cells = [
            f"{statistics.median(getattr(measured, figure) for measured in rounds):.2f}"
            for figure in ("p50", "p99", "p999")
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    pairs = zip(latencies_by_server.get(GATEWAY, []), latencies_by_server.get("go", []), strict=False)
    ratios = [ours.p999 / theirs.p999 for ours, theirs in pairs]
    goal = Goal("p99.9 to Go's ReverseProxy", LATE, statistics.median(ratios) if ratios else None)
    return "\n".join(lines), goal


def conditions(rounds: int, seconds: int, say: Callable[[str], None]) -> list[str]:
    """Return the parts of the page that come after the shapes. `say`: called with each step before it begins."""

    def compare_and_print(pair: Pair, among: dict[str, Server]) -> Ratio:
        say(pair.words)
        return compare(pair, among, rounds, seconds)

    peers: list[Contender] = [peer for peer in PEERS if peer.name in ("nginx", "go", "node", "aiohttp")]
    parts: list[str] = []
    failed: list[str] = []
    say("start the gateway under other conditions")
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as top,
        running_contenders(Path(top), [*peers, *CONTENDERS]) as up,
    ):
        servers = {server.name: server for server in up}
        found = _measure_pairs(PAIRS[:-1], lambda pair: compare_and_print(pair, servers), failed)
        say("latencies at half of the maximum rate")
        rate, late = latencies(servers, rounds, seconds)
    say(f"start with {MANY_TURNS} connections")
    with tempfile.TemporaryDirectory(prefix="bench-") as top:
        many = GatewayContender("many", usable=MANY_TURNS, connections=MANY_TURNS)
        with running_contenders(Path(top), [many]) as up:
            cold, warm = cold_and_warm(up[0])
            found += _measure_pairs(PAIRS[-1:], lambda pair: compare_and_print(pair, {"many": up[0]}), failed)
    rows, goal = latency_table(late)
    text = "–" if goal.found is None else f"{goal.found:.2f}"
    parts += ["## The gateway under other conditions", ratio_table(found)]
    parts.append(
        f"The first call of each of 10,000 connections since the start: {cold:.0f} µs of CPU; the second: {warm:.0f}."
    )
    parts += [f"## Latency at {rate:.0f} requests a second, half of the gateway's maximum", rows]
    parts.append(f"{goal.words}: at most {goal.limit:g}, found {text}, {goal.verdict}.")
    return parts + [f"- {words}" for words in failed]


def _measure_pairs(pairs: tuple[Pair, ...], measured: Callable[[Pair], Ratio], failed: list[str]) -> list[Ratio]:
    found = []
    for pair in pairs:
        try:
            found.append(measured(pair))
        except CannotRun as fault:
            failed.append(str(fault))
    return found


def main() -> int:
    """Write the page and print it. Return 1 if the upstream cannot be started."""
    parser = argparse.ArgumentParser(prog="python -m bench.conditions", description="The gateway beside other proxies.")
    parser.add_argument("--quick", action="store_true", help="one round of a second: about five minutes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=[*NAMES, "conditions"], help="a shape; repeatable")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder of shapes.md")
    options = parser.parse_args()
    rounds, seconds = (1, 1) if options.quick else (options.rounds, options.seconds)
    raise_file_limit()
    began = time.monotonic()

    def say(step: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - began:5.0f} s] {step}\n")

    names = [name for name in NAMES if not options.only or name in options.only]
    parts = ["# Results of `make bench-shapes`"]
    load_average = Path("/proc/loadavg").read_text().split()[0]
    parts.append(
        f"{time.strftime('%Y-%m-%d')}, {proc.machine()}, load average {load_average} at the start. "
        f"CPU µs per request, {MANY} connections, TLS upstream; {rounds} rounds of {seconds} s in turns, medians. "
        "Ratios are taken within each round."
    )
    try:
        if names:
            found, failed = measure(names, rounds, seconds, say)
            parts += ["## Shapes", table(found), *(f"- {words}" for words in failed)]
            _write_page(options.out, parts)  # half of the page is kept if a later measurement fails
        if not options.only or "conditions" in options.only:
            parts += conditions(rounds, seconds, say)
    except CannotRun as fault:
        sys.stderr.write(f"bench: {fault}\n")
        return 1
    sys.stdout.write(_write_page(options.out, parts))
    return 0


def _write_page(folder: Path, parts: list[str]) -> str:
    page = "\n\n".join(parts) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "shapes.md").write_text(page)
    return page


if __name__ == "__main__":
    sys.exit(main())
