"""``gateway backup FILE`` copies the database; ``gateway restore FILE`` replaces the database with such a copy."""

import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import click

from gateway.cli.options import as_json, config_file
from gateway.cli.run_command import load_configuration, run_as_operator
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.store.sqlite.sqlite_restore import RestoreResult
    from gateway.vault import Keyring

# ── The database that `backup` and `restore` copy: a SQLite file. PostgreSQL has its own tools.


def sqlite_file(file: Path, other_command: str, qualifier: str = "") -> "tuple[Path, Keyring]":
    """Return the SQLite file of the store, and the encryption keys. The file can be missing. Raises Faults.

    If the store is PostgreSQL, print a command to run instead, and exit with code 1. `file`: the configuration.
    `other_command`: the command for PostgreSQL; its ``{url}`` is replaced by the store's URL without the password.
    `qualifier`: words that the message adds to the command, such as ``into an empty database``.
    """
    from gateway.vault import Keyring

    config, _ = load_configuration(file)
    _refuse_postgresql(config.store.url, other_command, qualifier)
    from gateway.store.sqlite.file_preflight import sqlite_path

    return sqlite_path(config.store.url), Keyring(config.store.encryption_keys)


def _refuse_postgresql(url: str, other_command: str, qualifier: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "postgresql":
        return
    user, _, host = parts.netloc.rpartition("@")
    login_without_password = f"{user.partition(':')[0]}@{host}" if user else host
    url_text = shlex.quote(urlunsplit(parts._replace(netloc=login_without_password)))
    qualifier_text = f", {qualifier}" if qualifier else ""
    message = (
        f"The store is PostgreSQL. Use its own tools instead{qualifier_text}: {other_command.format(url=url_text)}"
    )
    print(f"gateway: {message}", file=sys.stderr)
    sys.exit(1)


# ── ``gateway backup FILE``: copies the database while gateways use it.


@click.command()
@click.argument("target", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@config_file
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@as_json
def backup(target: Path, file: Path, force: bool, as_json: bool) -> None:
    """Copy the database to FILE, as of one moment, while gateways run.

    Only its owner can read FILE. FILE appears once the copy is complete and was opened with the encryption keys.
    Credentials in FILE are encrypted: without the keys they cannot be read, so keep the keys in another place.
    """
    from gateway.cli.terminal import exit_on_faults, progress

    with exit_on_faults(as_json, file):
        source, keyring = sqlite_file(file, f"pg_dump --format=custom --file={shlex.quote(str(target))} {{url}}")
        from gateway.store.preflight_checks import StoreRefused
        from gateway.store.sqlite.file_preflight import check_file
        from gateway.store.sqlite.sqlite_backup import back_up

        if not source.exists():
            raise StoreRefused(f"{source} does not exist. Start the gateway once, or correct store.url.")
        check_file(source, keyring)
        with progress("copying") as step:
            result = run_as_operator(partial(back_up, source, target.absolute(), keyring, replaces=force, step=step))
    if as_json:
        report = {
            "file": str(target),
            "at": result.at.isoformat(),
            "bytes": result.size_bytes,
            "connections": result.connections,
            "recorded": result.recorded,
        }
        print(json.dumps({"ok": True, **report}))
    else:
        connections, size = counted(result.connections, "connection"), counted(result.size_bytes, "byte")
        print(f"{target}: {connections} as of {result.at:%Y-%m-%d %H:%M:%S} UTC, {size}")
        if not result.recorded:
            print(
                "The audit trail has no record of this backup: the database could not be written, or is of an older version.",
                file=sys.stderr,
            )
        print("It can be read only with store.encryption_keys. Keep these in another place.", file=sys.stderr)


# ── ``gateway restore FILE``: replaces the database with a backup, and keeps the replaced database in the same folder.


@click.command()
@click.argument("source", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@config_file
@click.option("--exactly", is_flag=True, help="Copy no newer tokens from the database that is replaced.")
@as_json
def restore(source: Path, file: Path, exactly: bool, as_json: bool) -> None:
    """Replace the database with the backup FILE. Stop every gateway first.

    The replaced database is kept beside the new one. If it can be read, tokens refreshed since the backup are copied
    from it: the backup's older tokens are used up, and a provider may revoke the whole grant if one is used again.
    """
    from gateway.cli.terminal import exit_on_faults, progress

    with exit_on_faults(as_json, file):
        options = "--exit-on-error --single-transaction"
        command = f"pg_restore {options} --dbname={{url}} {shlex.quote(str(source))}"
        path, keyring = sqlite_file(file, command, "into an empty database")
        from gateway.store.sqlite.sqlite_restore import restore as put_back

        with progress("copying") as step:
            result = run_as_operator(partial(put_back, source.absolute(), path, keyring, exactly=exactly, step=step))
    if as_json:
        print(json.dumps({"ok": True, **_report(result)}))
        return
    time_text = f"as of {result.at:%Y-%m-%d %H:%M:%S} UTC" if result.at else "as of an unknown time"
    print(f"{path}: {counted(result.connections, 'connection')} {time_text}")
    for line in _warnings(result):
        print(line, file=sys.stderr)


def _report(result: "RestoreResult") -> dict[str, object]:
    return {
        "at": result.at.isoformat() if result.at else None,
        "connections": result.connections,
        "kept": str(result.kept) if result.kept else None,
        "credentials_taken_over": result.taken_over,
        "deleted_since_and_back": result.restored_count,
        "made_since_and_gone": result.removed_count,
        "restored_connections": [
            {
                "environment": ref.environment,
                "provider_config_key": ref.integration_id,
                "connection_id": ref.connection_id,
            }
            for ref in result.restored
        ],
    }


def _warnings(result: "RestoreResult") -> list[str]:
    """Return the warnings about connections, tokens and keys that the restore loses or brings back."""
    warnings = [f"The replaced database is kept as {result.kept}."] if result.kept else []
    if result.taken_over:
        warnings.append(
            f"Tokens of {counted(result.taken_over, 'connection')} were refreshed after the backup. The restore copied them from "
            "the replaced database."
        )
    elif result.taken_over is None:
        warnings.append(
            "Tokens refreshed after the backup are not in the restored database: if a provider rotates refresh tokens, the "
            "next refresh fails and the end user must reconnect (see `gateway connections why`)."
        )
        warnings.append(
            "Minted keys that were revoked after the backup work again. List them with `gateway keys list`, and revoke them."
        )
    if result.removed_count:
        warnings.append(
            f"Created after the backup, and only in the replaced database: {counted(result.removed_count, 'connection')}."
        )
    if result.restored_count:
        warnings.append(
            f"Deleted after the backup and restored by it: {counted(result.restored_count, 'connection')}. Delete again with "
            "`gateway connections delete`:"
        )
        warnings += [
            f"  {ref.integration_id}/{ref.connection_id} in environment '{ref.environment}'" for ref in result.restored
        ]
        if result.restored_count > len(result.restored):
            warnings.append(f"  and {result.restored_count - len(result.restored):,} more")
    return warnings
