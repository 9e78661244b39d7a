"""``python -m bench.hold``: keep one contender under load and print its process ID, so that a profiler can attach.

python -m bench.hold --seconds 30 & py-spy record --pid <the printed id> --duration 20 --native --output profile.svg

``--shape "POST 300 B"`` sends this shape of `bench.shapes` instead of a GET, with TLS to the upstream.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench import load, shapes, upstream
from bench.contenders import PEERS, Contender
from bench.gateway_contender import GatewayContender
from bench.result import MANY
from bench.server import CannotRun, raise_file_limit


def main() -> int:
    """Return 0 after the load. If the load cannot be generated, print one line with the reason and return 1."""
    everyone: list[Contender] = [*PEERS, GatewayContender()]
    contenders = {contender.name: contender for contender in everyone}
    parser = argparse.ArgumentParser(prog="python -m bench.hold", description="One contender under load.")
    parser.add_argument("name", nargs="?", default="gateway", choices=contenders)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--connections", type=int, default=MANY)
    parser.add_argument(
        "--shape", choices=shapes.NAMES, help="with TLS to the upstream, which needs wrk, nginx and openssl"
    )
    options = parser.parse_args()
    raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="bench-") as top:
        (Path(top) / "upstream").mkdir()
        (Path(top) / "own").mkdir()
        try:
            with ExitStack() as stack:
                if options.shape is None:
                    upstream_server, certificate = stack.enter_context(upstream.small(Path(top) / "upstream")), None
                else:
                    upstream_server, certificate = stack.enter_context(upstream.tls(Path(top) / "upstream"))
                running = contenders[options.name].running(
                    Path(top) / "own",
                    upstream_server.target.port,
                    streams=options.shape is not None,
                    certificate=certificate,
                )
                server = stack.enter_context(running)
                sys.stdout.write(f"{' '.join(map(str, server.pids()))}\n")
                sys.stdout.flush()
                if options.shape is None:
                    cpu_us = load.measure_load(server, connections=options.connections, seconds=options.seconds).cpu_us
                else:
                    cpu_us = shapes.one_load(server, options.shape, int(options.seconds))
        except CannotRun as fault:
            sys.stderr.write(f"bench: {fault}\n")
            return 1
    sys.stdout.write(f"{cpu_us:.0f} µs of CPU per request\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
