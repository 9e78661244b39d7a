"""``gateway catalog list``: every provider, a line each."""

import json
import sys
from pathlib import Path

import click

from gateway.cli.options import as_json, catalog_of

UNWRAPPED = 400  # columns where nobody looks at a screen: a line that a pipe reads must not be folded


@click.command("list")
@click.option(
    "--search", default="", metavar="WORDS", help="Only those with these words in name, display name or categories."
)
@click.option("--category", metavar="NAME", help="Only those of a category.")
@click.option("--auth-mode", metavar="MODE", help="Only those of an auth mode.")
@catalog_of
@as_json
def list_providers(search: str, category: str | None, auth_mode: str | None, file: Path | None, as_json: bool) -> None:
    """List the catalog's providers: name, display name, auth mode, categories."""
    from rich.console import Console
    from rich.table import Table

    from gateway.catalog.listing import Listing, Query
    from gateway.cli.catalogs import catalog_and_url
    from gateway.cli.refusal import faults_end_the_command

    with faults_end_the_command():
        catalog, public_url = catalog_and_url(file)
    body = Listing(catalog, public_url).page(Query(search=search, category=category, auth_mode=auth_mode))
    found = json.loads(body.content)["data"]
    if as_json:
        print(json.dumps({"data": found}, indent=2))
        return
    table = Table("NAME", "DISPLAY NAME", "AUTH MODE", "CATEGORIES", box=None, pad_edge=False, header_style="bold")
    for one in found:
        table.add_row(one["name"], one["display_name"], one["auth_mode"], ", ".join(one["categories"]))
    Console(width=None if sys.stdout.isatty() else UNWRAPPED, markup=False).print(table)
