"""``gateway catalog test NAME``: tests an entry against the sandbox in the role of its provider."""

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.options import as_json, catalog_config_file

if TYPE_CHECKING:
    from gateway.authoring.rehearsal.play import RehearsalReport, RehearsedStep
    from gateway.catalog.load_catalog import Catalog


@click.command("test")
@click.argument("name")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="A value for a setting or a credential.")
@catalog_config_file
@as_json
def rehearse(name: str, pairs: tuple[str, ...], file: Path | None, as_json: bool) -> None:
    """Test the entry NAME: connect, call, refresh, pagination, and verification and revocation if the entry has them.

    The sandbox takes the role of the provider, and compares the requests that it receives with the entry. Exits 1 if
    something differs; the report names the entry's line. The real provider is not called.
    """
    from gateway.authoring.rehearsal.play import rehearse as run
    from gateway.authoring.rehearsal.samples import NoSample
    from gateway.cli.catalog.catalog_in_use import catalog_and_url
    from gateway.cli.catalog.show_catalog import find_provider
    from gateway.cli.terminal import exit_on_faults

    logging.getLogger().addHandler(logging.NullHandler())
    with exit_on_faults(as_json):
        catalog, _ = catalog_and_url(file)
        provider = find_provider(catalog, name, file)
        try:
            values = dict(pair.split("=", 1) for pair in pairs)
        except ValueError:
            raise click.BadParameter("write NAME=VALUE", param_hint="--set") from None
        try:
            report = asyncio.run(run(provider, values))
        except NoSample as fault:
            print(f"{catalog.file_and_line(name, *fault.place)}: {fault}", file=sys.stderr)
            sys.exit(1)
    if as_json:
        print(json.dumps(_report(name, report, catalog), indent=2))
    else:
        for line in _lines(name, provider.auth_mode, report, catalog):
            print(line)
    sys.exit(0 if report.ok else 1)


def _lines(name: str, mode: str, report: "RehearsalReport", catalog: "Catalog") -> Iterator[str]:
    yield f"{name} ({catalog.file_and_line(name).rpartition(':')[0]}): {mode}, with the sandbox as the provider"
    for origin, local in report.origins.items():
        yield f"  the sandbox serves {origin} at {local}"
    for step in report.steps:
        yield ""
        yield f"{step.name}: {_outcome(step)}"
        for request in step.sent:
            yield f"  > {request[0]}"
            yield from (f"    {line}" for line in request[1:])
        for check in step.checks:
            if check.ok:
                yield f"  ok    {check.what}"
            else:
                yield f"  FAIL  {catalog.file_and_line(name, *check.place)}: {check.what}: {check.detail}"
    yield ""
    yield from (f"not shown: {unproved_field}" for unproved_field in report.unproved)
    failed = sum(not check.ok for step in report.steps for check in step.checks)
    total = sum(len(step.checks) for step in report.steps)
    yield f"{name}: {total - failed} of {total} checks passed" + (f", {failed} FAIL" if failed else "")


def _outcome(step: "RehearsedStep") -> str:
    if step.skipped:
        return f"skipped: {step.skipped}"
    return "ok" if all(check.ok for check in step.checks) else "FAIL"


def _report(name: str, report: "RehearsalReport", catalog: "Catalog") -> dict[str, Any]:
    steps = [
        {
            "step": step.name,
            "ok": all(check.ok for check in step.checks),
            "skipped": step.skipped,
            "sent": step.sent,
            "checks": [
                {
                    "what": check.what,
                    "ok": check.ok,
                    "where": catalog.file_and_line(name, *check.place),
                    "detail": check.detail or None,
                }
                for check in step.checks
            ],
        }
        for step in report.steps
    ]
    return {
        "ok": report.ok,
        "name": name,
        "origins": dict(report.origins),
        "steps": steps,
        "not_shown": report.unproved,
    }
