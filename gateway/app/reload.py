"""Replaces the configuration of a running gateway: completely or, if anything in it is wrong, not at all.

A reload first reads and checks everything, as a start does. Then it replaces the generation, by one assignment
(`CurrentGeneration.replace`). The runtime does not change: its parts read the generation when they need a setting.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web

from gateway.app.generations import (
    CheckedConfiguration,
    ConfigurationSource,
    check_configuration,
    next_generation,
    read,
)
from gateway.app.lifetime import record_configuration
from gateway.catalog.load_catalog import Catalog
from gateway.config import Config, Fault, Faults, with_fixed_settings
from gateway.errors import GatewayError, StartRefused
from gateway.integrations.declared import integrations
from gateway.observe.metrics import RELOADS, Metrics
from gateway.runtime import RUNTIME
from gateway.vault import Keyring

CONFIGURATION_STAYS: Final = "the configuration in use stays"

log = structlog.get_logger(__name__)


def read_configuration_again(current_config: Config, configuration: ConfigurationSource | None = None) -> Config:
    """Read the file of `current_config` again, or read `configuration`. A setting that needs a restart keeps its old
    value, and the change is logged. Raises Faults."""
    new_config = read(_file_name(current_config) if configuration is None else configuration)
    config, ignored_places = with_fixed_settings(new_config, current_config)
    for place in ignored_places:
        log.warning(
            "needs_a_restart",
            where=new_config.file_and_line(*place),
            setting=".".join(place),
            effect="the old value stays",
        )
    return config


async def reload(
    app: web.Application,
    configuration: ConfigurationSource | None = None,
    *,
    accept: Callable[[CheckedConfiguration], None] | None = None,
) -> bool:
    """Reload `app` from its gateway.yaml, or from `configuration`; return whether the reload succeeded.

    All faults are logged, each with ``file:line``. `accept`: called in a thread with the checked configuration; if it
    raises an exception, the reload is refused. Then the store gets the new keys and environments; if this fails, the
    reload is refused too.
    """

    def read_and_check() -> CheckedConfiguration:
        return check_configuration(read_configuration_again(app[RUNTIME].generation.config, configuration))

    return await _reload(app, read_and_check, accept)


async def apply_accepted(app: web.Application, accepted: Callable[[], tuple[Config, Catalog]]) -> bool:
    """Reload `app` with a configuration and catalog that another worker has accepted; return whether the reload
    succeeded. `accepted`: returns this configuration and catalog."""

    def read_accepted() -> CheckedConfiguration:
        config, catalog = accepted()
        return CheckedConfiguration(config, catalog, integrations(config, catalog)[0])

    return await _reload(app, read_accepted, None)


async def _reload(
    app: web.Application,
    read_checked: Callable[[], CheckedConfiguration],
    accept: Callable[[CheckedConfiguration], None] | None,
) -> bool:
    """Apply the result of `read_checked`, which runs in a thread, because reading a large catalog would stop all other
    work of the event loop."""
    runtime = app[RUNTIME]
    async with runtime.reloading:
        try:
            checked = await asyncio.to_thread(read_checked)
            config = checked.config
            generation = next_generation(runtime, checked)
            if accept is not None:
                await asyncio.to_thread(accept, checked)
            # Writing to the store is the last step that can fail: data keys of new environments are wrapped with the
            # new master key, which the former configuration does not have.
            if config.store.encryption_keys != runtime.generation.config.store.encryption_keys:
                await runtime.store.use_keyring(
                    Keyring(config.store.encryption_keys), environments=set(config.environments)
                )
            else:
                await runtime.store.ensure_environments(set(config.environments))
        except Exception as refusal:  # noqa: BLE001 (after any error the configuration in use stays)
            log_refusal(refusal, runtime.metrics)
            return False
        removed_integrations = sorted(
            _declared_integrations(runtime.generation.config) - _declared_integrations(config)
        )
        generation.integrations.start_client_times()
        runtime.current.replace(generation)
        await record_configuration(runtime.store, config, "reload")
    runtime.metrics.add(RELOADS, "taken")
    log.info(
        "reloaded",
        environments=sorted(config.environments),
        providers=len(checked.catalog.providers),
        integrations_removed=removed_integrations or None,
    )
    return True


def _declared_integrations(config: Config) -> set[str]:
    return {
        f"{environment.name}/{key}" for environment in config.environments.values() for key in environment.integrations
    }


def log_refusal(refusal: Exception, metrics: Metrics | None) -> None:
    """Log each fault in its own line, then log that the configuration in use stays."""
    if isinstance(refusal, Faults | GatewayError | StartRefused):
        for fault in str(refusal).splitlines():
            log.error("fault", detail=fault)
        log.error("reload_refused", effect=CONFIGURATION_STAYS)
    else:
        log.error("reload_refused", effect=CONFIGURATION_STAYS, exc_info=refusal)
    if metrics is not None:
        metrics.add(RELOADS, "refused")


def _file_name(current_config: Config) -> Path:
    """Return the path of the configuration file as the operator wrote it, for messages about faults. Raises Faults if
    the configuration is not from a file."""
    if current_config.path is None:
        raise Faults([Fault("configuration", "was given in Python; pass a new one to `gateway.reload`")])
    name = Path(current_config.document.name or current_config.path)
    return name if name.absolute() == current_config.path else current_config.path
