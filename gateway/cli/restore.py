"""``gateway restore FILE``: a backup in the place of the database, which is kept beside it."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import as_json, config_file
from gateway.wording import counted

if TYPE_CHECKING:
    from gateway.store.sqlite_restore import Restored


@click.command()
@click.argument("source", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@config_file
@click.option("--exactly", is_flag=True, help="Take nothing over from the database that is replaced.")
@as_json
def restore(source: Path, file: Path, exactly: bool, as_json: bool) -> None:
    """Put the backup FILE in the place of the database. Stop every gateway first.

    The database that is replaced stays beside it. Where it can be read, tokens that were renewed since the backup are taken
    over from it: those in the backup are spent, and a provider may end the whole grant when it sees one again.
    """
    from gateway.cli.progress import progress
    from gateway.cli.refusal import faults_end_the_command
    from gateway.cli.sqlite_file import sqlite_file

    with faults_end_the_command(as_json, file):
        options = "--clean --if-exists --single-transaction"
        path, keyring = sqlite_file(file, f"pg_restore {options} --dbname={{url}} {shlex.quote(str(source))}")
        from gateway.store.sqlite_restore import restore as put_back

        with progress("copying") as step:
            done = put_back(source.absolute(), path, keyring, exactly=exactly, step=step)
    if as_json:
        print(json.dumps({"ok": True, **_report(done)}))
        return
    moment = f"as of {done.at:%Y-%m-%d %H:%M:%S} UTC" if done.at else "of a time that the file does not tell"
    print(f"{path}: {counted(done.connections, 'connection')} {moment}")
    for line in _warnings(done):
        print(line, file=sys.stderr)


def _report(done: "Restored") -> dict[str, object]:
    return {
        "at": done.at.isoformat() if done.at else None,
        "connections": done.connections,
        "kept": str(done.kept) if done.kept else None,
        "credentials_taken_over": done.taken_over,
        "deleted_since_and_back": done.back,
        "made_since_and_gone": done.gone,
    }


def _warnings(done: "Restored") -> list[str]:
    """What is lost, or back, by it."""
    told = [f"The replaced database is kept as {done.kept}."] if done.kept else []
    if done.taken_over is not None:
        told.append(
            f"Tokens of {counted(done.taken_over, 'connection')} were renewed since, and were taken over from it."
        )
    else:
        told.append(
            "Tokens that were renewed since are not in it: where a provider rotates them, the next renewal is refused, and "
            "the end user has to connect again (`gateway connections why` tells)."
        )
        told.append("Minted keys that were revoked since work again: `gateway keys list`, and revoke them again.")
    if done.gone:
        told.append(f"Made since the backup, and only in the replaced database: {counted(done.gone, 'connection')}.")
    if done.back:
        told.append(f"Deleted since the backup, and back, so to be deleted again: {counted(done.back, 'connection')}.")
    return told
