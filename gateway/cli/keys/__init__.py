"""``gateway keys``: secret keys and capabilities, and the encryption keys.

    manage_keys       `gateway keys create`, `list` and `revoke`: the keys that callers send
    encryption_keys   `gateway keys status` and `rotate`: the keys that encrypt the store

The two kinds of keys are unrelated: docs/keys.md describes the keys that callers send,
docs/operations.md#encryption-keys describes the encryption keys.

Always true: a new key is printed once and stored as a digest; `rotate` can run while gateways serve (ADR 22).
"""

import click

from gateway.cli.lazy_group import Command, LazyGroup

COMMANDS = {
    "create": Command(
        "gateway.cli.keys.manage_keys:create", "create a secret key or a capability URL; it is shown once"
    ),
    "list": Command("gateway.cli.keys.manage_keys:list_keys", "list keys, newest first"),
    "revoke": Command(
        "gateway.cli.keys.manage_keys:revoke", "revoke keys, and the keys that they minted, on every node"
    ),
    "rotate": Command(
        "gateway.cli.keys.encryption_keys:rotate", "encrypt everything again with the first encryption key"
    ),
    "status": Command(
        "gateway.cli.keys.encryption_keys:status",
        "show how many values each encryption key encrypts, and which can be removed",
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def keys() -> None:
    """Create, list and revoke secret keys; rotate the encryption keys and show their use.

    The commands use the database of the configuration, whether or not a gateway is running.
    """
