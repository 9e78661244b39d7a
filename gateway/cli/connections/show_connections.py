"""``gateway connections list``, ``show`` and ``why``: show connections and explain their state."""

import json
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.options import as_json, config_file, environment, optional_integration
from gateway.cli.run_command import check_integration, run, select_environment, table
from gateway.cli.terminal import one_line, without_control_characters
from gateway.text import did_you_mean

if TYPE_CHECKING:
    from gateway.records.connection import Connection
    from gateway.runtime import Runtime
    from gateway.store import ListFilter

# ── Finding a connection by its id, with or without the key of its integration.

MAX_LISTED: Final = 20
MAX_COMPARED: Final = 500  # maximum number of ids that are searched for the most similar id


async def find_connection(
    runtime: "Runtime", environment: str, integration: str | None, connection_id: str
) -> "Connection | None":
    """Return the connection with that id, or print an error and return None.

    It is an error if no connection has the id, or if several do. `integration` None: search all integrations.
    """
    from gateway.store import ListFilter

    if integration is not None:
        await check_integration(runtime, environment, integration)
    integration_ids = (integration,) if integration is not None else ()
    filters = ListFilter(connection_id=connection_id, integration_ids=integration_ids, limit=MAX_LISTED)
    connections = await runtime.store.connections.list(environment, filters)
    if len(connections) == 1:
        return connections[0]
    if connections:
        _print_several(connection_id, [connection.ref.integration_id for connection in connections])
    else:
        candidates = await runtime.store.connections.list(
            environment, ListFilter(integration_ids=integration_ids, limit=MAX_COMPARED)
        )
        near_id = did_you_mean(connection_id, dict.fromkeys(connection.ref.connection_id for connection in candidates))
        searched_integrations = f"integration '{integration}'" if integration is not None else "any integration"
        hint = near_id or "; `gateway connections list` shows the connections"
        print(
            f"gateway: there is no connection '{connection_id}' in {searched_integrations} of environment '{environment}'{hint}",
            file=sys.stderr,
        )
    return None


def _print_several(connection_id: str, integrations: list[str]) -> None:
    print(
        f"gateway: several integrations have a connection '{connection_id}'; name one:",
        file=sys.stderr,
    )
    for name in sorted(integrations):
        print(f"  --integration {name}", file=sys.stderr)


