"""``gateway connections show``: one connection, without its credential."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.connections.naming import the_one
from gateway.cli.connections.options import environment, perhaps_integration
from gateway.cli.connections.work import environment_of, run
from gateway.cli.options import as_json, config_file

if TYPE_CHECKING:
    from gateway.records.connection import Connection
    from gateway.services import Services


@click.command()
@config_file
@environment
@perhaps_integration
@click.argument("connection_id", metavar="CONNECTION")
@as_json
def show(file: Path, environment: str | None, integration: str | None, connection_id: str, as_json: bool) -> None:
    """Show CONNECTION: its settings, whose it is, how its renewal goes. Never its credential, nor a secret setting."""

    async def work(services: "Services") -> int:
        row = await the_one(services, environment_of(services, environment), integration, connection_id)
        if row is None:
            return 1
        told = _told(services, row)
        if as_json:
            print(json.dumps(told, indent=2))
            return 0
        width = max(map(len, told))
        for name, value in told.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            print(f"{name:<{width}}  {text}")
        return 0

    run(file, work, as_json=as_json)


def _told(services: "Services", row: "Connection") -> dict[str, Any]:
    from gateway.api.connection_json import stamp, whole

    shown = whole(services.store, row, credentials=False)
    shown.pop("credentials")
    noted = row.failure
    return {
        **shown,
        "state_reason": row.state_reason,
        "credential_type": services.store.open_or_nothing(row.credential).get("type"),
        "expires_at": stamp(row.expires_at) if row.expires_at else None,
        "last_refreshed_at": stamp(row.last_refreshed_at) if row.last_refreshed_at else None,
        "refresh_failure": {"reason": noted.code, "provider_message": noted.message, "attempts": noted.attempts}
        if noted
        else None,
    }
