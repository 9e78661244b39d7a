"""``gateway serve``: the gateway alone, in the foreground."""

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
    from gateway.cli.refusal import faults_end_the_command
    from gateway.config import load

    with faults_end_the_command():
        config = load(file)
        from gateway.server import serve as run  # after the configuration, which is told wrong sooner that way

        code = run(config)
    sys.exit(code)
