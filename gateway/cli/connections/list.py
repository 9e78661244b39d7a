"""``gateway connections list``: connections, newest first, a line each."""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.connections.options import environment
from gateway.cli.connections.work import check_integration, environment_of, run, table
from gateway.cli.options import as_json, config_file

if TYPE_CHECKING:
    from gateway.records.connection import Connection
    from gateway.services import Services


@click.command("list")
@config_file
@environment
@click.option(
    "--integration", "integrations", multiple=True, metavar="ID", help="Only of this integration; may be repeated."
)
@click.option("--search", metavar="TEXT", help="In connection ID, and the end user's name and e-mail.")
@click.option("--end-user", metavar="ID", help="Only of this end user.")
@click.option(
    "--dying-within",
    type=click.IntRange(1, 3650),
    metavar="DAYS",
    help="Only those that end by then if nothing is done.",
)
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many.")
@click.option("--cursor", metavar="TEXT", help="Go on where a list ended.")
@as_json
def list_connections(
    file: Path,
    environment: str | None,
    integrations: tuple[str, ...],
    search: str | None,
    end_user: str | None,
    dying_within: int | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List connections: ID, integration, end user, state, the day their refresh token
    dies if nobody uses it, when they were made. Never a credential."""

    async def work(services: "Services") -> int:
        from gateway import clock
        from gateway.api.connection_json import listed
        from gateway.store import ListFilter, cursor_after

        name = environment_of(services, environment)
        for one in integrations:
            await check_integration(services, name, one)
        wanted = ListFilter(
            integration_ids=integrations,
            search=search,
            end_user_id=end_user,
            dies_before=clock.now() + timedelta(days=dying_within) if dying_within else None,
            limit=limit + 1,
            cursor=cursor,
        )
        found = await services.store.connections.list(name, wanted)
        shown, more = found[:limit], len(found) > limit
        following = cursor_after(shown[-1]) if more else None
        if as_json:
            body: dict[str, Any] = {"connections": [listed(one) for one in shown]}
            print(json.dumps(body | ({"next_cursor": following} if following else {}), indent=2))
            return 0
        table(("CONNECTION", "INTEGRATION", "END USER", "STATE", "DIES", "MADE"), [_row(one) for one in shown])
        if following:
            print(f"There are more: --cursor {following}", file=sys.stderr)
        return 0

    run(file, work, as_json=as_json)


def state(connection: "Connection") -> str:
    """The state, and behind a colon the reason for one that is not ``active``."""
    reason = connection.state_reason
    return (
        connection.state.value if connection.state == "active" or not reason else f"{connection.state.value}: {reason}"
    )


def _row(connection: "Connection") -> tuple[str, ...]:
    user = connection.end_user
    who = (user.email or user.display_name or user.id) if user else ""
    ref, dies_at = connection.ref, connection.life.dies_at
    dies, made = f"{dies_at:%Y-%m-%d}" if dies_at else "", f"{connection.created_at:%Y-%m-%d %H:%M}"
    return ref.connection_id, ref.integration_id, who, state(connection), dies, made
