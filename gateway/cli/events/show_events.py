"""``gateway events list`` and ``show``: show events and the state of their deliveries."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.options import RowId, as_json, config_file, environment
from gateway.cli.run_command import run, select_environment, table
from gateway.cli.terminal import without_control_characters
from gateway.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from gateway.records.event import Delivery
    from gateway.runtime import Runtime

# ── A delivery as JSON and as text.


def delivery_json(delivery: "Delivery") -> dict[str, Any]:
    """Return the delivery as JSON, with times in ISO 8601."""
    return {
        "id": delivery.message_id,
        "event": delivery.event,
        "at": _iso_time(delivery.at),
        "environment": delivery.environment,
        "provider_config_key": delivery.integration_id,
        "connection_id": delivery.connection_id,
        "target": delivery.target,
        "state": delivery.state.value,
        "attempts": delivery.attempts,
        "next_attempt_at": _iso_time(delivery.due_at),
        "ended_at": _iso_time(delivery.ended_at),
        "status": delivery.status,
        "detail": delivery.detail,
    }


def _shown_time(moment: "datetime | None") -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment is not None else ""


def _iso_time(moment: "datetime | None") -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds")


# ── ``gateway events list``: prints one line for each event and each URL, newest first.

COLUMNS: Final = (
    *("ID", "AT (UTC)", "EVENT", "CONNECTION", "TARGET"),
    *("STATE", "ATTEMPTS", "NEXT ATTEMPT", "LAST RESPONSE"),
)


@click.command("list")
@config_file
@environment
@click.option(
    "--state",
    type=click.Choice(["pending", "delivered", "dead"]),
    help="Only this state; dead: not delivered after all retries.",
)
@click.option("--connection", metavar="ID", help="Only this connection.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Maximum number of deliveries."
)
@click.option(
    "--cursor",
    type=RowId(),
    metavar="CURSOR",
    help="Continue after an earlier list, which printed its cursor at the end.",
)
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
    """List events, newest first: a line for each event and each URL that it is sent to.

    Delivered events are kept for 3 days, dead ones for 30.
    """

    async def work(runtime: "Runtime") -> int:
        from gateway.records.event import DeliveryState
        from gateway.store import EventFilter

        filters = EventFilter(
            environment=select_environment(runtime, environment),
            state=DeliveryState(state) if state else None,
            connection_id=connection,
            limit=limit + 1,
            cursor=cursor,
        )
        deliveries = await runtime.store.event_log.list(filters)
        _print_deliveries(deliveries[:limit], has_more=len(deliveries) > limit, as_json=as_json)
        return 0

    run(file, work, as_json=as_json, needs_integrations=False)


def _print_deliveries(deliveries: "Sequence[Delivery]", *, has_more: bool, as_json: bool) -> None:
    """Print a line for each delivery. `has_more`: whether the next page has further deliveries."""
    next_id = deliveries[-1].id if has_more else None
    if as_json:
        print(
            json.dumps(
                {"events": [delivery_json(delivery) for delivery in deliveries], "next_cursor": next_id}, indent=2
            )
        )
        return
    rows = []
    for delivery in deliveries:
        last_result = delivery.detail or str(delivery.status or "")
        subject_cells = (
            delivery.message_id,
            _shown_time(delivery.at),
            delivery.event,
            delivery.connection_id or "",
            delivery.target,
        )
        rows.append(
            (*subject_cells, delivery.state.value, str(delivery.attempts), _shown_time(delivery.due_at), last_result)
        )
    table(COLUMNS, rows)
    if next_id is not None:
        print(f"there are more: --cursor {next_id}", file=sys.stderr)


# ── ``gateway events show``: prints one event with its body, and the state of its delivery to each URL.


@click.command()
@config_file
@environment
@click.argument("message_id", metavar="ID")
@as_json
def show(file: Path, environment: str | None, message_id: str, as_json: bool) -> None:
    """Show the event with the webhook-id ID: its body, and the state of each delivery."""

    async def work(runtime: "Runtime") -> int:
        from gateway.store import EventFilter

        environment_name = select_environment(runtime, environment)
        deliveries = await runtime.store.event_log.list(
            EventFilter(environment=environment_name, message_ids=[message_id])
        )
        if not deliveries:
            print(f"gateway: environment '{environment_name}' has no event '{message_id}'", file=sys.stderr)
            return 1
        report = await _event_json(runtime, deliveries)
        print(
            json.dumps(report, indent=2, ensure_ascii=False) if as_json else without_control_characters(_text(report))
        )
        return 0

    run(file, work, as_json=as_json, needs_integrations=False)


async def _event_json(runtime: "Runtime", deliveries: "list[Delivery]") -> dict[str, Any]:
    from gateway.events.event_body import build_message

    content = await runtime.store.deliveries.content(deliveries[0])
    entry = runtime.generation.catalog.get(content.provider)
    body, fields = build_message(deliveries[0], content, entry.auth_mode if entry is not None else None)
    return {
        "deliveries": [delivery_json(delivery) for delivery in deliveries],
        "headers": fields,
        "body": body.decode("utf-8", "replace"),
    }


def _text(report: dict[str, Any]) -> str:
    first_delivery = report["deliveries"][0]
    lines = [f"{first_delivery['id']}  {first_delivery['event']}  {first_delivery['at']}", ""]
    for delivery in report["deliveries"]:
        last_result = (
            f", {delivery['detail'] or delivery['status']}" if delivery["detail"] or delivery["status"] else ""
        )
        next_text = f", next attempt {delivery['next_attempt_at']}" if delivery["next_attempt_at"] else ""
        lines.append(
            f"  {delivery['target']}: {delivery['state']} after {counted(delivery['attempts'], 'attempt')}"
            f"{last_result}{next_text}"
        )
    return "\n".join([*lines, "", report["body"]])
