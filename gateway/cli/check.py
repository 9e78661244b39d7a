"""``gateway check``: every fault of a configuration and of the catalog it uses, before a start finds them."""

import json
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.options import as_json, config_file
from gateway.cli.refusal import Told, hint_at_init, placed
from gateway.wording import counted

if TYPE_CHECKING:
    from gateway.config import Config


@click.command()
@config_file
@as_json
def check(file: Path, as_json: bool) -> None:
    """Check FILE and the catalog it uses: exit 1 and a line for each fault, or 0 and a summary.

    Nothing is started, dialled or written.
    """
    config, faults, warnings = examine(file)
    if as_json:
        print(json.dumps(_report(config, faults, warnings), indent=2))
    else:
        for fault in faults:
            print(f"{fault.where}: {fault.message}", file=sys.stderr)
        if faults:
            hint_at_init(file)
        for warning in warnings:
            print(f"{warning.where}: warning: {warning.message}", file=sys.stderr)
        if config and not faults:
            print("\n".join(_summary(config, file, len(warnings))))
    sys.exit(1 if faults else 0)


def examine(file: Path) -> "tuple[Config | None, Sequence[Told], Sequence[Told]]":
    """The configuration if it is in order, what forbids a start, and what does not."""
    from gateway.cli.doubts import doubtful, unusable
    from gateway.config import Faults, load
    from gateway.declared import examined

    known: list[Told] = []
    left_out: Collection[tuple[str, ...]] = ()
    try:
        config = load(file)
    except Faults as error:
        known = [*error.faults]
        if error.readable is None:
            return None, known, ()
        config, left_out = error.readable.config, error.readable.left_out
    found = examined(config, left_out)
    faults = [*known, *unusable(config), *found.faults]
    if faults:
        return None, faults, found.warnings
    return config, (), [*found.warnings, *doubtful(config, found.catalog)]


def _summary(config: "Config", file: Path, warnings: int) -> Iterator[str]:
    if warnings:
        yield f"{file} can be used; {counted(warnings, 'warning')}, see above"
    else:
        yield f"{file} is in order"
    yield f"  callback address  {config.callback_url}"
    yield f"  listens on        {config.server.host}, port {config.server.port}"
    yield f"  store             {_without_password(config.store.url)}"
    for name, environment in config.environments.items():
        names = ", ".join(environment.integrations) or "no integration declared"
        keys = len(environment.secret_keys)
        yield f"  environment       {name}: {counted(keys, 'secret key')}; {names}"


def _report(config: "Config | None", faults: Sequence[Told], warnings: Sequence[Told]) -> dict[str, Any]:
    report: dict[str, Any] = {
        "ok": not faults,
        "faults": [placed(fault) for fault in faults],
        "warnings": [placed(warning) for warning in warnings],
    }
    if config and not faults:
        report |= {
            "callback_url": config.callback_url,
            "public_url": config.server.public_url,
            "store": _without_password(config.store.url),
            "environments": {name: sorted(it.integrations) for name, it in config.environments.items()},
        }
    return report


def _without_password(url: str) -> str:
    """The store's address without ``user:password@``."""
    scheme, _, rest = url.partition("://")
    return url if scheme == "sqlite" else f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
