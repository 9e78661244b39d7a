"""``gateway keys list``: keys, newest first, a line each."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.connections.options import environment
from gateway.cli.connections.work import environment_of, run, table
from gateway.cli.keys.told import limits
from gateway.cli.options import as_json, config_file
from gateway.wording import counted

if TYPE_CHECKING:
    from gateway.records.access import Key
    from gateway.services import Services

COLUMNS = ("ID", "NAME", "KEY", "MAY", "LIMITS", "LAST USED", "ENDS")


@click.command("list")
@config_file
@environment
@click.option("--all", "ended", is_flag=True, help="Also those that are revoked or expired.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many.")
@as_json
def list_keys(file: Path, environment: str | None, ended: bool, limit: int, as_json: bool) -> None:
    """List minted keys: id, name, last characters, scopes, limits, when they were used and when they end.

    Keys of gateway.yaml are not among them.
    """

    async def work(services: "Services") -> int:
        from gateway import clock
        from gateway.api.keys import as_json as shown

        name = environment_of(services, environment)
        now = clock.now()
        found = await services.store.keys.list(name, alive_at=None if ended else now, limit=limit)
        if as_json:
            print(json.dumps({"keys": [shown(key) for key in found]}, indent=2))
        else:
            table(COLUMNS, [_row(key, now) for key in found])
        return 0

    run(file, work, as_json=as_json)


def _row(key: "Key", now: datetime) -> tuple[str, ...]:
    from gateway.keys.mint import PREFIXES

    spent = {"budget": f"{key.calls:,} of {counted(key.budget or 0, 'call')}"}
    what = "; ".join(f"{name}: {spent.get(name, words)}" for name, words in limits(key))
    return (
        str(key.id),
        key.name,
        f"{PREFIXES[key.kind]}…{key.last_four}",
        ", ".join(scope.removeprefix("environment:") for scope in key.scopes),
        what,
        _at(key.last_used_at) or "never",
        "revoked" if key.revoked_at else "expired" if not key.alive(now) else _at(key.expires_at),
    )


def _at(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else ""
