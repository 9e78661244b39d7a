"""``gateway keys``: secret keys and capabilities, made, listed and revoked; and the keys under which everything is sealed."""

import click

from gateway.cli.lazy import Command, LazyGroup

COMMANDS = {
    "create": Command("gateway.cli.keys.create:create", "make a secret key or a capability address; it is shown once"),
    "list": Command("gateway.cli.keys.list:list_keys", "keys, newest first, a line each"),
    "revoke": Command("gateway.cli.keys.revoke:revoke", "end keys, and those that they minted, on every node"),
    "rotate": Command("gateway.cli.keys.rotate:rotate", "seal everything anew under the first encryption key"),
    "status": Command("gateway.cli.keys.status:status", "how many values each encryption key seals, and which may go"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def keys() -> None:
    """Make, list and revoke secret keys; replace and count the keys under which everything is sealed.

    Works on the store that the configuration names, whether or not a gateway is running on it.
    """
