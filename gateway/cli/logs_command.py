"""``gateway logs``: searches the call log, or follows it."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.options import RowId, as_json, config_file, environment, parse_moment
from gateway.cli.run_command import run, select_environment, table
from gateway.cli.terminal import one_line
from gateway.records.filters import single_or_any_set
from gateway.records.operation import KINDS

if TYPE_CHECKING:
    from gateway.records.operation import OperationFilter, StoredOperation
    from gateway.runtime import Runtime

POLL_S: Final = 1.0
# Each search begins this far below the newest printed id, because another node can commit a row with a lower id late.
MAX_ID_LAG: Final = 1000
MAX_REMEMBERED: Final = 10_000  # maximum number of printed ids that are remembered, and of rows in one search
COLUMNS: Final = ("AT (UTC)", "KIND", "CONNECTION", "KEY", "METHOD", "PATH", "STATUS", "MS", "ERROR", "REQUEST")


@click.command()
@config_file
@environment
@click.option(
    "--since", metavar="WHEN", help="Only since this time: 10m, 2h, 3d, or a date such as 2026-01-31T08:00+00:00."
)
@click.option("--until", metavar="WHEN", help="Only before this time.")
@click.option("--kind", type=click.Choice(KINDS), help="Only this kind.")
@click.option("--integration", metavar="ID", help="Only this integration.")
@click.option("--connection", metavar="ID", help="Only this connection; it may be deleted.")
@click.option("--end-user", metavar="ID", help="Only connections of this end user.")
@click.option(
    "--key",
    type=RowId(shown_by="gateway keys list"),
    metavar="NUMBER",
    help="Only calls with the minted key of this id.",
)
@click.option("--status", metavar="STATUS", help="Only this status, such as 404, or class, such as 4xx.")
@click.option("--failed", is_flag=True, help="Only failures: an error code, or a status from 400.")
@click.option("--code", metavar="CODE", help="Only this error code.")
@click.option("--path", metavar="TEXT", help="Only paths that begin with this.")
@click.option("--text", metavar="TEXT", help="Only rows with this text in path, error code or detail.")
@click.option("--tool", metavar="NAME", help="Only calls of an agent with this tool.")
@click.option("--request", metavar="ID", help="Only operations with this request id.")
@click.option("--trace", metavar="ID", help="Only operations of this trace.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Maximum number of rows.")
@click.option(
    "--cursor",
    type=RowId(),
    metavar="CURSOR",
    help="Continue after an earlier search, which printed its cursor at the end.",
)
@click.option("--follow", "-f", is_flag=True, help="Also print new rows as they are stored, until Ctrl-C.")
@as_json
def logs(file: Path, environment: str | None, follow: bool, as_json: bool, **options: Any) -> None:
    """Search the log of calls, refreshes, authorizations, deliveries and webhooks, newest first.

    With --follow, the oldest row is printed first, as with `tail -f`.
    """

    async def work(runtime: "Runtime") -> int:
        filters = await _build_filter(runtime, select_environment(runtime, environment), options)
        if follow:
            await follow_log(runtime, filters, as_json=as_json)
            return 0
        return await _print(runtime, filters, as_json=as_json)

    try:
        run(file, work, as_json=as_json, needs_integrations=False)
    except KeyboardInterrupt:
        if not follow:
            raise
        sys.exit(0)  # Ctrl-C is how --follow ends, as the text of the option says


async def _build_filter(runtime: "Runtime", environment: str, options: Mapping[str, Any]) -> "OperationFilter":
    """Return the filter for the command's options. `options`: the options by name. Raises UsageError."""
    from dataclasses import replace

    from gateway import clock
    from gateway.connections.operation_search import TOO_MANY_MATCHES, matching_connections
    from gateway.records.operation import OperationFilter, status_range

    now = clock.now()
    times = {name: parse_moment(f"--{name}", options[name], now) for name in ("since", "until") if options[name]}
    status = status_range(options["status"]) if options["status"] else None
    if options["status"] and status is None:
        raise click.UsageError(
            f"--status takes a status such as 404, or a class such as 4xx, not {options['status']!r}."
        )
    filters = OperationFilter(
        environment,
        since=times.get("since"),
        until=times.get("until"),
        kind=options["kind"],
        integration_id=options["integration"],
        connection_id=options["connection"],
        key_ids=single_or_any_set(options["key"]),
        status=status,
        failed=options["failed"] or None,
        error_codes=single_or_any_set(options["code"]),
        path=options["path"],
        text=options["text"],
        tool=options["tool"],
        request_id=options["request"],
        trace_id=options["trace"],
        before=options["cursor"],
        limit=options["limit"],
    )
    if options["end_user"] is None:
        return filters
    end_user_connections = await matching_connections(runtime.store, filters, end_user_id=options["end_user"])
    if end_user_connections is None:
        raise click.UsageError(TOO_MANY_MATCHES)
    return replace(filters, connections=end_user_connections)


