"""``gateway catalog list``: every provider, a line each."""

import json
import sys
from pathlib import Path

import click

from gateway.cli.options import as_json, catalog_of

UNWRAPPED = 400  # columns where nobody looks at a screen: a line that a pipe reads must not be folded


@click.command("list")
@catalog_of
@as_json
def list_providers(file: Path | None, as_json: bool) -> None:
    """List the catalog's providers: name, display name, auth mode, categories."""
    from rich.console import Console
    from rich.table import Table

    from gateway.cli.catalogs import catalog_and_url
    from gateway.cli.refusal import faults_end_the_command

    with faults_end_the_command():
        catalog, public_url = catalog_and_url(file)
    if as_json:
        print(json.dumps({"data": [catalog.shown(name, public_url) for name in sorted(catalog.providers)]}, indent=2))
        return
    table = Table("NAME", "DISPLAY NAME", "AUTH MODE", "CATEGORIES", box=None, pad_edge=False, header_style="bold")
    for name, provider in sorted(catalog.providers.items()):
        table.add_row(name, provider.display_name, provider.auth_mode, ", ".join(provider.categories))
    Console(width=None if sys.stdout.isatty() else UNWRAPPED, markup=False).print(table)
