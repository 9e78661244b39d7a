"""``gateway catalog list``, ``show``, ``schema`` and ``operations``: print what the catalog contains."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.options import as_json, catalog_config_file
from gateway.text import counted, did_you_mean

if TYPE_CHECKING:
    from gateway.catalog.api_operations import ApiOperation, ProviderOperations
    from gateway.catalog.load_catalog import Catalog
    from gateway.catalog.provider import Provider

PIPE_WIDTH = 400  # width of tables if stdout is not a terminal, so that no line is wrapped


@click.command("list")
@click.argument("words", nargs=-1)
@click.option("--search", default="", metavar="WORDS", help="The same as the argument WORDS.")
@click.option("--category", metavar="NAME", help="Only this category.")
@click.option("--auth-mode", metavar="MODE", help="Only this auth mode.")
@catalog_config_file
@as_json
def list_providers(
    words: tuple[str, ...], search: str, category: str | None, auth_mode: str | None, file: Path | None, as_json: bool
) -> None:
    """List the catalog's providers: name, display name, auth mode, categories.

    With WORDS, only the providers with these words in name, display name or categories.
    """
    from gateway.catalog.listing import Listing, Query
    from gateway.cli.catalog.catalog_in_use import catalog_and_url
    from gateway.cli.terminal import exit_on_faults
    from gateway.integrations.declared import known_modes

    with exit_on_faults():
        catalog, public_url = catalog_and_url(file)
    listing = Listing(catalog, public_url)
    if category is not None:
        all_rows = json.loads(listing.page(Query()).content)["data"]
        _refuse_unknown("--category", category, (name for provider in all_rows for name in provider["categories"]))
    if auth_mode is not None:
        _refuse_unknown("--auth-mode", auth_mode, known_modes())
    search = " ".join((*words, search)).strip()
    body = listing.page(Query(search=search, category=category, auth_mode=auth_mode))
    providers = json.loads(body.content)["data"]
    if as_json:
        print(json.dumps({"data": providers}, indent=2))
        return
    if not providers:
        if search:
            advice = ". Search with other words, or write your own entry (docs/catalog.md)."
            fault = f"no provider matches '{search}'{catalog.suggestion(search) or advice}"
        elif category and auth_mode:
            fault = "no provider has this category and this auth mode. Leave out one of the options."
        else:
            fault = f"no provider has the auth mode {auth_mode}. Write your own entry (docs/catalog.md)."
        print(f"gateway: {fault}", file=sys.stderr)
        return
    columns = ("NAME", "DISPLAY NAME", "AUTH MODE", "CATEGORIES")
    _print_table(
        columns,
        (
            (provider["name"], provider["display_name"], provider["auth_mode"], ", ".join(provider["categories"]))
            for provider in providers
        ),
    )


def _refuse_unknown(option: str, value: str, known_values: Iterable[str]) -> None:
    """Raise BadParameter, with the most similar value, if no entry can have the value `value`."""

    choices = sorted(set(known_values))
    if value.casefold() not in {choice.casefold() for choice in choices}:
        hint = did_you_mean(value, choices) or f"; choose one of {', '.join(choices)}"
        raise click.BadParameter(f"'{value}' does not exist{hint}", param_hint=option)


# ── ``gateway catalog show NAME``: shows one provider, as GET /providers/<name> does.


@click.command()
@click.argument("name")
@catalog_config_file
@as_json
def show(name: str, file: Path | None, as_json: bool) -> None:
    """Show the provider NAME: every field, defaults filled in, and the file it comes from."""
    import yaml

    from gateway.cli.catalog.catalog_in_use import catalog_and_url
    from gateway.cli.terminal import exit_on_faults

    with exit_on_faults():
        catalog, public_url = catalog_and_url(file)
    find_provider(catalog, name, file)
    entry = catalog.provider_json(name, public_url)
    if as_json:
        print(json.dumps({"data": entry}, indent=2))
        return
    print(f"# {catalog.file_and_line(name)}")
    print(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=120), end="")


def find_provider(catalog: "Catalog", name: str, file: Path | None) -> "Provider":
    """Return the provider with that name. Raises ClickException, with a hint.

    The hint is the most similar name, or the option `-c` if the user has not named the configuration in this folder.
    """
    provider = catalog.get(name)
    if provider is None:
        has_config = file is None and Path("gateway.yaml").exists()
        folder_hint = "; -c gateway.yaml adds your own catalog folders" if has_config else ""
        hint = catalog.suggestion(name) or f"{folder_hint}; to list all, run `gateway catalog list`"
        raise click.ClickException(f"the catalog has no provider '{name}'{hint}")
    return provider


# ── ``gateway catalog schema``: prints the JSON Schema of an entry.


@click.command()
@as_json
def schema(as_json: bool) -> None:  # noqa: ARG001  (it is JSON either way, and every command takes the flag)
    """Print the JSON Schema of a catalog entry, for checks and completion in an editor."""
    from gateway.catalog.provider import json_schema

    print(json.dumps(json_schema(), indent=2))


# ── ``gateway catalog operations NAME [WORDS]``: lists the operations of the provider's API.


@click.command()
@click.argument("name")
@click.argument("words", nargs=-1)
@click.option("--risk", metavar="RISK", help="Only operations of this risk: read, write, delete or admin.")
@click.option("--scope", metavar="SCOPE", help="Only operations that need this scope.")
@click.option("--starter", is_flag=True, help="Only the operations that an assistant needs most.")
@click.option(
    "--scopes", "only_scopes", is_flag=True, help="Show the scopes that the operations need, instead of the operations."
)
@click.option("--granted", metavar="SCOPES", help="With --scopes: compare with these scopes, separated by spaces.")
@catalog_config_file
@as_json
def operations(
    name: str,
    words: tuple[str, ...],
    risk: str | None,
    scope: str | None,
    starter: bool,
    only_scopes: bool,
    granted: str | None,
    file: Path | None,
    as_json: bool,
) -> None:
    """List API operations of the provider NAME with all WORDS in id, path or summary."""
    from gateway.catalog.api_operations import RISKS, api_operation_json, provenance, scopes_json
    from gateway.catalog.yaml_file import UnreadableFile
    from gateway.cli.catalog.catalog_in_use import catalog_and_url
    from gateway.cli.terminal import exit_on_faults

    with exit_on_faults():
        catalog, _ = catalog_and_url(file)
    find_provider(catalog, name, file)
    if risk is not None:
        _refuse_unknown("--risk", risk, RISKS)
    try:
        provider_operations = catalog.operations(name)
    except UnreadableFile as fault:
        raise click.ClickException(str(fault.fault)) from fault
    if provider_operations is None:
        raise click.ClickException(f"the catalog has no operations of '{name}'; its API can still be called")
    matches = provider_operations.find(" ".join(words), risk.casefold() if risk else None, scope, starter=starter)
    scopes = scopes_json(provider_operations, matches, granted)
    if as_json:
        operation_rows = (
            [] if only_scopes else [api_operation_json(operation, provider_operations.prefix) for operation in matches]
        )
        print(
            json.dumps(
                {
                    **({} if only_scopes else {"data": operation_rows}),
                    "source": provenance(provider_operations),
                    "scopes": scopes,
                },
                indent=2,
            )
        )
        return
    if only_scopes:
        _print_scopes(scopes)
        return
    _print_operations(provider_operations, matches)


def _print_operations(provider_operations: "ProviderOperations", matches: Sequence["ApiOperation"]) -> None:
    _print_table(
        ("ID", "METHOD", "PATH", "RISK", "SCOPES", "SUMMARY"),
        (
            (
                operation.id,
                operation.graphql or operation.method,
                operation.origin + operation.path
                if operation.origin
                else provider_operations.prefix + (operation.field or operation.path),
                f"{operation.risk}{' *' if operation.starter else ''}",
                " ".join(operation.scopes),
                operation.summary,
            )
            for operation in matches
        ),
    )
    print(
        f"{len(matches)} of {len(provider_operations.operations)} operations; * marks a starter. "
        f"{_provenance(provider_operations.header)}",
        file=sys.stderr,
    )


def _provenance(header: Mapping[str, str]) -> str:
    return f"From {header['source']}, {header['version']}, {header['date']}; licence: {header['licence']}."


def _print_scopes(scopes: Mapping[str, Any]) -> None:
    rows = [("needed", scope) for scope in scopes["all_of"]]
    rows += [("one of", " ".join(group)) for group in scopes["any_of"]]
    rows += [("missing", " or ".join(group)) for group in scopes.get("missing", ())]
    rows += [("not needed", scope) for scope in scopes.get("unneeded", ())]
    for label, scope in rows:
        print(f"{label:<11}{scope}")
    if scopes["unstated"]:
        print(f"{counted(scopes['unstated'], 'operation')} without stated scopes", file=sys.stderr)


def _print_table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, markup=False).print(table)
