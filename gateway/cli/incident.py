"""``gateway incident``: reports what an integration or a key did within a time span.

With options, the command also revokes keys and deletes connections.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.options import RowId, as_json, config_file, environment, parse_moment
from gateway.cli.run_command import run, select_environment, table
from gateway.cli.terminal import one_line
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.runtime import Runtime

MAX_ROWS: Final = 10_000


@click.command()
@config_file
@environment
@click.option("--integration", metavar="ID", help="Report the use of this integration's credentials.")
@click.option(
    "--key",
    type=RowId(shown_by="gateway keys list"),
    metavar="NUMBER",
    help="Report what this minted key and the keys that it minted did.",
)
@click.option(
    "--since",
    metavar="WHEN",
    default="24h",
    show_default=True,
    help="The start of the time span: 2h, 3d, or a date in ISO 8601.",
)
@click.option("--until", metavar="WHEN", help="The end of the time span.  [default: now]")
@click.option("--revoke-keys", is_flag=True, help="Revoke the key and the keys that it minted.")
@click.option(
    "--delete-connections",
    is_flag=True,
    help="Delete the connections that were used, and revoke their tokens at the providers.",
)
@as_json
def incident(
    file: Path,
    environment: str | None,
    integration: str | None,
    key: int | None,
    since: str,
    until: str | None,
    revoke_keys: bool,
    delete_connections: bool,
    as_json: bool,
) -> None:
    """Report what an integration or a key did: connections, calls, credentials read. The console shows the same report.

    Nothing is revoked or deleted without --revoke-keys or --delete-connections.
    """
    if integration is None and key is None:
        raise click.UsageError("Give --integration, --key or both.")
    if revoke_keys and key is None:
        raise click.UsageError("--revoke-keys needs --key.")

    async def work(runtime: "Runtime") -> int:
        from gateway import clock
        from gateway.console.incident_report import MAX_KEYS, incident_subject, report, revoke_all

        now = clock.now()
        texts = (("since", since), ("until", until))
        times = {name: parse_moment(f"--{name}", text, now) for name, text in texts if text}
        subject = incident_subject(
            select_environment(runtime, environment),
            integration_id=integration,
            key_id=key,
            since=times.get("since"),
            until=times.get("until"),
        )
        incident_json = await report(runtime, subject, max_connections=MAX_ROWS, max_keys=MAX_KEYS)
        actions: list[str] = []
        if revoke_keys or delete_connections:
            actions = await revoke_all(
                runtime, subject, incident_json, "gateway incident", keys=revoke_keys, connections=delete_connections
            )
        if as_json:
            print(json.dumps({**incident_json, "ended": actions}, ensure_ascii=False))
            return 0
        _print_report(incident_json, actions)
        if revoke_keys or delete_connections:
            if not actions:
                print("\nNothing was left to revoke or delete with these options.", file=sys.stderr)
        elif incident_json["connections"]:
            print(
                "\nNothing was revoked or deleted. To do so, add --revoke-keys or --delete-connections.",
                file=sys.stderr,
            )
        return 0

    run(file, work, as_json=as_json, needs_integrations=delete_connections)


def _print_report(incident_json: Mapping[str, Any], actions_done: Sequence[str]) -> None:
    """Print the report of an incident. `actions_done`: the lines that `revoke_all` returned about revoked and deleted objects."""
    uses = incident_json["uses"]
    print(
        f"{counted(uses['calls'], 'call')}, {uses['failed']:,} failed; {incident_json['since']} to "
        f"{incident_json['until']}"
    )
    if incident_json["refused_calls"]:
        at_least = "at least " if incident_json["more_refused"] else ""
        refused_text = counted(incident_json["refused_calls"], "call")
        print(f"{at_least}{refused_text} refused: not allowed for the key, or for an unknown connection")
    print(
        f"{counted(incident_json['keys_in_all'], 'key')}, {counted(len(incident_json['records']), 'record')} of the audit trail"
    )
    names = ("provider_config_key", "connection_id", "state", "calls", "failed")
    rows = [[str(connection[name]) for name in names] for connection in incident_json["connections"]]
    table(("INTEGRATION", "CONNECTION", "STATE", "CALLS", "FAILED"), rows)
    for line in actions_done:
        print(one_line(line))
