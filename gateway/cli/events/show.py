"""``gateway events show``: one event, with the body that is sent, and each address that it goes to."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.connections.options import environment
from gateway.cli.connections.work import environment_of, run
from gateway.cli.options import as_json, config_file
from gateway.wording import counted

if TYPE_CHECKING:
    from gateway.records.event import Delivery
    from gateway.services import Services


@click.command()
@config_file
@environment
@click.argument("message_id", metavar="ID")
@as_json
def show(file: Path, environment: str | None, message_id: str, as_json: bool) -> None:
    """Show the event that was sent as webhook-id ID: its body, and how each delivery stands."""

    async def work(services: "Services") -> int:
        from gateway.store import EventFilter

        name = environment_of(services, environment)
        found = await services.store.event_log.list(EventFilter(environment=name, message_ids=[message_id]))
        if not found:
            print(f"gateway: environment '{name}' has no event '{message_id}'", file=sys.stderr)
            return 1
        told = await _told(services, found)
        print(json.dumps(told, indent=2, ensure_ascii=False) if as_json else _text(told))
        return 0

    run(file, work, as_json=as_json)


async def _told(services: "Services", found: "list[Delivery]") -> dict[str, Any]:
    from gateway.cli.events.told import told
    from gateway.webhooks.body import message

    content = await services.store.deliveries.content(found[0])
    entry = services.catalog.get(content.provider)
    body, fields = message(found[0], content, entry.auth_mode if entry is not None else None)
    return {"deliveries": [told(one) for one in found], "headers": fields, "body": body.decode("utf-8", "replace")}


def _text(told: dict[str, Any]) -> str:
    first = told["deliveries"][0]
    lines = [f"{first['id']}  {first['event']}  {first['at']}", ""]
    for one in told["deliveries"]:
        last = f", {one['detail'] or one['status']}" if one["detail"] or one["status"] else ""
        coming = f", next try {one['next_attempt_at']}" if one["next_attempt_at"] else ""
        lines.append(f"  {one['target']}: {one['state']} after {counted(one['attempts'], 'attempt')}{last}{coming}")
    return "\n".join([*lines, "", told["body"]])
