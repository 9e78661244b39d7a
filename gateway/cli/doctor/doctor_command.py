"""``gateway doctor``: finds problems before an end user does."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli import secret_inputs
from gateway.cli.options import as_json, config_file

if TYPE_CHECKING:
    from gateway.catalog.load_catalog import Catalog
    from gateway.cli.doctor.findings import DoctorFinding, ExaminedGateway
    from gateway.config import Config


@click.command()
@click.argument("integration", required=False)
@config_file
@click.option("--offline", is_flag=True, help="Connect only to the database.")
@click.option("--from-peer", "peer", metavar="URL", help="Instead preview an import from the API of another gateway.")
@click.option("--plain-http", is_flag=True, help="Allow plain http in --from-peer, for a private network.")
@secret_inputs.key_env
@secret_inputs.key_file
@as_json
def doctor(
    integration: str | None,
    file: Path,
    offline: bool,
    peer: str | None,
    plain_http: bool,
    key_env: str | None,
    key_file: Path | None,
    as_json: bool,
) -> None:
    """Check FILE and what it needs, for all integrations or for INTEGRATION: the configuration, keys, database, disk,
    public URL and clock; the callback URL to register at the provider, the client copied from the provider, and whether
    the provider can be reached.

    The command changes nothing and shows or sends no secret: each server gets one request without a credential. A
    gateway may run meanwhile. Exits 1 if something would keep a user from connecting.
    """
    from gateway.observe import logs

    if peer is not None:
        from gateway.cli.connections.import_connections import print_preview_from

        key = secret_inputs.read_secret("key", "--key", key_env, key_file)
        print_preview_from(file, peer, key, integration, plain_http=plain_http, as_json=as_json)
    logs.setup("critical")
    findings, config = asyncio.run(_examine(file, integration, offline=offline))
    if as_json:
        print(json.dumps(_report(findings, config), indent=2))
    else:
        for line in _lines(findings):
            print(line)
    sys.exit(1 if any(finding.level == "fail" for finding in findings) else 0)


async def _examine(
    file: Path, integration: str | None, *, offline: bool
) -> "tuple[list[DoctorFinding], Config | None]":
    """Return the findings in the order in which they are printed, and the configuration.

    The configuration is None if it has faults.
    """
    from gateway.cli.doctor.findings import declared_integrations, examined_gateway, ok

    config, catalog, findings = await asyncio.to_thread(_configuration, file)
    if config is None or catalog is None:
        return findings, None
    integrations = declared_integrations(config, catalog, integration)
    if integration is not None and not integrations:
        findings.append(_unknown_integration(config, integration))
    elif not findings:
        findings.append(ok("configuration", f"{file} is valid"))
    async with examined_gateway(config, catalog, integrations) as examined:
        findings += await _run_checks(examined, offline=offline)
    return findings, config


async def _run_checks(examined: "ExaminedGateway", *, offline: bool) -> "list[DoctorFinding]":
    """Run all checks at the same time.

    Threads run the checks that read the disk or block on the database.
    """
    from gateway.cli.doctor.integration_checks import check_integrations
    from gateway.cli.doctor.machine_checks import check_files, check_journal, check_store
    from gateway.cli.doctor.network_checks import check_clocks, check_inbound, check_outbound, check_running

    async with asyncio.TaskGroup() as group:
        disk_tasks = [
            group.create_task(asyncio.to_thread(_list_findings, check, examined))
            for check in (check_files, check_store)
        ]
        integrations_task = group.create_task(asyncio.to_thread(_list_findings, check_integrations, examined))
        journal_task = group.create_task(_collect(check_journal(examined)))
        network_tasks = (
            []
            if offline
            else [
                group.create_task(_collect(check(examined))) for check in (check_inbound, check_running, check_outbound)
            ]
        )
    (inbound_findings, running_findings, outbound_findings) = (
        (task.result() for task in network_tasks) if network_tasks else ([], [], [])
    )
    local_findings: list[DoctorFinding] = [*disk_tasks[0].result(), *disk_tasks[1].result(), *journal_task.result()]
    if any((finding.check, finding.level) == ("store", "fail") for finding in running_findings):
        local_findings = [finding for finding in local_findings if (finding.check, finding.level) != ("store", "ok")]
    return [
        *local_findings,
        *running_findings,
        *inbound_findings,
        *check_clocks(examined),
        *integrations_task.result(),
        *outbound_findings,
    ]


def _list_findings(
    check: "Callable[[ExaminedGateway], Iterator[DoctorFinding]]", examined: "ExaminedGateway"
) -> "list[DoctorFinding]":
    return list(check(examined))


async def _collect(findings: "AsyncIterator[DoctorFinding]") -> "list[DoctorFinding]":
    return [finding async for finding in findings]


def _configuration(file: Path) -> "tuple[Config | None, Catalog | None, list[DoctorFinding]]":
    """Return the configuration, the catalog, and the faults and warnings of `gateway check` as findings.

    Configuration and catalog are None if there is a fault.
    """
    from gateway.cli.check import examine
    from gateway.cli.doctor.findings import DoctorFinding
    from gateway.integrations.declared import catalog_of

    config, faults, warnings = examine(file)
    findings = [DoctorFinding("fail", "configuration", fault.message, fault.where) for fault in faults]
    findings += [DoctorFinding("warn", "configuration", warning.message, warning.where) for warning in warnings]
    return config, catalog_of(config) if config else None, findings


def _unknown_integration(config: "Config", integration: str) -> "DoctorFinding":
    from gateway.cli.doctor.findings import DoctorFinding
    from gateway.text import did_you_mean

    keys = [key for environment in config.environments.values() for key in environment.integrations]
    hint = did_you_mean(integration, keys) or f"; declared integrations: {', '.join(sorted(set(keys))) or 'none'}"
    location = config.file_and_line("environments")
    return DoctorFinding(
        "fail",
        "configuration",
        f"no environment has an integration '{integration}'{hint}",
        location,
        "name a declared integration",
    )


def _report(findings: "Collection[DoctorFinding]", config: "Config | None") -> dict[str, Any]:
    urls = {"callback_url": config.callback_url, "public_url": config.server.public_url} if config else {}
    healthy = not any(finding.level == "fail" for finding in findings)
    return {"ok": healthy, **urls, "findings": [finding.as_json() for finding in findings]}


def _lines(findings: "Iterable[DoctorFinding]") -> "Iterable[str]":
    """Yield a line for each finding, and for each problem a second line with its place and fix."""
    from gateway.text import counted

    colors = {"ok": "green", "warn": "yellow", "fail": "red"}
    counts = {"warn": 0, "fail": 0}
    for finding in findings:
        level_text = f"{finding.level:<5}"
        # NO_COLOR is a convention of many programs: https://no-color.org
        if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            level_text = click.style(level_text, fg=colors[finding.level])
        subject = f"{finding.integration}: " if finding.integration else ""
        yield f"{level_text} {finding.check:<15} {subject}{finding.message}"
        if finding.level != "ok":
            counts[finding.level] += 1
            yield f"      {'':<15} {': '.join(filter(None, (finding.where, finding.fix)))}"
    errors, warnings = counted(counts["fail"], "error"), counted(counts["warn"], "warning")
    yield f"{errors}, {warnings}" if any(counts.values()) else "no problems found"
