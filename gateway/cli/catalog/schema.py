"""``gateway catalog schema``: the JSON Schema of an entry."""

import json

import click

from gateway.cli.options import as_json


@click.command()
@as_json
def schema(as_json: bool) -> None:  # noqa: ARG001  (it is JSON either way, and every command takes the flag)
    """Print the JSON Schema of a catalog entry, for an editor to check and complete by."""
    from gateway.catalog.schema import json_schema

    print(json.dumps(json_schema(), indent=2))
