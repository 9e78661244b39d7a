"""``gateway connections``: look at connections, make connect links, renew and end connections, move them in and out."""

import click

from gateway.cli.lazy import Command, LazyGroup

COMMANDS = {
    "list": Command("gateway.cli.connections.list:list_connections", "connections, newest first, a line each"),
    "show": Command("gateway.cli.connections.show:show", "one connection, without its credential"),
    "why": Command("gateway.cli.connections.why:why", "what happened to a connection, and the one action that helps"),
    "link": Command("gateway.cli.connections.link:link", "a link by which an end user connects, or authorizes again"),
    "refresh": Command("gateway.cli.connections.refresh:refresh", "renew credentials now"),
    "delete": Command(
        "gateway.cli.connections.delete:delete", "delete connections and end their tokens at the provider"
    ),
    "import": Command(
        "gateway.cli.connections.importing:import_connections", "bring connections in: from another gateway, from files"
    ),
    "export": Command("gateway.cli.connections.exporting:export", "write connections to a sealed file"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def connections() -> None:
    """Look at connections, renew them, end them, move them in and out.

    Works on the store that the configuration names, whether or not a gateway is running on it.
    """
