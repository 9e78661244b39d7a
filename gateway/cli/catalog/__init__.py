"""``gateway catalog``: look at the providers, and check entries before they ship."""

import click

from gateway.cli.lazy import Command, LazyGroup

COMMANDS = {
    "list": Command("gateway.cli.catalog.list:list_providers", "every provider, a line each"),
    "show": Command("gateway.cli.catalog.show:show", "one provider, as GET /providers/<name> shows it"),
    "lint": Command("gateway.cli.catalog.lint:lint", "check entries: faults, and what could be better"),
    "test": Command(
        "gateway.cli.catalog.rehearse:rehearse", "try an entry against the sandbox, which plays its provider"
    ),
    "import": Command(
        "gateway.cli.catalog.convert:convert", "convert a file of many entries in another catalog's shape"
    ),
    "schema": Command("gateway.cli.catalog.schema:schema", "the JSON Schema of an entry, for editors"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def catalog() -> None:
    """Look at the providers and check their entries."""
