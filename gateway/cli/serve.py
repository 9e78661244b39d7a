"""``gateway serve``: runs the gateway in the foreground."""

import sys
from pathlib import Path
from typing import Final

import click

from gateway.cli.options import config_file


class ServeCommand(click.Command):
    """A command that rejects options for settings of gateway.yaml, such as ``--port``.

    The error names the setting. Settings are not options, because workers and other commands read them from the file.
    """

    SETTINGS: Final = {"--port": "server.port", "--host": "server.host", "--workers": "server.workers"}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as fault:
            if (setting := self.SETTINGS.get(fault.option_name)) is None:
                raise
            raise click.UsageError(
                f"No such option: {fault.option_name}. Set {setting} in gateway.yaml.", ctx
            ) from None


@click.command(cls=ServeCommand)
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
