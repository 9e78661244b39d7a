"""``gateway catalog show NAME``: one provider, as GET /providers/<name> shows it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import as_json, catalog_of
from gateway.nearest import did_you_mean

if TYPE_CHECKING:
    from gateway.catalog.load import Catalog
    from gateway.catalog.provider import Provider


@click.command()
@click.argument("name")
@catalog_of
@as_json
def show(name: str, file: Path | None, as_json: bool) -> None:
    """Show the provider NAME: every field, defaults filled in, and the file it comes from."""
    import yaml

    from gateway.cli.catalogs import catalog_and_url
    from gateway.cli.refusal import faults_end_the_command

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
