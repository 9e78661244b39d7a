"""``gateway connections``: look at connections, refresh, delete and move them.

    show_connections      `list` and `show`; `why`: explains the state of a connection
    refresh_connections   `refresh`: refreshes credentials now
    delete_connections    `delete`: deletes connections, revokes their tokens at the provider, and reports each result
    import_connections    `import`: imports from another gateway's API, a bundle, JSON Lines or CSV
    export_connections    `export`: writes connections to an encrypted bundle
    connect_link          `link`: prints a connect link that the operator can send to an end user

Always true: each command opens the store, whether a gateway runs or not; each has `--json`; no output contains a
secret, except the file of `export --plain`, which prints a warning.
"""

import click

from gateway.cli.lazy_group import Command, LazyGroup

COMMANDS = {
    "list": Command("gateway.cli.connections.show_connections:list_connections", "list connections, newest first"),
    "show": Command("gateway.cli.connections.show_connections:show", "show one connection, without its credential"),
    "why": Command("gateway.cli.connections.show_connections:why", "explain the state of a connection, and what to do"),
    "link": Command(
        "gateway.cli.connections.connect_link:link", "print a link with which an end user connects, or authorizes again"
    ),
    "refresh": Command("gateway.cli.connections.refresh_connections:refresh", "refresh credentials now"),
    "delete": Command(
        "gateway.cli.connections.delete_connections:delete",
        "delete connections and revoke their tokens at the provider",
    ),
    "import": Command(
        "gateway.cli.connections.import_connections:import_connections",
        "import connections from another gateway or from files",
    ),
    "export": Command("gateway.cli.connections.export_connections:export", "write connections to an encrypted file"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def connections() -> None:
    """List, refresh, delete, import and export connections.

    The commands use the database of the configuration, whether or not a gateway is running.
    """
