"""``gateway catalog evidence``: lists unconfirmed fields of entries, each with the page that would confirm it."""

import json
import sys
from pathlib import Path

import click

from gateway.cli.options import as_json, catalog_config_file

NO_PAGE = "no page known"


@click.command("evidence")
@click.argument("names", metavar="[NAMES]...", nargs=-1)
@click.option("--level", type=click.Choice(["assumed", "unconfirmed"]), help="Only fields of this level.")
@catalog_config_file
@as_json
def evidence(names: tuple[str, ...], level: str | None, file: Path | None, as_json: bool) -> None:
    """List the unconfirmed fields of the providers NAMES, by default of all, each with the page that would confirm it.

    Level unconfirmed: general knowledge. Level assumed: a default that no source states."""
    from gateway.catalog.evidence import open_fields
    from gateway.cli.catalog.catalog_in_use import catalog_and_url
    from gateway.cli.terminal import exit_on_faults
    from gateway.text import counted, did_you_mean

    with exit_on_faults():
        catalog, _ = catalog_and_url(file)
    if unknown_names := [name for name in names if name not in catalog.providers]:
        hint = did_you_mean(unknown_names[0], list(catalog.providers))
        raise click.BadParameter(f"there is no provider '{unknown_names[0]}'{hint}", param_hint="NAMES")
    rows = []
    for name in names or catalog.providers:
        provider = catalog.providers[name]
        page = provider.docs or provider.setup_guide_url or provider.homepage
        for group, field, field_level in open_fields(provider.evidence):
            if level in {None, field_level}:
                rows.append({"provider": name, "group": group, "field": field, "level": field_level, "page": page})
    if as_json:
        print(json.dumps({"data": rows}, indent=2))
        return
    for row in rows:
        print(f"{row['provider']}\t{row['field']}\t{row['level']}\t{row['page'] or NO_PAGE}")
    print(counted(len(rows), "field"), file=sys.stderr)
