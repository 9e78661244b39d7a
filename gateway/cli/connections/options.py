"""The options that name connections."""

import click

environment = click.option(
    "--environment", metavar="NAME", help="The environment, where the configuration has more than one."
)
integration = click.option("--integration", required=True, metavar="ID", help="The integration they belong to.")
perhaps_integration = click.option(
    "--integration", metavar="ID", help="Their integration, where several have a connection of that ID."
)
every = click.option("--all", "every", is_flag=True, help="All connections of the integration.")
connection_ids = click.argument("connection_ids", nargs=-1, metavar="[CONNECTION]...")


def check_named(connection_ids: tuple[str, ...], every: bool) -> None:
    """Raises UsageError unless either connections are named or all are meant."""
    if bool(connection_ids) == every:
        raise click.UsageError("Name the connections, or give --all.")
