"""``gateway events``: what the application was told, what waits, and what signs it."""

import click

from gateway.cli.lazy import Command, LazyGroup

COMMANDS = {
    "list": Command("gateway.cli.events.list:list_events", "events and how their delivery stands, newest first"),
    "show": Command("gateway.cli.events.show:show", "one event: its body, and each address it goes to"),
    "replay": Command("gateway.cli.events.replay:replay", "send events again"),
    "key": Command("gateway.cli.events.key:key", "the key that signs events, or a new one"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def events() -> None:
    """Look at events, send them again, and show the key that signs them.

    Works on the store that the configuration names, whether or not a gateway is running on it.
    """
