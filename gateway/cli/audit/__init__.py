"""``gateway audit``: who did what with credentials, keys and connections (docs/audit.md).

    audit_filters    the options that several commands share
    show_audit       `gateway audit show` and `export`: prints records as a table, or as JSON Lines
    verify_audit     `gateway audit verify`: checks the hash chain, also against checkpoints kept outside the store
    audit_key        `gateway audit key`: prints the public key that verifies checkpoints, or makes a new key
    audit_uses       `gateway audit uses`: counts how often each key used each connection
    forget_person    `gateway audit forget`: deletes an end user's audit key

The commands open the store, so they work without a running gateway. `show`, `export` and `verify` first add new records
to the hash chain.

Always true: no command here changes or removes a record.
"""

import click

from gateway.cli.lazy_group import Command, LazyGroup

COMMANDS = {
    "show": Command("gateway.cli.audit.show_audit:show", "show records, newest first"),
    "export": Command("gateway.cli.audit.show_audit:export", "print records as JSON Lines, oldest first, for a SIEM"),
    "verify": Command("gateway.cli.audit.verify_audit:verify", "check that no record was changed, removed or added"),
    "key": Command(
        "gateway.cli.audit.audit_key:key", "print the public key that verifies checkpoints, or make a new key"
    ),
    "uses": Command("gateway.cli.audit.audit_uses:uses", "count how often each key used each connection"),
    "forget": Command(
        "gateway.cli.audit.forget_person:forget",
        "delete an end user's audit key, so that records no longer identify the end user",
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def audit() -> None:
    """Read and check the audit trail.

    The commands use the database of the configuration, whether or not a gateway is running.
    """
