"""The shapes of ordinary calls, and a mix of these shapes: CPU time per request of gateway and peers with a TLS
upstream.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import proc, upstream
from bench.contenders import PEERS, Contender
from bench.gateway_contender import GatewayContender, other_targets
from bench.goals import Goal
from bench.result import MANY
from bench.server import HOST, CannotRun, Server

BESIDE: Final = ("nginx", "go", "node", "aiohttp")


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of request.

    `body` and `headers` (additional header bytes) are sizes in bytes. `weight`: percentage of the shape in the mix.
    `trace`: each request has another ``traceparent``. `ids`: each request also has another ``tracestate``,
    ``Idempotency-Key`` and ``X-Request-Id``.

    `target`: the target of the gateway to call (`bench.gateway_contender.other_targets`); other proxies get the plain
    request. `text`: the body itself. `turns`: number of gateway connections that the requests use one after the other.
    """

    name: str
    method: str = "GET"
    body: int = 0
    path: str = "/small"
    headers: int = 0
    trace: bool = False
    ids: bool = False
    keep_alive: bool = True
    weight: int = 0
    target: str = ""
    text: str = ""
    turns: int = 0

    @property
    def words(self) -> str:
        """Return the shape in the format that bench/peers/shapes.lua reads."""
        flags = f"{2 if self.ids else int(self.trace)} {int(self.keep_alive)}"
        return f"{self.method} {self.path} {len(self.text) or self.body} {self.headers} {flags} {self.weight or 1}"


BODY: Final = {"text": "x" * 1290}
ARGUMENTS: Final = {"name": "post", "arguments": {"body": BODY}}
CALL: Final = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ARGUMENTS})
SHAPES: Final = (
    Shape("GET 1.3 kB", weight=40),
    Shape("GET, fresh traceparent", trace=True),
    Shape("POST 300 B", "POST", 300, weight=35),
    Shape("POST 300 B, fresh trace and ids", "POST", 300, ids=True),
    Shape("POST 16 kB", "POST", 16384, weight=5),
    Shape("PATCH 300 B", "PATCH", 300, weight=5),
    Shape("DELETE", "DELETE", weight=5),
    Shape("POST, 100 events", "POST", 300, "/events/100/0", weight=10),
    Shape("1 kB of headers", headers=1024),
    Shape("8 kB of headers", headers=7168),
    Shape("no keep-alive", keep_alive=False),
    Shape("GET, capability URL", target="capability"),
    Shape("GET, key with rules and budget", target="minted"),
    Shape("POST, key with rules and budget", "POST", 1300, target="minted"),
    Shape("GET, Retries: 2", target="retries"),
)
MANY_TURNS: Final = 10_000
OWN: Final = (
    Shape("10,000 connections in turn", turns=MANY_TURNS),
    Shape("MCP tools/call", "POST", path="/mcp", target="mcp", text=CALL),
)
"""Shapes that only the gateway supports."""
MIX: Final = "mix"
NAMES: Final = (MIX, *(shape.name for shape in SHAPES))


def shape_of(name: str) -> Shape:
    """Return the shape with this name, or an empty shape for the mix."""
    return next((shape for shape in (*SHAPES, *OWN) if shape.name == name), Shape(MIX))


def requests(name: str) -> str:
    """Return the description of a shape, or of the mix, for shapes.lua. In the mix, every second request has a new
    traceparent.
    """
    if name == MIX:
        return ";".join(shape.words for shape in SHAPES if shape.weight)
    return shape_of(name).words


WARM_S: Final = 1

# Shape ▸ contender ▸ CPU µs per request, one per round; None for a round in which a response was wrong or missing.
RatiosByShape = dict[str, dict[str, list[float | None]]]


def ratio(found: RatiosByShape, name: str, peer: str) -> float | None:
    """Return the median ratio of the gateway to `peer`, over the rounds in which the peer responded correctly to every
    request.

    None if there is no such round, or if the gateway itself failed in any round.
    """
    ours, theirs = found[name].get("gateway", []), found[name].get(peer, [])
    if None in ours:
        return None
    ratios = [a / b for a, b in zip(ours, theirs, strict=False) if a is not None and b is not None]
    return statistics.median(ratios) if ratios else None


def goals(found: RatiosByShape) -> list[Goal]:
    """Return the two goals of each shape."""
    made = []
    for name in found:
        to_go, to_session = (1.25, 0.5) if name == MIX else (1.5, 0.6)
        made += [
            Goal(f"{name}, to Go's ReverseProxy", to_go, ratio(found, name, "go")),
            Goal(f"{name}, to aiohttp + ClientSession", to_session, ratio(found, name, "aiohttp")),
        ]
    return made


