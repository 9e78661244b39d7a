"""From an id that was typed to the connection that is meant, be its integration named or not."""

import sys
from typing import TYPE_CHECKING, Final

from gateway.cli.connections.work import check_integration
from gateway.nearest import did_you_mean

if TYPE_CHECKING:
    from gateway.records.connection import Connection
    from gateway.services import Services

MOST: Final = 20
COMPARED: Final = 500


async def the_one(
    services: "Services", environment: str, integration: str | None, connection_id: str
) -> "Connection | None":
    """The only connection of that id; None where there is none or several, which is told on stderr."""
    from gateway.store import ListFilter

    if integration is not None:
        await check_integration(services, environment, integration)
    of = (integration,) if integration is not None else ()
    wanted = ListFilter(connection_id=connection_id, integration_ids=of, limit=MOST)
    found = await services.store.connections.list(environment, wanted)
    if len(found) == 1:
        return found[0]
    if found:
        _tell_several(connection_id, [one.ref.integration_id for one in found])
    else:
        some = await services.store.connections.list(environment, ListFilter(integration_ids=of, limit=COMPARED))
        near = did_you_mean(connection_id, dict.fromkeys(one.ref.connection_id for one in some))
        where = f"integration '{integration}'" if integration is not None else "any integration"
        print(
            f"gateway: there is no '{connection_id}' in {where} of environment '{environment}'{near}", file=sys.stderr
        )
    return None


def _tell_several(connection_id: str, integrations: list[str]) -> None:
    print(
        f"gateway: several integrations have a connection '{connection_id}'; name the one that is meant:",
        file=sys.stderr,
    )
    for name in sorted(integrations):
        print(f"  --integration {name}", file=sys.stderr)
