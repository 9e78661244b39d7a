"""Runs the benchmark. All contenders run at the same time and are measured one after the other, in several rounds."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from bench import load, proc, streams, upstream
from bench.contenders import PEERS, Contender
from bench.gateway_contender import IN_USE, GatewayContender
from bench.result import MANY, Result, Row
from bench.server import CLIENTS, CannotRun, Server

VARIANTS: Final = (
    GatewayContender("ten", "10 connections stored", "requests take turns over them"),
    GatewayContender("full", "100,000 connections stored", "requests take turns over ten of them", connections=100_000),
    GatewayContender("two", "2 workers", "one listening socket", workers=2),
)
_SETTLE_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure. `only`: names of contenders; empty means all. Sizes are in bytes, times in seconds."""

    rounds: int = 5
    seconds: float = 3.0
    size: int = 1 << 30
    events: int = 50
    idle: int = 10_000
    only: tuple[str, ...] = ()
    built_in: bool = False

    def wants(self, contender: Contender) -> bool:
        return not self.only or contender.name in self.only


FULL: Final = Options()
QUICK: Final = Options(rounds=2, seconds=1.0, size=1 << 26, events=10, idle=500)


def run(options: Options, say: Callable[[str], None]) -> Result:
    """Measure everything. Call `say` with the text of each step. Raises CannotRun if nothing could be measured."""
    generator = "the built-in load generator" if options.built_in else load.generator()
    made = time.strftime("%Y-%m-%d")
    result = Result(f"{proc.machine()}, Python {sys.version.split()[0]}", made, generator, asdict(options))
    with tempfile.TemporaryDirectory(prefix="bench-") as top:
        result.rows = _measure_all(
            _available([*PEERS, GatewayContender()], options, result), options, Path(top) / "a", say, streamed=True
        )
        result.variants = _measure_all(
            _available(VARIANTS, options, result), options, Path(top) / "b", say, streamed=False
        )
    if not any(row.loads for row in result.rows):
        raise CannotRun("No contender could be measured; " + "; ".join(w for row in result.rows for w in row.skipped))
    return result


def _available(contenders: Sequence[Contender], options: Options, result: Result) -> list[Contender]:
    available = []
    for contender in filter(options.wants, contenders):
        if why := contender.missing():
            result.missing[contender.title] = why
        else:
            available.append(contender)
    return available


def _measure_all(
    contenders: Sequence[Contender], options: Options, folder: Path, say: Callable[[str], None], *, streamed: bool
) -> list[Row]:
    rows = {
        contender.name: Row(contender.name, contender.title, contender.note, contender.version())
        for contender in contenders
    }
    with _running_contenders(contenders, rows, folder / "small", say, streamed=False) as servers:
        _take_turns(servers, rows, options, say)
        for server in servers if streamed else []:
            _try(rows[server.name], say, "idle connections", partial(_idle, server, rows[server.name], options))
    if streamed:
        with _running_contenders(contenders, rows, folder / "streams", say, streamed=True) as servers:
            for number in range((options.rounds + 1) // 2):
                for server in _rotate(servers, number):
                    _try(rows[server.name], say, "download", partial(_download, server, rows[server.name], options))
                    _try(rows[server.name], say, "upload", partial(_upload, server, rows[server.name], options))
            for server in servers:
                _try(rows[server.name], say, "events", partial(_events, server, rows[server.name], options))
    return list(rows.values())


@contextmanager
def _running_contenders(
    contenders: Sequence[Contender], rows: dict[str, Row], folder: Path, say: Callable[[str], None], *, streamed: bool
) -> Iterator[list[Server]]:
    """Start the contenders in front of one upstream. Yield those that started, and report the others."""
    with ExitStack() as stack:
        (folder / "upstream").mkdir(parents=True)
        make = upstream.streams if streamed else upstream.small
        upstream_server = stack.enter_context(make(folder / "upstream"))
        servers = []
        for contender in contenders:
            own = folder / contender.name
            own.mkdir()
            say(f"start {contender.name}")
            try:
                running = contender.running(own, upstream_server.target.port, streams=streamed)
                server = stack.enter_context(running)
            except (CannotRun, OSError, subprocess.SubprocessError) as fault:
                rows[contender.name].skipped.append(str(fault))
                say(f"skip {contender.name}: {fault}")
                continue
            server.name = contender.name
            servers.append(server)
        time.sleep(_SETTLE_S)
        for server in servers:
            row, pids = rows[server.name], server.pids()
            row.starts_s.append(server.start_s)
            row.starts_cpu_s.append(server.start_cpu_s)
            row.idle_mib, row.worker_mib = proc.rss_mib(pids), max(proc.rss_mib([pid]) for pid in pids)
        yield servers


def _take_turns(servers: list[Server], rows: dict[str, Row], options: Options, say: Callable[[str], None]) -> None:
    """Measure in several rounds. Round 0 only warms up. Each later round begins with another contender."""
    for number in range(options.rounds + 1):
        for connections in (MANY, 1):
            for server in _rotate(servers, number):
                say(f"round {number} of {options.rounds}: {server.name}, {connections} connections")
                row = rows[server.name]
                seconds = options.seconds if number else min(1.0, options.seconds)
                turns = IN_USE if server.name in ("ten", "full") else 0
                try:
                    found = load.measure_load(
                        server, connections=connections, seconds=seconds, turns=turns, built_in=options.built_in
                    )
                except CannotRun as fault:
                    row.skipped.append(str(fault))
                    say(str(fault))
                    continue
                if number:
                    row.loads.setdefault(connections, []).append(replace(found, round=number))


def _download(server: Server, row: Row, options: Options) -> None:
    row.down.append(streams.download(server, options.size))


def _upload(server: Server, row: Row, options: Options) -> None:
    row.up.append(streams.upload(server, options.size))


def _idle(server: Server, row: Row, options: Options) -> None:
    row.idle = streams.idle(server, min(options.idle, CLIENTS))


def _events(server: Server, row: Row, options: Options) -> None:
    row.event_delays_ms = streams.event_delays_ms(server, count=options.events, every_ms=10)


def _try(row: Row, say: Callable[[str], None], label: str, measure: Callable[[], None]) -> None:
    """Run `measure`. If it fails, record the failure in the row, so that the other measurements continue."""
    say(f"{row.name}: {label}")
    try:
        measure()
    except (CannotRun, OSError) as fault:
        row.skipped.append(f"{label}: {fault}")
        say(f"{row.name}: {label} failed: {fault}")


def _rotate(servers: list[Server], count: int) -> list[Server]:
    count %= max(1, len(servers))
    return servers[count:] + servers[:count]
