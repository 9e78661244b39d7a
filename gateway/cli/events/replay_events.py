"""``gateway events replay``: sends events again, with the same ids."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.options import as_json, config_file, environment, parse_moment
from gateway.cli.run_command import run, select_environment
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.runtime import Runtime


@click.command()
@config_file
@environment
@click.option(
    "--dead", is_flag=True, help="All events that could not be delivered; with --since, only those since then."
)
@click.option(
    "--since", metavar="WHEN", help="All events since then: 2h, 3d, or a date such as 2026-01-31T08:00+00:00."
)
@click.argument("message_ids", nargs=-1, metavar="[ID]...")
@as_json
def replay(
    file: Path, environment: str | None, dead: bool, since: str | None, message_ids: tuple[str, ...], as_json: bool
) -> None:
    """Send events again: by their IDs, or all that --dead and --since select.

    Events keep their webhook-id, so a receiver can recognize events that it has seen. A running gateway sends them
    immediately, and retries for another day.
    """
    if bool(message_ids) == (dead or since is not None):
        raise click.UsageError("Give the IDs of events, or select events with --dead or --since, not both.")

    async def work(runtime: "Runtime") -> int:
        from gateway import clock
        from gateway.records.event import DeliveryState
        from gateway.store import EventFilter

        now = clock.now()
        filters = EventFilter(
            environment=select_environment(runtime, environment),
            state=DeliveryState.DEAD if dead else None,
            message_ids=message_ids,
            since=parse_moment("--since", since, now) if since else None,
        )
        queued_count = await runtime.store.event_log.replay(filters, now)
        nothing_queued = bool(message_ids) and not queued_count
        if as_json:
            print(json.dumps({"queued": queued_count}))
        elif not nothing_queued:
            print(
                f"{counted(queued_count, 'delivery', 'deliveries')} queued; list them with `gateway events list --state pending`"
            )
        if nothing_queued:
            ids = " or ".join(f"'{message_id}'" for message_id in message_ids)
            print(f"gateway: there is no event {ids}, or it is being sent now", file=sys.stderr)
        return 1 if nothing_queued else 0

    run(file, work, as_json=as_json, needs_integrations=False)
