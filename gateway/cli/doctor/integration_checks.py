"""Checks of a declared integration: callback URL, scopes, and the client copied from the provider's console."""

from collections.abc import Iterator
from pathlib import Path

from gateway import resources
from gateway.catalog.auth_modes import AUTH_MODES
from gateway.catalog.lint import warnings
from gateway.cli.doctor.findings import DeclaredIntegration, DoctorFinding, ExaminedGateway, ok
from gateway.integrations.client_mistakes import client_mistakes, client_values


def check_integrations(examined: ExaminedGateway) -> Iterator[DoctorFinding]:
    for integration in examined.integrations:
        yield from check_redirect(examined, integration)
        yield from check_scopes(integration)
        yield from check_client(examined, integration)
    yield from check_entries(examined)


def check_redirect(examined: ExaminedGateway, integration: DeclaredIntegration) -> Iterator[DoctorFinding]:
    mode = AUTH_MODES.get(integration.provider.auth_mode)
    if mode is None or not mode.redirects:
        return
    page = integration.provider.setup_guide_url or integration.provider.docs
    link = f" ({page})" if page else ""
    advice = f"register exactly this callback URL at {integration.provider.display_name}{link}: {examined.config.callback_url}"
    yield ok("redirect", advice, integration=integration.name)


def check_scopes(integration: DeclaredIntegration) -> Iterator[DoctorFinding]:
    """Report that the integration requests the scope that its provider needs for refreshes.

    `gateway check` warns if this scope is missing.
    """
    scopes = integration.config.scopes if integration.config.scopes is not None else integration.provider.default_scopes
    needed_scope = integration.provider.refresh.requires_scope if integration.provider.refresh else None
    if needed_scope and scopes and needed_scope in scopes:
        yield ok(
            "scopes",
            f"'{needed_scope}' is requested; tokens cannot be refreshed without it",
            integration=integration.name,
        )


def check_client(examined: ExaminedGateway, integration: DeclaredIntegration) -> Iterator[DoctorFinding]:
    """Report client IDs and secrets that look like copying mistakes. Their values are never shown."""
    client, mistakes = client_values(integration.config), client_mistakes(integration.config)
    for key, mistake in mistakes:
        yield DoctorFinding(
            "fail",
            "client",
            f"{key} {mistake}",
            examined.file_and_line(*integration.place, key),
            f"copy {key} again from {integration.provider.display_name}'s developer console",
            integration.name,
        )
    if client and not mistakes:
        yield ok("client", f"the format of {' and '.join(client)} looks right", integration=integration.name)


def check_entries(examined: ExaminedGateway) -> Iterator[DoctorFinding]:
    """Warn about the operator's own catalog entries that the integrations use.

    The check of the configuration reports their faults.
    """
    shipped = resources.folder("catalog").absolute()
    integration_by_provider = {integration.provider.name: integration for integration in examined.integrations}
    faultless_names = []
    for name, integration in integration_by_provider.items():
        findings = []
        if not Path(examined.catalog.file_and_line(name).rpartition(":")[0]).absolute().is_relative_to(shipped):
            findings = list(warnings(integration.provider))
        for place, message in findings:
            location = examined.catalog.file_and_line(name, *place)
            yield DoctorFinding("warn", "catalog", message, location, "see `gateway catalog lint`", integration.name)
        if not findings:
            faultless_names.append(name)
    if faultless_names:
        yield ok("catalog", f"the entries of {', '.join(sorted(faultless_names))} have no warnings")
