"""``gateway connections import``: connections from another gateway's API, from a bundle, from JSON Lines or CSV."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.connections import secrets
from gateway.cli.connections.intaking import Peering, Reading, intake_of
from gateway.cli.connections.options import environment
from gateway.cli.connections.previewing import preview_of
from gateway.cli.connections.told import tell, tell_ahead
from gateway.cli.connections.work import environment_of, run
from gateway.cli.options import as_json, config_file

if TYPE_CHECKING:
    from gateway.moving.source import Kind
    from gateway.services import Services


@click.command("import")
@click.argument("source", required=False, metavar="[FILE]")
@config_file
@environment
@click.option("--from-peer", "address", metavar="ADDRESS", help="Import from the API there, not from FILE.")
@secrets.key_env
@secrets.key_file
@click.option("--plain-http", is_flag=True, help="ADDRESS may be plain http: the way there is private.")
@click.option("--only", multiple=True, metavar="KEY", help="Only of this integration there; may be repeated.")
@click.option(
    "--integration", "named", multiple=True, metavar="THERE=HERE", help="It has another key here; may be repeated."
)
@click.option("--create-integrations", is_flag=True, help="Make those that are not here, with their client's secret.")
@click.option("--format", "kind", type=click.Choice(["bundle", "jsonl", "csv"]), help="Of FILE; told by itself.")
@click.option("--into", metavar="KEY", help="The integration of lines that name none.")
@click.option(
    "--column", "columns", multiple=True, metavar="THEIRS=OURS", help="A CSV column by our name; may be repeated."
)
@secrets.passphrase_env
@secrets.passphrase_file
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing here.")
@click.option("--preview", is_flag=True, help="With --from-peer: what works at once and what to do, in which order.")
@click.option(
    "--on-conflict",
    type=click.Choice(["skip", "replace", "fail"]),
    default="skip",
    show_default=True,
    help="What is to become of a connection whose id is here already.",
)
@click.option("--verify", is_flag=True, help="Ask each provider whether it takes the credential, before it is stored.")
@click.option(
    "--test-refresh", is_flag=True, help="Renew each once: where tokens rotate, the old system's copy is dead then."
)
@click.option(
    "--refresh-rate", type=click.FloatRange(0.01, 1000), default=5.0, show_default=True, help="Renewals a second."
)
@click.option(
    "--at-once", type=click.IntRange(1, 64), default=8, show_default=True, help="Connections at the same time."
)
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="A line of JSON for each connection.")
@as_json
def import_connections(
    source: str | None,
    file: Path,
    environment: str | None,
    address: str | None,
    key_env: str | None,
    key_file: Path | None,
    plain_http: bool,
    only: tuple[str, ...],
    named: tuple[str, ...],
    create_integrations: bool,
    kind: "Kind | None",
    into: str | None,
    columns: tuple[str, ...],
    passphrase_env: str | None,
    passphrase_file: Path | None,
    dry_run: bool,
    preview: bool,
    on_conflict: Any,
    verify: bool,
    test_refresh: bool,
    refresh_rate: float,
    at_once: int,
    report: Path | None,
    as_json: bool,
) -> None:
    """Import connections: from FILE (a bundle of `gateway connections export`, JSON Lines or CSV; - is stdin), or from
    another gateway's API.

    What was interrupted goes on where it was: run it again, and what is here is skipped. A gateway may serve meanwhile.
    Exits 0 if all are here, 1 if one is not or its test refresh failed: --report says which and why.
    """
    _check(source, address, preview, test_refresh, dry_run)
    names = _pairs(named, "--integration")
    if address is not None:
        feed: Peering | Reading = _peering(address, key_env, key_file, plain_http, only)
    else:
        secrets.secret_of("key", "--key", key_env, key_file)  # of no use here, but a wrong one is told all the same
        passphrase = (passphrase_env, passphrase_file)
        feed = Reading(str(source), kind, into, _pairs(columns, "--column"), passphrase, only)

    async def work(services: "Services") -> int:
        from gateway.moving.landing import Wish

        name = environment_of(services, environment)
        wish = Wish(environment=name, named=names, on_conflict=on_conflict, dry_run=dry_run, verify=verify)
        if preview:
            assert isinstance(feed, Peering)
            return await preview_of(services, feed, wish, as_json=as_json)
        with ExitStack() as stack:
            intake = intake_of(services, wish, stack, report, at_once)
            intake.create_integrations, intake.test_refresh = create_integrations, test_refresh
            intake.refresh_rate = refresh_rate
            if test_refresh:
                tell_ahead(services, name)
            await feed.into(intake)
        return tell(intake, as_json=as_json)

    run(file, work, as_json=as_json)


def _check(source: str | None, address: str | None, preview: bool, test_refresh: bool, dry_run: bool) -> None:
    """Raises UsageError where options do not go together."""
    if (source is None) == (address is None):
        raise click.UsageError("Name FILE, or give --from-peer ADDRESS.")
    if preview and address is None:
        raise click.UsageError("--preview looks at --from-peer ADDRESS.")
    if test_refresh and dry_run:
        raise click.UsageError("--dry-run changes nothing, so it cannot --test-refresh.")


def _peering(
    address: str, key_env: str | None, key_file: Path | None, plain_http: bool, only: tuple[str, ...]
) -> Peering:
    """Raises UsageError where its key is not named, or is not there."""
    key = secrets.secret_of("key", "--key", key_env, key_file)
    if key is None:
        raise click.UsageError("Name the key of the other side: --key-env NAME or --key-file FILE.")
    return Peering(address, key, plain_http, only)


def _pairs(given: tuple[str, ...], option: str) -> Mapping[str, str]:
    """``there=here`` each. Raises UsageError."""
    pairs: dict[str, str] = {}
    for one in given:
        there, sign, here = one.partition("=")
        if not (there and sign and here):
            raise click.UsageError(f"{option} takes two names with an equals sign between them, not '{one[:80]}'.")
        if there in pairs:
            raise click.UsageError(f"{option} names '{there}' twice.")
        pairs[there] = here
    return pairs
