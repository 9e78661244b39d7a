"""``gateway catalog list``, ``show`` and ``schema``."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import as_json, catalog_of
from gateway.text import did_you_mean

if TYPE_CHECKING:
    from gateway.catalog.load_catalog import Catalog
    from gateway.catalog.provider import Provider

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
    from gateway.cli.catalog.catalog_in_use import catalog_and_url
    from gateway.cli.terminal import faults_end_the_command
    from gateway.integrations.declared import known_modes

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
    from gateway.text import did_you_mean

    words = sorted(set(known))
    if given.casefold() not in {word.casefold() for word in words}:
        hint = did_you_mean(given, words) or f"; there are {', '.join(words)}"
        raise click.BadParameter(f"'{given}' is none{hint}", param_hint=option)


# ── ``gateway catalog show NAME``: one provider, as GET /providers/<name> shows it.


@click.command()
@click.argument("name")
@catalog_of
@as_json
def show(name: str, file: Path | None, as_json: bool) -> None:
    """Show the provider NAME: every field, defaults filled in, and the file it comes from."""
    import yaml

    from gateway.cli.catalog.catalog_in_use import catalog_and_url
    from gateway.cli.terminal import faults_end_the_command

    with faults_end_the_command():
        catalog, public_url = catalog_and_url(file)
    named(catalog, name)
    entry = catalog.shown(name, public_url)
    if as_json:
        print(json.dumps({"data": entry}, indent=2))
        return
    print(f"# {catalog.where(name)}")
    print(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=120), end="")


def named(catalog: "Catalog", name: str) -> "Provider":
    """The provider of that name. Raises click.ClickException with the nearest one there is."""
    provider = catalog.get(name)
    if provider is None:
        hint = did_you_mean(name, catalog.providers) or "; `gateway catalog list` shows what there is"
        raise click.ClickException(f"the catalog has no provider '{name}'{hint}")
    return provider


# ── ``gateway catalog schema``: the JSON Schema of an entry.


@click.command()
@as_json
def schema(as_json: bool) -> None:  # noqa: ARG001  (it is JSON either way, and every command takes the flag)
    """Print the JSON Schema of a catalog entry, for an editor to check and complete by."""
    from gateway.catalog.provider import json_schema

    print(json.dumps(json_schema(), indent=2))
