"""``gateway keys create``: make a secret key, or an address that stands for one connection."""

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli.connections.options import environment
from gateway.cli.connections.work import environment_of, run
from gateway.cli.keys.told import limits, strangers
from gateway.cli.options import Span, as_json, config_file

if TYPE_CHECKING:
    from gateway.keys.wish import Wish
    from gateway.records.access import Key
    from gateway.secret import Secret
    from gateway.services import Services


class Tag(click.ParamType[tuple[str, str]]):
    """``name=value``."""

    name = "tag"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name or not text:
            self.fail("write NAME=VALUE", param, ctx)
        return name.lower(), text


@click.command()
@config_file
@environment
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    help="What it may do; may be repeated. Without any: all, or with limits only the proxy.",
)
@click.option(
    "--integration", "integrations", multiple=True, metavar="ID", help="Only this integration; may be repeated."
)
@click.option(
    "--connection",
    "connections",
    multiple=True,
    metavar="INTEGRATION/ID",
    help="Only this connection; may be repeated.",
)
@click.option("--tag", "tags", type=Tag(), multiple=True, metavar="NAME=VALUE", help="Only connections with this tag.")
@click.option(
    "--allow",
    "rules",
    multiple=True,
    metavar="'METHOD /path'",
    help="Only such requests: 'GET /v1/items/*'; may be repeated.",
)
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="Only to this host of the provider.")
@click.option("--rate", type=click.IntRange(1, 10**9), metavar="N", help="At most so many calls a minute.")
@click.option("--budget", type=click.IntRange(1, 10**9), metavar="N", help="At most so many calls in all.")
@click.option("--expires", type=Span(), metavar="30d", help="Ends after this time.")
@click.option(
    "--capability", is_flag=True, help="An address for one connection, to be used as a base URL without any header."
)
@click.option("--replaces", type=int, metavar="KEY", help="The id of the key that it takes the place of.")
@click.option(
    "--overlap", type=Span(), default="1d", show_default=True, metavar="1d", help="How long the replaced key goes on."
)
@as_json
def create(file: Path, environment: str | None, as_json: bool, **asked: object) -> None:
    """Make a key called NAME and print it, this once. A gateway that is running on the store takes it at once."""

    async def work(services: "Services") -> int:
        env = environment_of(services, environment)
        wish = _wish(asked)
        text, key = await services.issuer.create(wish, env, "gateway keys create")
        _tell(text, key, services, list(strangers(services, env, wish.limits)), as_json=as_json)
        return 0

    run(file, work, as_json=as_json)


def _wish(asked: dict[str, object]) -> "Wish":
    from gateway import clock
    from gateway.keys.wish import Wish
    from gateway.records.access import Limits

    told = dict(asked)
    narrowed = Limits(
        told.pop("integrations"),  # type: ignore[arg-type]
        told.pop("connections"),  # type: ignore[arg-type]
        dict(told.pop("tags")),  # type: ignore[call-overload]
        told.pop("rules"),  # type: ignore[arg-type]
        told.pop("hosts"),  # type: ignore[arg-type]
    )
    expires = told.pop("expires")
    return Wish(
        kind="capability" if told.pop("capability") else "key",
        scopes=told.pop("scopes") or None,  # type: ignore[arg-type]
        limits=narrowed,
        expires_at=clock.now() + expires if isinstance(expires, timedelta) else None,
        **told,  # type: ignore[arg-type]
    )


def _tell(text: "Secret", key: "Key", services: "Services", warnings: list[str], *, as_json: bool) -> None:
    from gateway.api.keys import as_json as shown
    from gateway.api.keys import secret_part

    secret = secret_part(text, key, services.config.server.public_url)
    if as_json:
        print(json.dumps({**shown(key), **secret, **({"warnings": warnings} if warnings else {})}, indent=2))
        return
    print(secret.get("base_url") or secret["secret"])
    print(f"\nKey {key.id} '{key.name}' of environment '{key.environment}'{_end(key.expires_at)}.", file=sys.stderr)
    print(f"  {'may':<12} {', '.join(key.scopes)}", file=sys.stderr)
    for name, words in limits(key):
        print(f"  {name:<12} {words}", file=sys.stderr)
    for warning in warnings:
        print(f"gateway: warning: {warning}", file=sys.stderr)
    print("It is shown this once: only a digest of it is kept.", file=sys.stderr)
    if key.kind == "capability":
        print("Use it as the base URL of any client; what the client sends as its own key is dropped.", file=sys.stderr)


def _end(at: datetime | None) -> str:
    return "" if at is None else f", until {at:%Y-%m-%d %H:%M} UTC"
