"""``gateway check``: every fault of a configuration and of the catalog it uses, before a start finds them."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from gateway.cli.options import as_json, config_file

if TYPE_CHECKING:
    from gateway.config import Config


class Told(Protocol):
    """A fault of the configuration or of the catalog."""

    @property
    def where(self) -> str: ...
    @property
    def message(self) -> str: ...


@click.command()
@config_file
@as_json
def check(file: Path, as_json: bool) -> None:
    """Check FILE and the catalog it uses: exit 1 and a line for each fault, or 0 and a summary.

    Nothing is started, dialled or written.
    """
    config, faults, warnings = _examined(file)
    if as_json:
        print(json.dumps(_report(config, faults, warnings), indent=2))
    else:
        for fault in faults:
            print(f"{fault.where}: {fault.message}", file=sys.stderr)
        for warning in warnings:
            print(f"{warning.where}: warning: {warning.message}", file=sys.stderr)
        if config and not faults:
            print("\n".join(_summary(config, file)))
    sys.exit(1 if faults else 0)


def _examined(file: Path) -> "tuple[Config | None, Sequence[Told], Sequence[Told]]":
    """The configuration if it can be read at all, what forbids a start, and what does not."""
    from gateway.catalog.faults import CatalogFaults
    from gateway.config import Faults, load
    from gateway.declared import catalog_of, integrations

    try:
        config = load(file)
    except Faults as error:
        return None, error.faults, ()
    try:
        catalog = catalog_of(config)
    except CatalogFaults as error:
        return config, error.faults, ()
    _, faults, warnings = integrations(config, catalog)
    return config, faults, [*warnings, *_unreachable(config)]


def _unreachable(config: "Config") -> Iterator[Told]:
    """What is allowed and hardly meant."""
    from gateway.config import Fault

    for name, environment in config.environments.items():
        if not environment.secret_keys:
            yield Fault(
                config.where("environments", name), f"environment '{name}' has no secret key, so nobody can call it"
            )
    if not config.environments:
        yield Fault(config.where("environments"), "no environment is declared, so nobody can call this gateway")
    for index, allowed in enumerate(config.egress.allow):
        if allowed.network.prefixlen == 0:
            where = config.where("egress", "allow", str(index))
            yield Fault(where, f"{allowed.network} lets providers lead calls to every private address")


def _summary(config: "Config", file: Path) -> Iterator[str]:
    yield f"{file} is in order"
    yield f"  callback address  {config.callback_url}"
    yield f"  listens on        {config.server.host}, port {config.server.port}"
    yield f"  store             {_without_password(config.store.url)}"
    for name, environment in config.environments.items():
        names = ", ".join(environment.integrations) or "no integration declared"
        keys = len(environment.secret_keys)
        yield f"  environment       {name}: {keys} secret key{'' if keys == 1 else 's'}; {names}"


def _report(config: "Config | None", faults: Sequence[Told], warnings: Sequence[Told]) -> dict[str, Any]:
    report: dict[str, Any] = {
        "ok": not faults,
        "faults": [_placed(fault) for fault in faults],
        "warnings": [_placed(warning) for warning in warnings],
    }
    if config and not faults:
        report |= {
            "callback_url": config.callback_url,
            "public_url": config.server.public_url,
            "store": _without_password(config.store.url),
            "environments": {name: sorted(it.integrations) for name, it in config.environments.items()},
        }
    return report


def _placed(told: Told) -> dict[str, Any]:
    file, _, line = told.where.rpartition(":")
    placed = {"where": told.where, "message": told.message}
    return {**placed, "file": file, "line": int(line)} if file and line.isdigit() else placed


def _without_password(url: str) -> str:
    """The store's address without ``user:password@``."""
    scheme, _, rest = url.partition("://")
    return url if scheme == "sqlite" else f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
