"""``gateway serve``: the gateway alone, in the foreground."""

import importlib
import sys
from pathlib import Path

import click

from gateway.cli.options import config_file


@click.command()
@config_file
def serve(file: Path) -> None:
    """Run the gateway until SIGTERM or Ctrl-C.

    Prints "gateway ready on <address>" to stdout when it serves; logs go to stderr.
    """
    load_structlog_alone()
    from gateway.cli.refusal import faults_end_the_command
    from gateway.config import load

    with faults_end_the_command():
        config = load(file)
        from gateway.server import serve as run  # after the configuration, which is told wrong sooner that way

        code = run(config)
    sys.exit(code)


def load_structlog_alone() -> None:
    """Without rich, which it would import for tracebacks that we never print: five megabytes in every worker."""
    if {"rich", "structlog"} & sys.modules.keys():
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # as Python documents it: importing it fails
    try:
        importlib.import_module("structlog")
    finally:
        del sys.modules["rich"]
