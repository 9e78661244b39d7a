"""``gateway catalog``: look at the providers, and check entries before they ship.

    catalog_in_use    the catalog that a gateway started here would read, with its scripts and auth modes
    show_catalog      `gateway catalog list`, `show`, `schema` and `operations`
    lint_catalog      `gateway catalog lint`: faults of entries, and improvements
    convert_catalog   `gateway catalog import FILE`: converts the entries of a public catalog into our format
    open_facts        `gateway catalog evidence`: lists unconfirmed facts, each with the page that would confirm it
    rehearse_entry    `gateway catalog test NAME`: tries an entry against the sandbox

Always true: faults are printed as ``file:line``, and after a fault the exit code is 1. No command changes a shipped entry.
"""

import click

from gateway.cli.lazy_group import Command, LazyGroup

COMMANDS = {
    "list": Command("gateway.cli.catalog.show_catalog:list_providers", "every provider, a line each"),
    "show": Command("gateway.cli.catalog.show_catalog:show", "one provider, as GET /providers/<name> shows it"),
    "operations": Command(
        "gateway.cli.catalog.show_catalog:operations", "what a provider's API can do, and the scopes for it"
    ),
    "lint": Command("gateway.cli.catalog.lint_catalog:lint", "check entries: faults, and what could be better"),
    "test": Command(
        "gateway.cli.catalog.rehearse_entry:rehearse", "try an entry against the sandbox, which plays its provider"
    ),
    "import": Command(
        "gateway.cli.catalog.convert_catalog:convert", "convert a file of many entries in another catalog's shape"
    ),
    "evidence": Command(
        "gateway.cli.catalog.open_facts:evidence", "facts that nobody confirmed, and the page that would settle each"
    ),
    "schema": Command("gateway.cli.catalog.show_catalog:schema", "the JSON Schema of an entry, for editors"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def catalog() -> None:
    """List and show the providers, and check their entries."""
