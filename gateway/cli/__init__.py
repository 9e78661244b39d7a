"""The command ``gateway``: one command a file, and what a command needs is imported when it runs.

Exit codes: 0 done, 1 refused or failed (one clear line, or one a fault, on stderr), 2 wrong usage.
`gateway try` alone: 3, the provider itself answered 400 or more.
"""

import click

from gateway.cli.lazy import Command, LazyGroup

COMMANDS = {
    "demo": Command("gateway.cli.demo:demo", "run with a built-in fake provider and a ready connection"),
    "init": Command("gateway.cli.init:init", "write a gateway.yaml and its keys"),
    "serve": Command("gateway.cli.serve:serve", "run the gateway"),
    "check": Command("gateway.cli.check:check", "find what is wrong with a configuration, without starting"),
    "try": Command("gateway.cli.trial.command:trial", "send one call through a running gateway, and see all of it"),
    "doctor": Command("gateway.cli.doctor:doctor", "find what is wrong around a gateway before a user does"),
    "connections": Command("gateway.cli.connections:connections", "look at connections, renew, end and move them"),
    "events": Command("gateway.cli.events:events", "what was told to your application, and sending it again"),
    "keys": Command("gateway.cli.keys:keys", "secret keys and capability addresses, and the keys that seal everything"),
    "backup": Command("gateway.cli.backup:backup", "copy the database while gateways serve from it"),
    "restore": Command("gateway.cli.restore:restore", "put a backup in the place of the database"),
    "catalog": Command("gateway.cli.catalog:catalog", "look at the providers and check their entries"),
}


@click.group(cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="integration-gateway", prog_name="gateway")
def main() -> None:
    """Keeps end users' credentials for third-party APIs and lends them, one HTTP request at a time, to your application.

    `gateway demo` shows it at work; `gateway init` then `gateway serve` runs it for real.
    """
