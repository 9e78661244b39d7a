"""``gateway keys create``, ``list`` and ``revoke``: the keys that callers send."""

import json
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.options import RowId, Span, as_json, config_file, environment
from gateway.cli.run_command import run, select_environment, table
from gateway.cli.terminal import print_or_raise
from gateway.text import counted

if TYPE_CHECKING:
    from gateway.access.key_forms import RequestedKey
    from gateway.records.access import MintedKey
    from gateway.runtime import Runtime
    from gateway.secret import Secret

# ── The limits of a key as text, and warnings about them.


def limits(key: "MintedKey") -> Iterator[tuple[str, str]]:
    """Yield each limit of a key: its name, and its values as text."""
    for key_limits in key.limits:
        for name, values in key_limits.as_json().items():
            yield name, ", ".join(_limits_in_words(values))
    if key.rate is not None:
        yield "rate", f"{key.rate:,} per minute"
    if key.budget is not None:
        yield "budget", f"{counted(key.budget, 'call')} in total"


def _limits_in_words(values: Any) -> list[str]:
    return [f"{name}={text}" for name, text in values.items()] if isinstance(values, dict) else list(values)


# ── ``gateway keys create``: creates a secret key, or a capability URL for one connection.


class Tag(click.ParamType[tuple[str, str]]):
    """A tag, ``name=value``. The name is converted to lower case."""

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
    help="A scope of the key; may be repeated.  [default: all scopes; with limits, environment:proxy]",
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
    help="Only requests that match, such as 'GET /v1/items/*'; may be repeated.",
)
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="Only to this host of the provider.")
@click.option("--rate", type=click.IntRange(1, 10**9), metavar="N", help="Maximum number of calls per minute.")
@click.option("--budget", type=click.IntRange(1, 10**9), metavar="N", help="Maximum number of calls in total.")
@click.option("--expires", type=Span(), metavar="30d", help="The key expires after this time.")
@click.option(
    "--capability", is_flag=True, help="Create a URL for one connection, used as a base URL without a key in a header."
)
@click.option(
    "--replaces",
    type=RowId(shown_by="gateway keys list"),
    metavar="KEY",
    help="The id of the key that the new key replaces.",
)
@click.option(
    "--overlap",
    type=Span(),
    default="1d",
    show_default=True,
    metavar="1d",
    help="How long the replaced key still works.",
)
@as_json
def create(file: Path, environment: str | None, as_json: bool, **options: object) -> None:
    """Create a key called NAME and print it; it is not shown again. A running gateway accepts it immediately."""

    async def work(runtime: "Runtime") -> int:
        from gateway.api.keys import operator_warnings

        environment_name = select_environment(runtime, environment)
        requested_key = _requested_key(options)
        secret, key = await runtime.issuer.create(requested_key, environment_name, "gateway keys create")
        warnings = await operator_warnings(requested_key, environment_name, runtime)
        try:
            _print_key(secret, key, runtime, warnings, as_json=as_json)
        except OSError as fault:
            raise await _withdraw(runtime, key, fault) from fault
        return 0

    run(file, work, as_json=as_json, may_create_store=True)


def _requested_key(options: dict[str, object]) -> "RequestedKey":
    from gateway import clock
    from gateway.access.key_forms import RequestedKey
    from gateway.records.access import KeyLimits

    fields = dict(options)
    narrowed_limits = KeyLimits(
        fields.pop("integrations"),  # type: ignore[arg-type]
        fields.pop("connections"),  # type: ignore[arg-type]
        dict(fields.pop("tags")),  # type: ignore[call-overload]
        fields.pop("rules"),  # type: ignore[arg-type]
        fields.pop("hosts"),  # type: ignore[arg-type]
    )
    expires = fields.pop("expires")
    return RequestedKey(
        kind="capability" if fields.pop("capability") else "key",
        scopes=fields.pop("scopes") or None,  # type: ignore[arg-type]
        limits=narrowed_limits,
        expires_at=clock.now() + expires if isinstance(expires, timedelta) else None,
        **fields,  # type: ignore[arg-type]
    )


async def _withdraw(runtime: "Runtime", key: "MintedKey", fault: OSError) -> click.ClickException:
    """Revoke a key that could not be printed, because nobody has it. Return the error to raise."""
    from gateway.errors import GatewayError

    reason = f"the key could not be printed ({fault.strerror})"
    try:
        await runtime.issuer.withdraw(key, "gateway keys create")
    except GatewayError as error:
        return click.ClickException(f"{reason} nor revoked ({error.message}): run `gateway keys revoke {key.id}`")
    kept_key_text = "" if key.replaced is None else f", and key {key.replaced.before.id} is not replaced"
    return click.ClickException(
        f"{reason}, so it is revoked{kept_key_text}: send the output to another place, and create a key again"
    )


