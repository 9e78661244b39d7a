"""``python -m bench``: measure, write bench/results.md and bench/results.svg, and print a summary."""

import argparse
import dataclasses
import json
import re
import sys
import time
from pathlib import Path
from typing import Final

from bench.contenders import PEERS
from bench.goals import goals
from bench.plot import as_svg
from bench.report import as_markdown
from bench.run import FULL, QUICK, VARIANTS, Options, run
from bench.server import CannotRun, raise_file_limit

_UNITS: Final = {"": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_NAMES: Final = [peer.name for peer in PEERS] + ["gateway"] + [variant.name for variant in VARIANTS]


def main() -> int:
    """Return 0 if the figures were written. Otherwise print one line with the reason and return 1."""
    arguments = _arguments().parse_args()
    options = _options(arguments)
    raise_file_limit()
    began = time.monotonic()

    def say(step: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - began:5.0f} s] {step}\n")

    try:
        result = run(options, say)
    except CannotRun as fault:
        sys.stderr.write(f"bench: {fault}\n")
        return 1
    page = as_markdown(result)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "results.md").write_text(page)
    (arguments.out / "results.svg").write_text(as_svg(result))
    if arguments.json:
        reported = dataclasses.asdict(result) | {"goals": [dataclasses.asdict(goal) for goal in goals(result)]}
        sys.stdout.write(json.dumps(reported) + "\n")
    else:
        sys.stdout.write(page)
    return 0


def _options(arguments: argparse.Namespace) -> Options:
    options = dataclasses.replace(
        QUICK if arguments.quick else FULL, only=tuple(arguments.only), built_in=arguments.built_in
    )
    fields = {name: getattr(arguments, name) for name in ("rounds", "seconds", "size", "events", "idle")}
    return dataclasses.replace(options, **{name: value for name, value in fields.items() if value is not None})


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="The gateway beside other proxies.")
    parser.add_argument("--quick", action="store_true", help="a short form: about two minutes with all peers")
    parser.add_argument("--only", action="append", default=[], choices=_NAMES, help="a contender; repeatable")
    parser.add_argument("--rounds", type=int, help=f"turns of each contender (default: {FULL.rounds})")
    parser.add_argument("--seconds", type=float, help=f"length of one load (default: {FULL.seconds:g})")
    parser.add_argument("--size", type=_size, help="of one stream, such as 256MiB or 10GiB (default: 1GiB)")
    parser.add_argument("--events", type=int, help=f"server-sent events, 10 ms apart (default: {FULL.events})")
    parser.add_argument("--idle", type=int, help=f"idle connections (default: {FULL.idle})")
    parser.add_argument("--built-in", action="store_true", help="make the load in Python even where wrk is installed")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder of results.md and results.svg")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object instead of the page")
    return parser


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)((?:[KMG]iB)?)", text, re.IGNORECASE)
    if found is None or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 64MiB")
    return int(found[1]) * _UNITS[found[2].upper()]


if __name__ == "__main__":
    sys.exit(main())
