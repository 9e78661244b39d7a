"""``gateway connections refresh``: refreshes credentials now."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.connections.show_connections import find_connection
from gateway.cli.options import (
    all_connections,
    as_json,
    check_named,
    config_file,
    connection_ids,
    environment,
    optional_integration,
)
from gateway.cli.run_command import check_integration, connection_refs, run, run_for_each, select_environment, table
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.records.connection import ConnectionRef
    from gateway.runtime import Runtime


@click.command()
@config_file
@environment
@optional_integration
@all_connections
@connection_ids
@as_json
def refresh(
    file: Path,
    environment: str | None,
    integration: str | None,
    selects_all: bool,
    connection_ids: tuple[str, ...],
    as_json: bool,
) -> None:
    """Refresh the credentials of each CONNECTION now, even if they are not due. Exits 1 if one could not be refreshed.

    A running gateway and this command never refresh the same connection at the same time.
    """
    check_named(connection_ids, selects_all)
    if selects_all and integration is None:
        raise click.UsageError("--all needs --integration ID.")

    async def work(runtime: "Runtime") -> int:
        from gateway.moving.parallel_work import refresh_now

        refs = await _refs(runtime, select_environment(runtime, environment), integration, connection_ids)
        if refs is None:
            return 1
        results: list[dict[str, Any]] = []

        async def refresh(ref: "ConnectionRef") -> None:
            outcome, detail = await refresh_now(runtime, ref)
            reference = {"connection_id": ref.connection_id, "integration": ref.integration_id}
            results.append({**reference, "outcome": outcome, "detail": detail})

        await run_for_each(refs, refresh, "refreshing")
        results.sort(key=lambda row: str(row["connection_id"]))
        if as_json:
            print(json.dumps({"connections": results}, indent=2))
        else:
            table(
                ("CONNECTION", "OUTCOME", "DETAIL"),
                [(row["connection_id"], row["outcome"], row["detail"] or "") for row in results],
            )
        failed = sum(row["outcome"] == "failed" for row in results)
        if failed:
            print(
                f"gateway: {failed} of {counted(len(results), 'connection')} could not be refreshed{_help_text(results, file)}",
                file=sys.stderr,
            )
        return 1 if failed else 0

    run(file, work, as_json=as_json)


async def _refs(
    runtime: "Runtime", environment: str, integration: str | None, connection_ids: tuple[str, ...]
) -> "list[ConnectionRef] | None":
    """Return references to the connections with these ids; without ids, to all of the integration.

    If a connection is unknown or ambiguous, print an error and return None.
    """
    if integration is not None:
        from gateway.records.connection import ConnectionRef

        await check_integration(runtime, environment, integration)
        refs = [ConnectionRef(environment, integration, connection_id) for connection_id in connection_ids]
        return refs or await connection_refs(runtime, environment, integration)
    connections = [await find_connection(runtime, environment, None, connection_id) for connection_id in connection_ids]
    return [connection.ref for connection in connections if connection is not None] if all(connections) else None


def _help_text(results: list[dict[str, Any]], file: Path) -> str:
    from shlex import quote

    from gateway.cli.terminal import configuration_option, program

    first_failed = next(row for row in results if row["outcome"] == "failed")
    integration, connection = quote(str(first_failed["integration"])), quote(str(first_failed["connection_id"]))
    option = configuration_option(file)
    command = f"`{program()} connections why{option} --integration {integration} {connection}` shows what to do"
    return f"; {command}, and `{program()} doctor{option} {integration}` checks whether its provider can be reached"
