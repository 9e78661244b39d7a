"""``gateway events list``: events and how their delivery stands, newest first, a line each."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.connections.options import environment
from gateway.cli.connections.work import environment_of, run, table
from gateway.cli.options import as_json, config_file

if TYPE_CHECKING:
    from gateway.services import Services


@click.command("list")
@config_file
@environment
@click.option(
    "--state", type=click.Choice(["pending", "delivered", "dead"]), help="Only those: dead ones were given up."
)
@click.option("--connection", metavar="ID", help="Only of this connection.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many.")
@click.option("--cursor", type=click.IntRange(1), metavar="NUMBER", help="Go on where a list ended.")
@as_json
def list_events(
    file: Path,
    environment: str | None,
    state: str | None,
    connection: str | None,
    limit: int,
    cursor: int | None,
    as_json: bool,
) -> None:
    """List events, one line for each address that one goes to.

    Delivered events are kept for 3 days, dead ones for 30.
    """

    async def work(services: "Services") -> int:
        from gateway.cli.events.told import day, told
        from gateway.records.event import DeliveryState
        from gateway.store import EventFilter

        wanted = EventFilter(
            environment=environment_of(services, environment),
            state=DeliveryState(state) if state else None,
            connection_id=connection,
            limit=limit + 1,
            cursor=cursor,
        )
        found = await services.store.event_log.list(wanted)
        shown = found[:limit]
        following = shown[-1].id if len(found) > limit else None
        if as_json:
            print(json.dumps({"events": [told(one) for one in shown], "next_cursor": following}, indent=2))
            return 0
        columns = ("ID", "AT (UTC)", "EVENT", "CONNECTION", "TARGET", "STATE", "TRIES", "NEXT TRY", "LAST ANSWER")
        rows = []
        for one in shown:
            last = one.detail or str(one.status or "")
            whose = (one.message_id, day(one.at), one.event, one.connection_id or "", one.target)
            rows.append((*whose, one.state.value, str(one.attempts), day(one.due_at), last))
        table(columns, rows)
        if following is not None:
            print(f"there are more: --cursor {following}", file=sys.stderr)
        return 0

    run(file, work, as_json=as_json)
