"""The command ``gateway``. What a command needs is imported when it runs.

    lazy_group.py      A command group that knows its commands' names and one-line helps, and imports a command only
                       when it is called.
    options.py         The options that several commands share.
    terminal.py        How commands speak: their own name, progress, faults in files and the exit code.
    secret_inputs.py   Secrets that a command is given: in an environment variable, a file or at a prompt, never as
                       an argument, which every
    run_command.py     Runs a command on the store alone, or on the gateway's services without serving.
    serve.py           ``gateway serve``: the gateway alone, in the foreground.
    worker.py          ``python -m gateway.cli.worker FD``: a worker of `gateway serve`, started by its parent with
                       one end of a channel.
    check.py           ``gateway check``: every fault of a configuration and its catalog, and warnings, before a
                       start finds them.
    init.py            ``gateway init``: a configuration, an encryption key and a secret key of one's own.
    init_answers.py    What a configuration depends on: given by flags, or asked for where somebody sits at a
                       terminal.
    backup_restore.py  ``gateway backup FILE`` and ``gateway restore FILE``.

Always true: ``gateway --help`` imports neither aiohttp nor pydantic nor a database; a folder is named as its command.
"""

import click

from gateway.cli.lazy_group import Command, LazyGroup

COMMANDS = {
    "demo": Command("gateway.cli.demo.demo_command:demo", "run with a built-in fake provider and a ready connection"),
    "init": Command("gateway.cli.init:init", "write a gateway.yaml and its keys"),
    "serve": Command("gateway.cli.serve:serve", "run the gateway"),
    "check": Command("gateway.cli.check:check", "find what is wrong with a configuration, without starting"),
    "try": Command("gateway.cli.try_.try_command:trial", "send one call through a running gateway, and see all of it"),
    "doctor": Command(
        "gateway.cli.doctor.doctor_command:doctor", "find what is wrong around a gateway before a user does"
    ),
    "connections": Command("gateway.cli.connections:connections", "look at connections, renew, end and move them"),
    "events": Command("gateway.cli.events:events", "what was told to your application, and sending it again"),
    "keys": Command("gateway.cli.keys:keys", "secret keys and capability addresses, and the keys that seal everything"),
    "backup": Command("gateway.cli.backup_restore:backup", "copy the database while gateways serve from it"),
    "restore": Command("gateway.cli.backup_restore:restore", "put a backup in the place of the database"),
    "catalog": Command("gateway.cli.catalog:catalog", "look at the providers and check their entries"),
}


@click.group(cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="integration-gateway", prog_name="gateway")
def main() -> None:
    """Keeps end users' credentials for third-party APIs and lends them, one HTTP request at a time, to your application.

    `gateway demo` shows it at work; `gateway init` then `gateway serve` runs it for real.
    """
