"""``gateway backup FILE``: a copy of the database, made while gateways serve from it."""

import json
import shlex
import sys
from pathlib import Path

import click

from gateway.cli.options import as_json, config_file
from gateway.wording import counted


@click.command()
@click.argument("target", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@config_file
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@as_json
def backup(target: Path, file: Path, force: bool, as_json: bool) -> None:
    """Copy the database to FILE, as it is at one moment, while gateways serve from it.

    FILE is readable by its owner alone, and appears only once the copy is whole, sound and opens under the encryption
    keys. Credentials in it are sealed: it is worth nothing without the keys, which belong in another place.
    """
    from gateway.cli.progress import progress
    from gateway.cli.refusal import faults_end_the_command
    from gateway.cli.sqlite_file import sqlite_file

    with faults_end_the_command(as_json, file):
        source, keyring = sqlite_file(file, f"pg_dump --format=custom --file={shlex.quote(str(target))} {{url}}")
        from gateway.store.look import look
        from gateway.store.refusal import StoreRefused
        from gateway.store.sqlite_backup import back_up

        if not source.exists():
            raise StoreRefused(f"{source} is not there yet: start the gateway once, or correct store.url.")
        look(source, keyring)
        with progress("copying") as step:
            made = back_up(source, target.absolute(), keyring, over=force, step=step)
    if as_json:
        told = {
            "file": str(target),
            "at": made.at.isoformat(),
            "bytes": made.size_bytes,
            "connections": made.connections,
        }
        print(json.dumps({"ok": True, **told}))
    else:
        held, size = counted(made.connections, "connection"), counted(made.size_bytes, "byte")
        print(f"{target}: {held} as of {made.at:%Y-%m-%d %H:%M:%S} UTC, {size}")
        print("It opens only under store.encryption_keys: keep these in another place.", file=sys.stderr)