async def _print(runtime: "Runtime", operation_filter: "OperationFilter", *, as_json: bool) -> int:
    from gateway.api.logs_endpoints import operation_json

    page = await runtime.store.call_log.find(operation_filter)
    if as_json:
        body = {"data": [operation_json(operation) for operation in page.operations], "next_cursor": page.following}
        print(json.dumps(body, indent=2, ensure_ascii=False))
        return 0
    table(COLUMNS, [_cells(operation) for operation in page.operations])
    if page.searched_until is not None:
        print(f"searched back to {page.searched_until:%Y-%m-%d %H:%M:%S} UTC", end="; ", file=sys.stderr)
    if page.following is not None:
        print(f"there may be more: --cursor {page.following}", file=sys.stderr)
    return 0


async def follow_log(runtime: "Runtime", operation_filter: "OperationFilter", *, as_json: bool) -> None:
    """Print the newest rows, then print new rows after they are stored, until cancelled.

    The function searches once per second, and only among recent ids.
    """
    from dataclasses import replace

    from gateway import clock
    from gateway.api.logs_endpoints import operation_json

    seen_ids: dict[int, None] = {}
    last_id = 0
    page = await runtime.store.call_log.find(operation_filter)
    # Rows with ids below the first page are older than the rows to print.
    lowest_after = 0 if page.following is None else page.following - 1
    while True:
        for operation in reversed(page.operations):
            if operation.id in seen_ids:
                continue
            seen_ids[operation.id] = None
            last_id = max(last_id, operation.id)
            print(
                json.dumps(operation_json(operation), ensure_ascii=False)
                if as_json
                else one_line("  ".join(_cells(operation))),
                flush=True,
            )
        for old_id in list(seen_ids)[:-MAX_REMEMBERED]:
            del seen_ids[old_id]
        await clock.sleep(POLL_S)
        page = await runtime.store.call_log.find(
            replace(operation_filter, after=max(lowest_after, last_id - MAX_ID_LAG), before=None, limit=MAX_REMEMBERED)
        )


def _cells(stored_operation: "StoredOperation") -> Sequence[str]:
    operation = stored_operation.operation
    subject = (
        f"{operation.integration_id}/{operation.connection_id}" if operation.connection_id else operation.integration_id
    )
    key = "" if operation.key_id is None else str(operation.key_id)
    ms = f"{operation.duration_ms:.0f}"
    time_text = f"{operation.at:%m-%d %H:%M:%S}.{operation.at.microsecond // 1000:03}"
    detail = operation.detail or {}
    target = operation.path or detail.get("what", "") or operation.host
    status = f"{operation.status or ''}{' dry run' if detail.get('dry_run') else ''}"
    cells = (
        time_text,
        operation.kind,
        subject,
        key,
        operation.method,
        target,
        status,
        ms,
        operation.error_code,
        operation.request_id,
    )
    return [cell or "-" for cell in cells]  # with an empty cell, the row would look shifted
