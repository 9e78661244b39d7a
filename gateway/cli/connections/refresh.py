"""``gateway connections refresh``: renew credentials now."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.connections.options import check_named, connection_ids, environment, every, integration
from gateway.cli.connections.work import check_integration, each, environment_of, refs_of, run, table
from gateway.cli.options import as_json, config_file

if TYPE_CHECKING:
    from gateway.records.connection import ConnectionRef
    from gateway.services import Services


@click.command()
@config_file
@environment
@integration
@every
@connection_ids
@as_json
def refresh(
    file: Path, environment: str | None, integration: str, every: bool, connection_ids: tuple[str, ...], as_json: bool
) -> None:
    """Renew the credentials of each CONNECTION now, whether or not it is due. Exits 1 if one could not be renewed.

    Takes turns with a gateway that is running on the same store.
    """
    check_named(connection_ids, every)

    async def work(services: "Services") -> int:
        from gateway.moving.work import renewed
        from gateway.records.connection import ConnectionRef

        name = environment_of(services, environment)
        await check_integration(services, name, integration)
        refs = [ConnectionRef(name, integration, one) for one in connection_ids]
        refs = refs or await refs_of(services, name, integration)
        told: list[dict[str, Any]] = []

        async def one(ref: "ConnectionRef") -> None:
            outcome, detail = await renewed(services, ref)
            told.append({"connection_id": ref.connection_id, "outcome": outcome, "detail": detail})

        await each(refs, one, "renewing")
        told.sort(key=lambda row: str(row["connection_id"]))
        if as_json:
            print(json.dumps({"connections": told}, indent=2))
        else:
            table(
                ("CONNECTION", "OUTCOME", "DETAIL"),
                [(r["connection_id"], r["outcome"], r["detail"] or "") for r in told],
            )
        failed = sum(row["outcome"] == "failed" for row in told)
        if failed:
            print(f"gateway: {failed} of {len(told)} could not be renewed{_helps(told, integration)}", file=sys.stderr)
        return 1 if failed else 0

    run(file, work, as_json=as_json)


def _helps(told: list[dict[str, Any]], integration: str) -> str:
    from shlex import quote

    from gateway.cli.program import program

    first = next(str(row["connection_id"]) for row in told if row["outcome"] == "failed")
    why = f"`{program()} connections why --integration {quote(integration)} {quote(first)}` tells what helps"
    return f"; {why}, `{program()} doctor {quote(integration)}` whether its provider can be reached"
