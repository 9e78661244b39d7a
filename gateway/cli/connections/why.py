"""``gateway connections why``: the story of one connection, and the one action that helps."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.connections.naming import the_one
from gateway.cli.connections.options import environment, perhaps_integration
from gateway.cli.connections.work import environment_of, run
from gateway.cli.options import as_json, config_file

if TYPE_CHECKING:
    from gateway.services import Services


@click.command()
@config_file
@environment
@perhaps_integration
@click.argument("connection_id", metavar="CONNECTION")
@as_json
def why(file: Path, environment: str | None, integration: str | None, connection_id: str, as_json: bool) -> None:
    """Tell why CONNECTION is as it is: what happened when, the likely causes in order, and what to do. No secrets."""

    async def work(services: "Services") -> int:
        from gateway.api.story_json import told

        row = await the_one(services, environment_of(services, environment), integration, connection_id)
        if row is None:
            return 1
        body = {"connection_id": connection_id, "provider_config_key": row.ref.integration_id}
        body |= await told(services, row)
        print(json.dumps(body, indent=2) if as_json else _text(body))
        return 0

    run(file, work, as_json=as_json)


def _text(body: dict[str, Any]) -> str:
    found = body["diagnosis"]
    lines = [
        f"{body['connection_id']} ({body['provider_config_key']}) is {found['state']} since {_day(found['since'])}"
    ]
    lines += ["", "What happened"]
    for one in found["timeline"]:
        detail = f"  ({one['detail']})" if one["detail"] else ""
        lines.append(f"  {_day(one['at'])}  {'→ ' if one['ahead'] else '  '}{one['what']}{detail}")
    if found["causes"]:
        lines += ["", "Likely causes, the likeliest first"]
        lines += [f"  {place}. {one['why']}" for place, one in enumerate(found["causes"], 1)]
    return "\n".join([*lines, "", "What helps", f"  {found['action']['how']}"])


def _day(stamp: str) -> str:
    return f"{stamp[:10]} {stamp[11:19]} UTC"
