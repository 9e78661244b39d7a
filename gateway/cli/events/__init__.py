"""``gateway events``: the events sent to the application, their deliveries, and the key that signs them.

    show_events     `gateway events list` and `show`
    replay_events   `gateway events replay`: sends events again, with the same ids
    signing_key     `gateway events key`: prints the key that signs events, or makes a new key

The commands open the store, so they work without a running gateway. Only a running gateway sends the events that
`replay` queues.

Always true: each command has `--json`; only `gateway events key` prints the signing key.
"""

import click

from gateway.cli.lazy_group import Command, LazyGroup

COMMANDS = {
    "list": Command(
        "gateway.cli.events.show_events:list_events", "list events and the state of their deliveries, newest first"
    ),
    "show": Command("gateway.cli.events.show_events:show", "show one event: its body and its deliveries"),
    "replay": Command("gateway.cli.events.replay_events:replay", "send events again"),
    "key": Command("gateway.cli.events.signing_key:key", "print the key that signs events, or make a new key"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def events() -> None:
    """List and show events, send them again, and show the key that signs them.

    The commands use the database of the configuration, whether or not a gateway is running.
    """
