"""Reads a configuration, checks it with its catalog, builds a generation from both, and puts the generation in use."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from gateway import config as configuration
from gateway.access.known_keys import KeyLookup, MintedKeyCache
from gateway.catalog.load_catalog import Catalog
from gateway.config import Config, Faults
from gateway.config.model import EgressConfig
from gateway.egress.client import Egress, Timeouts
from gateway.egress.guard import Guard
from gateway.egress.limits import ConcurrencySettings
from gateway.generation import Generation
from gateway.integrations.declared import CheckResult, all_faults, examine_catalog
from gateway.integrations.registry import Integrations, ManagedIntegrations
from gateway.records.integration import Integration
from gateway.runtime import Runtime
from gateway.vault import SealedTokens

ConfigurationSource = Config | Mapping[str, Any] | str | PathLike[str]


@dataclass(frozen=True, slots=True)
class CheckedConfiguration:
    """A configuration that was checked with its catalog and is ready for use. `integrations`: the integrations that the
    configuration declares."""

    config: Config
    catalog: Catalog
    integrations: Sequence[Integration]


def read(config: ConfigurationSource) -> Config:
    """Return `config` if it is a Config; otherwise read a Config from a mapping or a file. Raises Faults with all
    faults, including those that other faults hide at first."""
    if isinstance(config, Config):
        return config
    try:
        if isinstance(config, Mapping):
            return configuration.parse(config, base=Path.cwd())
        return configuration.load(Path(config))
    except Faults as faults:
        raise all_faults(faults) from None


def check_configuration(config: Config, result: CheckResult | None = None) -> CheckedConfiguration:
    """Check `config` with its catalog; return the configuration and the catalog. `result`: the result of
    `examine_catalog` for `config`; None: check now. Raises config.Faults."""
    result = result or examine_catalog(config)
    if result.faults:
        raise Faults(result.faults)
    return CheckedConfiguration(config, result.catalog, result.integrations)


def build_generation(
    checked: CheckedConfiguration,
    minted_keys: MintedKeyCache,
    managed: ManagedIntegrations,
    egress: Egress | None = None,
    previous_integrations: Integrations | None = None,
) -> Generation:
    """Build the generation of a checked configuration. `egress` None: create a new Egress. `previous_integrations`: the
    integrations of the replaced generation."""
    return Generation(
        config=checked.config,
        catalog=checked.catalog,
        keys=KeyLookup.from_config(checked.config, minted_keys),
        integrations=Integrations(checked.integrations, managed, previous_integrations),
        egress=egress or build_egress(checked.config.egress),
        page_cursors=SealedTokens(checked.config.store.encryption_keys, "page cursor"),
    )


def next_generation(runtime: Runtime, checked: CheckedConfiguration) -> Generation:
    """Build the generation that will replace the current generation of `runtime`. Nothing changes before
    `CurrentGeneration.replace`."""
    current_generation = runtime.generation
    same_egress = checked.config.egress == current_generation.config.egress
    egress = current_generation.egress if same_egress else None
    return build_generation(checked, runtime.minted, runtime.managed, egress, current_generation.integrations)


def replace_generation(runtime: Runtime, checked: CheckedConfiguration) -> None:
    """Replace the current generation of `runtime` by one built from `checked`, in one step. Work that has already
    started keeps the former generation."""
    runtime.current.replace(next_generation(runtime, checked))


def build_egress(config: EgressConfig) -> Egress:
    return Egress(
        Guard(config.allow),
        proxy=config.proxy,
        timeouts=Timeouts(**asdict(config.timeouts)),
        connections_per_host=config.limits.connections,
        waiting=config.limits.waiting,
        wait_s=config.limits.wait_s,
    )


def concurrency_settings(config: EgressConfig) -> ConcurrencySettings:
    limits = config.limits
    return ConcurrencySettings(limits.outstanding, limits.waiting, limits.wait_s)
