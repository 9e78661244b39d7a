"""``gateway audit forget``: deletes an end user's audit key."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import as_json, config_file, environment
from gateway.cli.run_command import run, select_environment

if TYPE_CHECKING:
    from gateway.runtime import Runtime


@click.command()
@config_file
@environment
@click.argument("end_user")
@as_json
def forget(file: Path, environment: str | None, end_user: str, as_json: bool) -> None:
    """Delete the audit key of END_USER, so that the digests in records no longer identify the end user. The chain stays valid.

    Deleting an end user's last connection has the same effect.
    """

    async def work(runtime: "Runtime") -> int:
        from gateway.records.audit import AuditAction, AuditEntry

        environment_name = select_environment(runtime, environment)
        was_forgotten = await runtime.store.trail.forget(
            environment_name, end_user, AuditEntry.of(AuditAction.PERSON_FORGOTTEN, environment_name)
        )
        if as_json:
            print(json.dumps({"forgotten": was_forgotten}))
        elif was_forgotten:
            print("Forgotten: the records no longer identify this end user.")
        else:
            print("gateway: no record is about this end user, or the end user was already forgotten", file=sys.stderr)
        return 0 if was_forgotten else 1

    run(file, work, as_json=as_json)
