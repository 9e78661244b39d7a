"""``gateway serve``: runs the gateway in the foreground."""

import sys
from pathlib import Path

import click

from gateway.cli.options import config_file


@click.command()
@config_file
@click.option(
    "--json", "as_json", is_flag=True, help="Print one line of JSON: once the gateway is ready, or with the faults."
)
def serve(file: Path, as_json: bool) -> None:
    """Run the gateway until SIGTERM or Ctrl-C.

    Prints "gateway ready on URL" to stdout once it serves; logs go to stderr.
    """
    from gateway.process.start import serve as run

    sys.exit(run(file, as_json=as_json))
