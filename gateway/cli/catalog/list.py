"""``gateway catalog list``: every provider, a line each."""

import json
import sys
from collections.abc import Iterable
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
    from gateway.declared import known_modes

    with faults_end_the_command():
        catalog, public_url = catalog_and_url(file)
    listing = Listing(catalog, public_url)
    if category is not None:
        every = json.loads(listing.page(Query()).content)["data"]
        _refuse_unknown("--category", category, (name for one in every for name in one["categories"]))
    if auth_mode is not None:
        _refuse_unknown("--auth-mode", auth_mode, known_modes())
    body = listing.page(Query(search=search, category=category, auth_mode=auth_mode))
    found = json.loads(body.content)["data"]
    if as_json:
        print(json.dumps({"data": found}, indent=2))
        return
    table = Table("NAME", "DISPLAY NAME", "AUTH MODE", "CATEGORIES", box=None, pad_edge=False, header_style="bold")
    for one in found:
        table.add_row(one["name"], one["display_name"], one["auth_mode"], ", ".join(one["categories"]))
    Console(width=None if sys.stdout.isatty() else UNWRAPPED, markup=False).print(table)


def _refuse_unknown(option: str, given: str, known: Iterable[str]) -> None:
    """Raises UsageError for a word that no entry could have, with the nearest one, instead of an empty list."""
    from gateway.nearest import did_you_mean

    words = sorted(set(known))
    if given.casefold() not in {word.casefold() for word in words}:
        hint = did_you_mean(given, words) or f"; there are {', '.join(words)}"
        raise click.BadParameter(f"'{given}' is none{hint}", param_hint=option)
