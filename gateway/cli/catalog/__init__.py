"""``gateway catalog``: look at the providers, and check entries before they ship.

    catalog_in_use    loads the catalog, with the scripts and auth modes of this installation
    show_catalog      `gateway catalog list`, `show`, `schema` and `operations`
    lint_catalog      `gateway catalog lint`: reports faults of entries, and warnings
    convert_catalog   `gateway catalog import FILE`: converts the entries of a public catalog into the gateway's format
    open_facts        `gateway catalog evidence`: lists unconfirmed facts, each with the page that would confirm it
    rehearse_entry    `gateway catalog test NAME`: tests an entry against the sandbox

Always true: faults are printed as ``file:line``, and after a fault the exit code is 1. No command changes a shipped
entry.
"""

import click

from gateway.cli.lazy_group import Command, LazyGroup

COMMANDS = {
    "list": Command("gateway.cli.catalog.show_catalog:list_providers", "list providers"),
    "show": Command("gateway.cli.catalog.show_catalog:show", "show one provider, as GET /providers/<name> does"),
    "operations": Command(
        "gateway.cli.catalog.show_catalog:operations", "list a provider's API operations and their scopes"
    ),
    "lint": Command("gateway.cli.catalog.lint_catalog:lint", "check entries: faults and warnings"),
    "test": Command(
        "gateway.cli.catalog.rehearse_entry:rehearse", "test an entry against the sandbox in the role of its provider"
    ),
    "import": Command("gateway.cli.catalog.convert_catalog:convert", "convert a file with entries of another catalog"),
    "evidence": Command(
        "gateway.cli.catalog.open_facts:evidence", "list unconfirmed facts, each with the page that would confirm it"
    ),
    "schema": Command("gateway.cli.catalog.show_catalog:schema", "print the JSON Schema of an entry, for editors"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def catalog() -> None:
    """List and show the providers, and check their entries."""
