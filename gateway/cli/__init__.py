"""The command ``gateway``: a folder or file for each command, and what they share.

    lazy_group, options, terminal                 commands imported when called; shared options; messages and exit codes
    secret_inputs, run_command                    read secrets from variables, files or prompts; run on the store or the runtime
    serve, worker                                 `gateway serve` and the worker process that its parent starts
    check, doctor                                 faults of a configuration; problems that would keep an end user from connecting
    init, init_answers, demo                      write a new configuration; run the gateway with its sandbox
    try_                                          one call through a running gateway, shown in full
    connections, keys, events, catalog            what their names say
    logs_command, audit                           search or follow the call log; the audit trail
    console_command                               `gateway console`: a link to sign in to the console
    incident                                      `gateway incident`: what an integration or a key did; revoke or delete it
    backup_restore                                `gateway backup` and `gateway restore`

A new command is a module with a click command and one line in `COMMANDS` below.

Always true: ``gateway --help`` imports no aiohttp, pydantic or database; a folder has the name of its command; no
secret is an argument, since every process of the machine can read arguments.
"""

import click

from gateway.cli.lazy_group import Command, LazyGroup
from gateway.startup.collector import collect_rarely

COMMANDS = {
    "demo": Command("gateway.cli.demo.demo_command:demo", "run with a built-in fake provider and a ready connection"),
    "init": Command("gateway.cli.init:init", "write a gateway.yaml and its keys"),
    "serve": Command("gateway.cli.serve:serve", "run the gateway"),
    "check": Command("gateway.cli.check:check", "find what is wrong with a configuration, without starting"),
    "try": Command("gateway.cli.try_.try_command:trial", "send one call through a running gateway, and see all of it"),
    "doctor": Command(
        "gateway.cli.doctor.doctor_command:doctor", "find what is wrong around a gateway before a user does"
    ),
    "connections": Command(
        "gateway.cli.connections:connections", "list and show connections; refresh, delete and move them"
    ),
    "logs": Command(
        "gateway.cli.logs_command:logs", "what happened: calls, refreshes, authorizations, deliveries, webhooks"
    ),
    "console": Command("gateway.cli.console_command:console", "print a link that signs an operator in to the console"),
    "audit": Command("gateway.cli.audit:audit", "who did what: show, export, verify, count the use of credentials"),
    "incident": Command(
        "gateway.cli.incident:incident", "what an integration or a key did in a time span; revoke or delete it"
    ),
    "events": Command("gateway.cli.events:events", "events sent to your application; send them again"),
    "keys": Command("gateway.cli.keys:keys", "secret keys and capability addresses; the encryption keys"),
    "backup": Command("gateway.cli.backup_restore:backup", "copy the database while gateways serve from it"),
    "restore": Command("gateway.cli.backup_restore:restore", "put a backup in the place of the database"),
    "catalog": Command("gateway.cli.catalog:catalog", "list and show providers, and check their entries"),
}


@click.group(cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="integration-gateway", prog_name="gateway")
def main() -> None:
    """A proxy that stores your users' OAuth tokens and API keys, keeps them fresh and adds them to your requests.

    `gateway demo` shows it at work; `gateway init` then `gateway serve` runs it for real.
    """
    collect_rarely()
