"""``gateway audit uses``: shows how often each key used each connection."""

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.audit.audit_filters import parse_time
from gateway.cli.options import RowId, as_json, config_file, environment
from gateway.cli.run_command import run, select_environment, table
from gateway.records.filters import single_or_any_set
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.runtime import Runtime


@click.command()
@config_file
@environment
@click.option(
    "--key",
    type=RowId(0),
    metavar="NUMBER",
    help="Only the minted key of this id; 0 for the keys of gateway.yaml.",
)
@click.option("--integration", metavar="ID", help="Only this integration.")
@click.option("--connection", metavar="ID", help="Only this connection; it may be deleted.")
@click.option(
    "--since", metavar="WHEN", help="Only since this time: 2h, 3d, or a date.  [default: one day before --until]"
)
@click.option("--until", metavar="WHEN", help="Only before this time.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Maximum number of lines."
)
@as_json
def uses(
    file: Path,
    environment: str | None,
    key: int | None,
    integration: str | None,
    connection: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Count the proxied calls of each connection and key, over whole hours, the most used first."""

    async def work(runtime: "Runtime") -> int:
        from gateway import clock
        from gateway.api.audit_endpoints import credential_uses_json
        from gateway.records.audit import CredentialUseFilter

        until_time = parse_time(until, "until") or clock.now()
        since_time = parse_time(since, "since") or until_time - timedelta(days=1)
        if until_time <= since_time:
            raise click.UsageError("--until must be later than --since.")
        filters = CredentialUseFilter(
            select_environment(runtime, environment),
            since_time,
            until_time,
            single_or_any_set(key),
            integration,
            connection,
            limit,
        )
        uses_json = credential_uses_json(filters, await runtime.store.uses.find(filters))
        if as_json:
            print(json.dumps(uses_json, indent=2))
            return 0
        rows = [
            (
                str(use["key_id"] or ""),
                use["provider_config_key"],
                use["connection_id"],
                str(use["calls"]),
                str(use["failed"]),
            )
            for use in uses_json["data"]
        ]
        table(("KEY", "INTEGRATION", "CONNECTION", "CALLS", "FAILED"), rows)
        print(
            f"{uses_json['from']} to {uses_json['to']}: {counted(uses_json['calls'], 'call')}, {uses_json['failed']:,} failed"
        )
        return 0

    run(file, work, as_json=as_json, needs_integrations=False)
