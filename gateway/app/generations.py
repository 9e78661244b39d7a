"""From a configuration to a generation: read, checked against its catalog, and put in use."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from gateway import config as configuration
from gateway.access.known_keys import Keys, Minted
from gateway.catalog.load_catalog import Catalog
from gateway.config import Config, Faults
from gateway.config.model import EgressConfig
from gateway.egress.client import Egress, Timeouts
from gateway.egress.guard import Guard
from gateway.egress.limits import ConcurrencySettings
from gateway.generation import Generation
from gateway.integrations.declared import Examined, all_faults, examined
from gateway.integrations.registry import Integrations, ManagedIntegrations
from gateway.records.integration import Integration
from gateway.runtime import Runtime
from gateway.vault import SealedTokens

Configured = Config | Mapping[str, Any] | str | PathLike[str]


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration that was read and checked with its catalog, ready for use.
    `integrations`: those that it declares."""

    config: Config
    catalog: Catalog
    integrations: Sequence[Integration]


def read(config: Configured) -> Config:
    """Return `config` itself, or read it from a mapping or a file.
    Raises Faults, including faults hidden by the first ones."""
    if isinstance(config, Config):
        return config
    try:
        if isinstance(config, Mapping):
            return configuration.parse(config, base=Path.cwd())
        return configuration.load(Path(config))
    except Faults as found:
        raise all_faults(found) from None


def checked(config: Config, found: Examined | None = None) -> Checked:
    """Return `config` with its catalog. `found`: the result of `examined`, if already known. Raises config.Faults."""
    found = found or examined(config)
    if found.faults:
        raise Faults(found.faults)
    return Checked(config, found.catalog, found.integrations)


def generation(
    given: Checked,
    minted: Minted,
    managed: ManagedIntegrations,
    egress: Egress | None = None,
    former: Integrations | None = None,
) -> Generation:
    """Build the generation. `egress` None: create a new one. `former`: the integrations of the replaced generation."""
    return Generation(
        config=given.config,
        catalog=given.catalog,
        keys=Keys.declared(given.config, minted),
        integrations=Integrations(given.integrations, managed, former),
        egress=egress or egress_of(given.config.egress),
        page_cursors=SealedTokens(given.config.store.encryption_keys, "page cursor"),
    )


def next_generation(runtime: Runtime, given: Checked) -> Generation:
    """Build the generation that replaces the one of `runtime`; nothing changes until `Current.replace`."""
    before = runtime.generation
    same = given.config.egress == before.config.egress
    egress = before.egress if same else None
    return generation(given, runtime.minted, runtime.managed, egress, before.integrations)


def replace(runtime: Runtime, given: Checked) -> None:
    """Replace the generation with `given`, in one step.
    Work that started under the former generation keeps that one."""
    runtime.current.replace(next_generation(runtime, given))


def egress_of(config: EgressConfig) -> Egress:
    return Egress(
        Guard(config.allow),
        proxy=config.proxy,
        timeouts=Timeouts(**asdict(config.timeouts)),
        connections_per_host=config.limits.connections,
    )


def concurrency_settings(config: EgressConfig) -> ConcurrencySettings:
    limits = config.limits
    return ConcurrencySettings(limits.outstanding, limits.waiting, limits.wait_s)
