"""The command ``gateway``: a folder or file for each command, and what they share.

    lazy_group, options, terminal        imports a command when it is called; shared options; messages and exit codes
    secret_inputs, run_command           reads secrets from variables, files or prompts; opens the store or the runtime
    serve                                `gateway serve`: starts the parent process
    check, doctor                        find faults of a configuration, and problems that would affect end users
    init, init_answers, demo             write a new configuration; run the gateway with a fake provider
    try_                                 sends one call through a running gateway, and shows it in full
    connections, keys, events, catalog   groups of commands, one group for each subject
    logs_command, audit                  search or follow the call log; show and verify the audit trail
    console_command                      `gateway console`: prints a link to sign in to the console
    incident                             reports what an integration or a key did, and revokes and deletes
    backup_restore                       `gateway backup` and `gateway restore`

A new command needs a module with a click command, and one line in `COMMANDS` below.

Always true: ``gateway --help`` imports no aiohttp, pydantic or database; a folder has the name of its command; no
command needs a secret as an argument, because every process of the machine can read arguments (`try --key` accepts one).
"""

import click

from gateway.cli.lazy_group import Command, LazyGroup

COMMANDS = {
    "demo": Command(
        "gateway.cli.demo.demo_command:demo", "run the gateway with a fake provider and a ready connection"
    ),
    "init": Command("gateway.cli.init:init", "write a gateway.yaml and its keys"),
    "serve": Command("gateway.cli.serve:serve", "run the gateway"),
    "check": Command("gateway.cli.check:check", "check a configuration without starting the gateway"),
    "try": Command(
        "gateway.cli.try_.try_command:try_call", "send one call through a running gateway and show it in full"
    ),
    "doctor": Command(
        "gateway.cli.doctor.doctor_command:doctor", "find problems of a gateway and its surroundings before a user does"
    ),
    "connections": Command("gateway.cli.connections:connections", "list, show, refresh, delete and move connections"),
    "logs": Command(
        "gateway.cli.logs_command:logs", "search the log of calls, refreshes, authorizations, deliveries and webhooks"
    ),
    "console": Command("gateway.cli.console_command:console", "print a link to sign in to the console"),
    "audit": Command(
        "gateway.cli.audit:audit", "show, export and verify the audit trail; count the use of credentials"
    ),
    "incident": Command(
        "gateway.cli.incident:incident", "report what an integration or a key did in a time span; revoke and delete"
    ),
    "events": Command("gateway.cli.events:events", "list events sent to your application, and send them again"),
    "keys": Command("gateway.cli.keys:keys", "manage secret keys, capability URLs and the encryption keys"),
    "backup": Command("gateway.cli.backup_restore:backup", "copy the database while gateways run"),
    "restore": Command("gateway.cli.backup_restore:restore", "replace the database with a backup"),
    "catalog": Command("gateway.cli.catalog:catalog", "list and show providers, and check their entries"),
}


@click.group(cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="integration-gateway", prog_name="gateway")
def main() -> None:
    """A proxy that stores your users' OAuth tokens and API keys, keeps them fresh and adds them to your requests.

    To try it, run `gateway demo`. To set it up, run `gateway init`, then `gateway serve`.
    """
