"""The options that several commands share, so that they are spelled and explained alike."""

from pathlib import Path

import click

config_file = click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(path_type=Path),
    default=Path("gateway.yaml"),
    show_default=True,
    metavar="FILE",
    help="The configuration.",
)

catalog_of = click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With the folders that this configuration adds to the shipped catalog.",
)

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