@click.command("list")
@config_file
@environment
@click.option(
    "--integration", "integrations", multiple=True, metavar="ID", help="Only this integration; may be repeated."
)
@click.option("--search", metavar="TEXT", help="Only connections with this text in ID, end user's name or e-mail.")
@click.option("--end-user", metavar="ID", help="Only this end user.")
@click.option(
    "--dying-within",
    type=click.IntRange(1, 3650),
    metavar="DAYS",
    help="Only connections that expire within this many days if nothing is done.",
)
@click.option("--missing-scopes", is_flag=True, help="Only connections that lack scopes.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Maximum number of connections."
)
@click.option("--cursor", metavar="CURSOR", help="Continue after an earlier list, which printed its cursor at the end.")
@as_json
def list_connections(
    file: Path,
    environment: str | None,
    integrations: tuple[str, ...],
    search: str | None,
    end_user: str | None,
    dying_within: int | None,
    missing_scopes: bool,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List connections: ID, integration, end user, state, the day on which they expire if nothing is done, and when
    they were created. Credentials are never shown."""

    async def work(runtime: "Runtime") -> int:
        from gateway import clock
        from gateway.api.connection_json import listed_connection_json
        from gateway.store import ListFilter, cursor_after

        environment_name = select_environment(runtime, environment)
        for integration in integrations:
            await check_integration(runtime, environment_name, integration)
        filters = ListFilter(
            integration_ids=integrations,
            search=search,
            end_user_id=end_user,
            dies_before=clock.now() + timedelta(days=dying_within) if dying_within else None,
            limit=limit + 1,
            cursor=cursor,
        )
        if missing_scopes:
            listed_connections, next_cursor = await _find_lacking(runtime, environment_name, filters, limit)
        else:
            connections = await runtime.store.connections.list(environment_name, filters)
            listed_connections = connections[:limit]
            next_cursor = cursor_after(listed_connections[-1]) if len(connections) > limit else None
        if as_json:
            body: dict[str, Any] = {
                "connections": [listed_connection_json(connection) for connection in listed_connections]
            }
            print(json.dumps(body | ({"next_cursor": next_cursor} if next_cursor else {}), indent=2))
            return 0
        table(
            ("CONNECTION", "INTEGRATION", "END USER", "STATE", "EXPIRES", "CREATED"),
            [_row(connection) for connection in listed_connections],
        )
        if next_cursor:
            print(f"There are more: --cursor {next_cursor}", file=sys.stderr)
        return 0

    run(file, work, as_json=as_json, needs_integrations=False)


async def _find_lacking(
    runtime: "Runtime", environment: str, list_filter: "ListFilter", limit: int
) -> "tuple[list[Connection], str | None]":
    """Return the first `limit` connections that lack scopes, and the cursor of the next page.

    The cursor is None on the last page.
    """
    from gateway.connections.lacking_scopes import find_lacking

    found_connections: list[Connection] = []
    while True:
        page = await find_lacking(
            runtime.store, runtime.generation, environment, replace(list_filter, limit=limit - len(found_connections))
        )
        found_connections += page.rows
        if page.cursor is None or len(found_connections) == limit:
            return found_connections, page.cursor
        list_filter = replace(list_filter, cursor=page.cursor)


def state(connection: "Connection") -> str:
    """Return the state, followed by a colon and its reason if the state is not ``active``."""
    reason = connection.state_reason
    return (
        connection.state.value if connection.state == "active" or not reason else f"{connection.state.value}: {reason}"
    )


def _row(connection: "Connection") -> tuple[str, ...]:
    user = connection.end_user
    end_user = (user.email or user.display_name or user.id) if user else ""
    ref, dies_at = connection.ref, connection.life.dies_at
    expires, created = f"{dies_at:%Y-%m-%d}" if dies_at else "", f"{connection.created_at:%Y-%m-%d %H:%M}"
    return ref.connection_id, ref.integration_id, end_user, state(connection), expires, created


# ── ``gateway connections show``: prints one connection, without its credential.


@click.command()
@config_file
@environment
@optional_integration
@click.argument("connection_id", metavar="CONNECTION")
@as_json
def show(file: Path, environment: str | None, integration: str | None, connection_id: str, as_json: bool) -> None:
    """Show CONNECTION: its settings, end user and refresh state. Never shows its credential or a secret setting."""

    async def work(runtime: "Runtime") -> int:
        connection = await find_connection(
            runtime, select_environment(runtime, environment), integration, connection_id
        )
        if connection is None:
            return 1
        connection_json = _connection_json(runtime, connection)
        if as_json:
            print(json.dumps(connection_json, indent=2))
            return 0
        width = max(map(len, connection_json))
        for name, value in connection_json.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            print(f"{name:<{width}}  {one_line(text)}")
        return 0

    run(file, work, as_json=as_json, needs_integrations=False)


def _connection_json(runtime: "Runtime", connection: "Connection") -> dict[str, Any]:
    from gateway.api.connection_json import full_connection_json, timestamp_with_offset

    connection_json = dict(full_connection_json(runtime.store, connection, credentials=False))
    del connection_json["credentials"]
    failure = connection.failure
    return {
        **connection_json,
        "state_reason": connection.state_reason,
        "credential_type": runtime.store.open_or_nothing(connection.credential).get("type"),
        "expires_at": timestamp_with_offset(connection.expires_at) if connection.expires_at else None,
        "last_refreshed_at": timestamp_with_offset(connection.refreshed_at) if connection.refreshed_at else None,
        "refresh_failure": {"reason": failure.code, "provider_message": failure.message, "attempts": failure.attempts}
        if failure
        else None,
    }


# ── ``gateway connections why``: explains the state of one connection, and prints the action that fixes it.


@click.command()
@config_file
@environment
@optional_integration
@click.argument("connection_id", metavar="CONNECTION")
@as_json
def why(file: Path, environment: str | None, integration: str | None, connection_id: str, as_json: bool) -> None:
    """Explain the state of CONNECTION: its timeline, the likely causes in order, and what to do. Shows no secret."""

    async def work(runtime: "Runtime") -> int:
        from gateway.api.connection_json import history_json

        connection = await find_connection(
            runtime, select_environment(runtime, environment), integration, connection_id
        )
        if connection is None:
            return 1
        history = await history_json(runtime, runtime.generation, connection, in_serving_process=False)
        body = {"connection_id": connection_id, "provider_config_key": connection.ref.integration_id, **history}
        print(json.dumps(body, indent=2) if as_json else without_control_characters(_text(body)))
        return 0

    run(file, work, as_json=as_json, needs_integrations=False)


def _text(body: dict[str, Any]) -> str:
    diagnosis = body["diagnosis"]
    lines = [
        f"{body['connection_id']} ({body['provider_config_key']}) is {diagnosis['state']} since {_time_text(diagnosis['since'])}"
    ]
    lines += ["", "What happened"]
    for event in diagnosis["timeline"]:
        detail = f"  ({event['detail']})" if event["detail"] else ""
        lines.append(f"  {_time_text(event['at'])}  {'→ ' if event['ahead'] else '  '}{event['what']}{detail}")
    if diagnosis["causes"]:
        lines += ["", "Likely causes, most likely first"]
        lines += [f"  {number}. {cause['why']}" for number, cause in enumerate(diagnosis["causes"], 1)]
    scopes = body["scopes"]
    if scopes["granted"] is not None:
        lines += ["", f"Scopes granted: {' '.join(scopes['granted'])}"]
        lines += [f"Scopes missing: {' '.join(scopes['missing'])}"] if scopes["missing"] else []
    return "\n".join([*lines, "", "What to do", f"  {diagnosis['action']['how']}"])


def _time_text(stamp: str) -> str:
    return f"{stamp[:10]} {stamp[11:19]} UTC"
