"""The findings of `gateway doctor`, and the configuration that doctor examines."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import aiohttp

from gateway.app.generations import build_egress
from gateway.catalog.load_catalog import Catalog
from gateway.catalog.provider import Provider
from gateway.cli.terminal import fault_json
from gateway.config import Config
from gateway.egress.client import Egress
from gateway.records.integration import Integration

# ── Findings.

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check. It never contains a secret.

    `check`: the subject, such as ``disk``.
    `where`: a file, or a file with a line such as ``gateway.yaml:17``.
    `fix`: the next step; empty if `message` already says what to do. For level ok, `where` and `fix` are empty.
    `integration`: the integration that was checked; empty if the check is not about one integration.
    """

    level: Level
    check: str
    message: str
    where: str = ""
    fix: str = ""
    integration: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the finding as JSON, without empty members.

        `file` and `line` are taken from `where`, as in `gateway check`.
        """
        fields = {"level": self.level, "check": self.check, "integration": self.integration, **fault_json(self)}
        return {name: value for name, value in (fields | {"fix": self.fix}).items() if value != ""}


def ok(check: str, message: str, *, integration: str = "") -> DoctorFinding:
    return DoctorFinding("ok", check, message, integration=integration)


# ── What doctor examines: a configuration that can be loaded, its catalog, and the selected integrations.

RESPONSE_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class DeclaredIntegration:
    """An integration as gateway.yaml declares it, and its provider's catalog entry."""

    environment: str
    key: str
    config: Integration
    provider: Provider

    @property
    def place(self) -> tuple[str, ...]:
        return ("environments", self.environment, "integrations", self.key)

    @property
    def name(self) -> str:
        return f"{self.environment}/{self.key}"


@dataclass(slots=True)
class ExaminedGateway:
    """The configuration that doctor examines, and HTTP clients for the checks.

    `egress`: for calls to providers; its guard refuses private addresses that egress.allow does not list.
    `http`: for calls to the gateway's own URLs, which can be private.
    """

    config: Config
    catalog: Catalog
    integrations: tuple[DeclaredIntegration, ...]
    egress: Egress
    http: aiohttp.ClientSession
    skews_s: list[tuple[str, float]] = field(default_factory=list)
    """For each server that responded: its name, and by how many seconds this machine's clock is ahead of the
    server's."""

    def file_and_line(self, *place: str) -> str:
        return self.config.file_and_line(*place)


def declared_integrations(config: Config, catalog: Catalog, selected: str | None) -> tuple[DeclaredIntegration, ...]:
    """Return the integrations with the key `selected`, in any environment; None returns all."""
    return tuple(
        DeclaredIntegration(environment.name, key, integration, provider)
        for environment in config.environments.values()
        for key, integration in environment.integrations.items()
        if selected in (None, key) and (provider := catalog.get(integration.provider)) is not None
    )


@asynccontextmanager
async def examined_gateway(
    config: Config, catalog: Catalog, integrations: tuple[DeclaredIntegration, ...]
) -> AsyncIterator[ExaminedGateway]:
    egress = build_egress(config.egress)
    timeout = aiohttp.ClientTimeout(total=RESPONSE_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as http:
            yield ExaminedGateway(config, catalog, integrations, egress, http)
    finally:
        await egress.close()