def table(found: RatiosByShape) -> str:
    """Return a table of CPU µs per request by shape and contender, with the verdicts."""
    contenders = [*BESIDE, "gateway"]
    lines = [
        f"| shape | {' | '.join(contenders)} | to Go | | to ClientSession | |",
        "|---|" + "---:|" * (len(contenders) + 4),
    ]
    verdicts = goals(found)
    for number, (name, by) in enumerate(found.items()):
        figures = {
            contender: [figure for figure in by.get(contender, []) if figure is not None] for contender in contenders
        }
        cells = [
            f"{statistics.median(figures[contender]):.0f}" if figures[contender] else "–" for contender in contenders
        ]
        for goal in verdicts[2 * number : 2 * number + 2]:
            cells += ["–" if goal.found is None else f"{goal.found:.2f}", goal.verdict]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def one_load(server: Server, name: str, seconds: int) -> float:
    """Return the CPU time per request in µs. Raises CannotRun if a response was wrong."""
    shape = shape_of(name)
    target = server.other_targets.get(shape.target, server.target)
    header_options = [word for key, value in target.headers.items() for word in ("-H", f"{key}: {value}")]
    command = ["wrk", "-t1", f"-c{MANY}", f"-d{seconds}", "--timeout", "10", "-s", str(upstream.PEERS / "shapes.lua")]
    environ = {**os.environ, "BENCH_SHAPES": requests(name), "BENCH_MIX": "1" if name == MIX else ""}
    environ |= {"BENCH_PREFIX": target.path, "BENCH_BODY": shape.text, "BENCH_TURNS": str(shape.turns)}
    pids = server.pids()
    before = proc.cpu_s(pids)
    result = subprocess.run(
        [*command, *header_options, f"http://{HOST}:{target.port}/"],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
    )
    used = proc.cpu_s(pids) - before
    counted = re.search(r"^BENCH (\d+) (\d+)$", result.stdout, re.MULTILINE)
    if counted is None or int(counted[2]) or not int(counted[1]):
        fault = f"{counted[2]} of {counted[1]} responses wrong or missing" if counted else "wrk printed no summary"
        raise CannotRun(f"{server.name}, {name}: a round without a figure, {fault} {result.stderr[-200:]}".strip())
    return used * 1e6 / int(counted[1])


@contextmanager
def running_contenders(top: Path, contenders: Sequence[Contender]) -> Iterator[list[Server]]:
    """Yield all contenders that start, in front of one TLS upstream. The gateway also has its `other_targets`."""
    with ExitStack() as stack:
        (top / "upstream").mkdir()
        upstream_server, certificate = stack.enter_context(upstream.tls(top / "upstream"))
        servers = []
        for contender in contenders:
            if why := contender.missing():
                sys.stderr.write(f"skip {contender.name}: {why}\n")
                continue
            (top / contender.name).mkdir()
            running = contender.running(
                top / contender.name, upstream_server.target.port, streams=True, certificate=certificate
            )
            server = stack.enter_context(running)
            server.name = contender.name
            if isinstance(contender, GatewayContender) and not contender.plugin:
                server.other_targets = other_targets(server)
            servers.append(server)
        yield servers


def measure(
    names: Sequence[str], rounds: int, seconds: int, say: Callable[[str], None]
) -> tuple[RatiosByShape, list[str]]:
    """Measure the shapes alternately. Return the figures, and what failed. Raises CannotRun.

    `say`: called with each step before it begins.
    """
    found: RatiosByShape = {name: {} for name in names}
    failed: list[str] = []
    contenders: list[Contender] = [*(peer for peer in PEERS if peer.name in BESIDE), GatewayContender()]
    with tempfile.TemporaryDirectory(prefix="bench-") as top, running_contenders(Path(top), contenders) as servers:
        for position, name in enumerate(names, 1):
            say(f"shape {position} of {len(names)}: {name}")
            # warms up: new connections, TLS handshakes and first compilation must not be measured
            for server in servers:
                with suppress(CannotRun):
                    one_load(server, name, WARM_S)
            for number in range(rounds):
                turn = number % len(servers)
                for server in servers[turn:] + servers[:turn]:
                    figures = found[name].setdefault(server.name, [])
                    try:
                        figures.append(one_load(server, name, seconds))
                    except CannotRun as fault:
                        figures.append(None)
                        failed.append(str(fault))
    return found, failed
