"""What moving in from another gateway would take: `import --preview`, and the same under `gateway doctor --from-peer`."""

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from gateway.cli.connections.intaking import Peering
from gateway.cli.connections.told import tell_preview
from gateway.cli.connections.work import environment_of, run

if TYPE_CHECKING:
    from gateway.moving.landing import Wish
    from gateway.secret import Secret
    from gateway.services import Services


def preview_from(
    file: Path, address: str, key: "Secret | None", integration: str | None, *, plain_http: bool, as_json: bool
) -> NoReturn:
    """Of all integrations there, or of one. Exits 1 where something cannot be moved as it is."""
    if key is None:
        raise click.UsageError("Name the key of the other side: --key-env NAME or --key-file FILE.")
    peer = Peering(address, key, plain_http=plain_http, only=(integration,) if integration else ())

    async def work(services: "Services") -> int:
        from gateway.moving.landing import Wish

        return await preview_of(services, peer, Wish(environment=environment_of(services, None)), as_json=as_json)

    run(file, work, as_json=as_json)
    raise AssertionError("run ends the command")


async def preview_of(services: "Services", peer: Peering, wish: "Wish", *, as_json: bool) -> int:
    """0 where everything can be moved as it is."""
    from gateway.moving.moved import SourceRefused
    from gateway.moving.peer import Peer
    from gateway.moving.peer_calls import PeerCalls, session_for
    from gateway.moving.preview import preview

    try:
        async with session_for(4) as session:
            calls = PeerCalls(session, peer.address, peer.key, plain_http=peer.plain_http)
            seen = await preview(services, Peer(calls), wish, peer.only)
    except SourceRefused as fault:
        raise click.ClickException(str(fault)) from None
    return tell_preview(seen, as_json=as_json)
