"""``gateway serve``: the gateway alone, in the foreground."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import config_file

if TYPE_CHECKING:
    from gateway.config import Config


@click.command()
@config_file
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON once ready, or with the faults.")
def serve(file: Path, as_json: bool) -> None:
    """Run the gateway until SIGTERM or Ctrl-C.

    Prints "gateway ready on <address>" to stdout when it serves; logs go to stderr.
    """
    from gateway.lean import put_off_the_rare

    put_off_the_rare()
    from gateway.cli.refusal import faults_end_the_command

    with faults_end_the_command(as_json, file):
        config = _loaded(file)
        _look_at_store(config)
        from gateway.lean import leave_out_the_unused

        leave_out_the_unused()
        from gateway.server import serve as run  # last, since loading it takes longer than telling what is wrong

        code = run(config, as_json=as_json)
    sys.exit(code)


def _loaded(file: Path) -> "Config":
    """The configuration in `file`. Raises Faults, with those that lie behind it."""
    from gateway.config import Faults, load

    try:
        return load(file)
    except Faults as found:
        from gateway.declared import all_faults

        raise all_faults(found) from None


def _look_at_store(config: "Config") -> None:
    """Refuse a wrong encryption key before the seconds that a loading without bytecode may take. Raises StoreRefused."""
    from gateway.store.looking import look_at

    look_at(config.store)
