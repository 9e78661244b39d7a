"""The findings of the doctor, each with its fix; the configuration that is examined."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import aiohttp

from gateway.app.generations import egress_of
from gateway.catalog.load_catalog import Catalog
from gateway.catalog.provider import Provider
from gateway.cli.terminal import placed
from gateway.config import Config
from gateway.egress.client import Egress
from gateway.records.integration import Integration

# ── What was found, and what would fix it.

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """`check` names the subject. `where` is ``gateway.yaml:17`` or a file, `fix` the next step, unless `message` names it
    as those of `gateway check` do; neither stands by an ok.

    Nothing here ever holds a secret.
    """

    level: Level
    check: str
    message: str
    where: str = ""
    fix: str = ""
    integration: str = ""

    def as_json(self) -> dict[str, Any]:
        """Empty members are left out; `where` is split into `file` and `line` too, as in the faults of `check`."""
        fields = {"level": self.level, "check": self.check, "integration": self.integration, **placed(self)}
        return {name: value for name, value in (fields | {"fix": self.fix}).items() if value != ""}


def ok(check: str, message: str, *, integration: str = "") -> DoctorFinding:
    return DoctorFinding("ok", check, message, integration=integration)


# ── Who is looked at: a configuration that loads, its catalog, and the integrations that were asked about.

ANSWER_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Declared:
    """An integration as declared, and the entry it uses."""

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
class Patient:
    """`egress` dials providers under the guard, `http` the gateway's own addresses, which may well be private."""

    config: Config
    catalog: Catalog
    integrations: tuple[Declared, ...]
    egress: Egress
    http: aiohttp.ClientSession
    skews_s: list[tuple[str, float]] = field(default_factory=list)
    """Who said so, and by how many seconds our clock is ahead of theirs."""

    def where(self, *place: str) -> str:
        return self.config.where(*place)


def declared(config: Config, catalog: Catalog, wanted: str | None) -> tuple[Declared, ...]:
    """Return the integrations whose key is `wanted`, in any environment; all of them if it is None."""
    return tuple(
        Declared(environment.name, key, integration, provider)
        for environment in config.environments.values()
        for key, integration in environment.integrations.items()
        if wanted in (None, key) and (provider := catalog.get(integration.provider)) is not None
    )


@asynccontextmanager
async def patient(config: Config, catalog: Catalog, integrations: tuple[Declared, ...]) -> AsyncIterator[Patient]:
    egress = egress_of(config.egress)
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as http:
            yield Patient(config, catalog, integrations, egress, http)
    finally:
        await egress.close()