def _print_key(secret: "Secret", key: "MintedKey", runtime: "Runtime", warnings: list[str], *, as_json: bool) -> None:
    """Print a new key with its secret. Raises OSError if the secret cannot be written."""
    from gateway.api.keys import key_json as shown
    from gateway.api.keys import secret_json

    secret_members = secret_json(secret, key, runtime.generation.public_url)
    if as_json:
        body = {**shown(key), **secret_members, **({"warnings": warnings} if warnings else {})}
        print_or_raise(json.dumps(body, indent=2))
        return
    print_or_raise(secret_members.get("base_url") or secret_members["secret"])
    print(
        f"\nKey {key.id} '{key.name}' of environment '{key.environment}'{_expiry_text(key.expires_at)}.",
        file=sys.stderr,
    )
    print(f"  {'may':<12} {', '.join(key.scopes)}", file=sys.stderr)
    for name, values_text in limits(key):
        print(f"  {name:<12} {values_text}", file=sys.stderr)
    for warning in warnings:
        print(f"gateway: warning: {warning}", file=sys.stderr)
    print("The key is not shown again: the gateway stores only its digest.", file=sys.stderr)
    if key.kind == "capability":
        print("Use it as the base URL of any client. A key that the client sends itself is dropped.", file=sys.stderr)


def _expiry_text(expires_at: datetime | None) -> str:
    return "" if expires_at is None else f", until {expires_at:%Y-%m-%d %H:%M} UTC"


# ── ``gateway keys list``: prints one line for each key, newest first.

COLUMNS = ("ID", "NAME", "KEY", "MAY", "LIMITS", "LAST USED", "EXPIRES")


@click.command("list")
@config_file
@environment
@click.option("--all", "with_ended", is_flag=True, help="Also revoked and expired keys.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Maximum number of keys.")
@as_json
def list_keys(file: Path, environment: str | None, with_ended: bool, limit: int, as_json: bool) -> None:
    """List minted keys: id, name, last characters, scopes, limits, last use and expiry.

    Keys of gateway.yaml are not listed.
    """

    async def work(runtime: "Runtime") -> int:
        from gateway import clock
        from gateway.api.keys import key_json as shown

        environment_name = select_environment(runtime, environment)
        now = clock.now()
        keys = await runtime.store.keys.list(environment_name, alive_at=None if with_ended else now, limit=limit + 1)
        if as_json:
            print(json.dumps({"keys": [shown(key) for key in keys[:limit]]}, indent=2))
        else:
            table(COLUMNS, [_row(key, now) for key in keys[:limit]])
        if len(keys) > limit:
            print(f"There are more than {counted(limit, 'key')}: raise --limit to see the others.", file=sys.stderr)
        return 0

    run(file, work, as_json=as_json, needs_integrations=False)


def _row(key: "MintedKey", now: datetime) -> tuple[str, ...]:
    from gateway.access.key_forms import PREFIXES

    limit_texts = {"budget": f"{key.calls:,} of {counted(key.budget or 0, 'call')} spent"}
    limits_text = "; ".join(f"{name}: {limit_texts.get(name, values_text)}" for name, values_text in limits(key))
    return (
        str(key.id),
        key.name,
        f"{PREFIXES[key.kind]}…{key.last_four}",
        ", ".join(scope.removeprefix("environment:") for scope in key.scopes),
        limits_text,
        _time_text(key.last_used_at) or "never",
        "revoked" if key.revoked_at else "expired" if not key.is_valid(now) else _time_text(key.expires_at),
    )


def _time_text(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M}" if moment else ""


# ── ``gateway keys revoke``: revokes keys on every node.


@click.command()
@config_file
@environment
@click.argument("ids", nargs=-1, required=True, type=RowId(shown_by="gateway keys list"), metavar="KEY...")
@as_json
def revoke(file: Path, environment: str | None, ids: tuple[int, ...], as_json: bool) -> None:
    """Revoke each KEY, given by its id, and all keys that it minted. Exits 1 if a key does not exist.

    Every worker and node of the gateway refuses a revoked key, normally within a tenth of a second.
    """

    async def work(runtime: "Runtime") -> int:
        from gateway.errors import NotFound

        environment_name = select_environment(runtime, environment)
        revoked: dict[int, int] = {}
        missing_ids: list[int] = []
        for key_id in ids:
            try:
                revoked[key_id] = await runtime.issuer.revoke(environment_name, key_id, "gateway keys revoke")
            except NotFound:
                missing_ids.append(key_id)
        if as_json:
            report = [{"id": key_id, "revoked": count} for key_id, count in revoked.items()]
            print(json.dumps({"keys": report, "not_found": missing_ids}, indent=2))
        else:
            for key_id, count in revoked.items():
                print(f"key {key_id}: {_revocation_text(count)}")
        for key_id in missing_ids:
            print(f"gateway: there is no key {key_id} in environment '{environment_name}'", file=sys.stderr)
        return 1 if missing_ids else 0

    run(file, work, as_json=as_json, needs_integrations=False)


def _revocation_text(count: int) -> str:
    if count == 0:
        return "was already revoked"
    return "revoked" if count == 1 else f"revoked, with {counted(count - 1, 'key')} that it had minted"
