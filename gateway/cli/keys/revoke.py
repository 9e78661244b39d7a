"""``gateway keys revoke``: end keys on every node."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.connections.options import environment
from gateway.cli.connections.work import environment_of, run
from gateway.cli.options import as_json, config_file

if TYPE_CHECKING:
    from gateway.services import Services


@click.command()
@config_file
@environment
@click.argument("ids", nargs=-1, required=True, type=int, metavar="KEY...")
@as_json
def revoke(file: Path, environment: str | None, ids: tuple[int, ...], as_json: bool) -> None:
    """End each KEY, named by its id, and all keys that it minted. Exits 1 if one was not there.

    Every worker and node of the gateway refuses them from then on, normally within a tenth of a second.
    """

    async def work(services: "Services") -> int:
        from gateway.errors import NotFound

        name = environment_of(services, environment)
        revoked: dict[int, int] = {}
        missing: list[int] = []
        for one in ids:
            try:
                revoked[one] = await services.issuer.revoke(name, one, "gateway keys revoke")
            except NotFound:
                missing.append(one)
        if as_json:
            told = [{"id": one, "revoked": count} for one, count in revoked.items()]
            print(json.dumps({"keys": told, "not_found": missing}, indent=2))
        else:
            for one, count in revoked.items():
                print(f"key {one}: {_words(count)}")
        for one in missing:
            print(f"gateway: there is no key {one} in environment '{name}'", file=sys.stderr)
        return 1 if missing else 0

    run(file, work, as_json=as_json)


def _words(count: int) -> str:
    if count == 0:
        return "was revoked already"
    return "revoked" if count == 1 else f"revoked, and {count - 1} that it had minted"
