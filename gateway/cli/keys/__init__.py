"""``gateway keys``: secret keys and capabilities, and the encryption keys.

    manage_keys       `gateway keys create`, `list` and `revoke`: keys that callers send
    encryption_keys   `gateway keys status` and `rotate`: the keys that encrypt the store, and how many values each encrypts

The two kinds of keys are unrelated: docs/keys.md describes the keys that callers send, docs/operations.md#encryption-keys
the encryption keys.

Always true: a new key is printed once and stored as a digest; `rotate` can run while gateways serve (ADR 22).
"""

import click

from gateway.cli.lazy_group import Command, LazyGroup

COMMANDS = {
    "create": Command(
        "gateway.cli.keys.manage_keys:create", "make a secret key or a capability address; it is shown once"
    ),
    "list": Command("gateway.cli.keys.manage_keys:list_keys", "keys, newest first, a line each"),
    "revoke": Command("gateway.cli.keys.manage_keys:revoke", "end keys, and those that they minted, on every node"),
    "rotate": Command(
        "gateway.cli.keys.encryption_keys:rotate", "seal everything again under the first encryption key"
    ),
    "status": Command(
        "gateway.cli.keys.encryption_keys:status", "how many values each encryption key seals, and which may go"
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def keys() -> None:
    """Make, list and revoke secret keys; rotate the encryption keys and show their use.

    Works on the store that the configuration names, whether or not a gateway is running on it.
    """
