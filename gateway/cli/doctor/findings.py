"""Findings of `gateway doctor`, each with its fix; the configuration that is examined."""

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
    """A result of one check; it never contains a secret.

    `check`: the subject. `where`: ``gateway.yaml:17`` or a file. `fix`: the next step; empty if `message` names it, as
    messages of `gateway check` do. Both are empty for level ok.
    """

    level: Level
    check: str
    message: str
    where: str = ""
    fix: str = ""
    integration: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the finding as JSON, without empty members; `file` and `line` are split from `where`, as in
        `check`."""
        fields = {"level": self.level, "check": self.check, "integration": self.integration, **fault_json(self)}
        return {name: value for name, value in (fields | {"fix": self.fix}).items() if value != ""}


def ok(check: str, message: str, *, integration: str = "") -> DoctorFinding:
    return DoctorFinding("ok", check, message, integration=integration)


# ── What is examined: a configuration that loads, its catalog, and the selected integrations.

RESPONSE_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class DeclaredIntegration:
    """An integration as declared, and its provider's catalog entry."""

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
    """The configuration that is examined, and HTTP clients for the checks.

    `egress` calls providers, restricted by the guard; `http` calls the gateway's own URLs, which may be private.
    """

    config: Config
    catalog: Catalog
    integrations: tuple[DeclaredIntegration, ...]
    egress: Egress
    http: aiohttp.ClientSession
    skews_s: list[tuple[str, float]] = field(default_factory=list)
    """Each server that responded, and by how many seconds our clock is ahead of the server's clock."""

    def where(self, *place: str) -> str:
        return self.config.where(*place)


def declared_integrations(config: Config, catalog: Catalog, selected: str | None) -> tuple[DeclaredIntegration, ...]:
    """Return the integrations whose key is `selected`, in any environment; all of them if it is None."""
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
