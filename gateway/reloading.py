"""Another configuration for a gateway that serves: all of it or, where anything is wrong with it, none of it.

Who handles a request sees one generation of Services, the old or the new: `turn` replaces the whole, without giving up
the loop. What lives longer than a configuration goes over: the store, what is kept in memory as far as it still holds,
refreshes under way, and the connections to providers unless `egress` has changed.
"""

import asyncio
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web

from gateway import config as configuration
from gateway.app import complete, declared_in, egress_of, read
from gateway.catalog.faults import CatalogFaults
from gateway.catalog.load import Catalog
from gateway.config import Config, Faults, with_fixed
from gateway.connections.integrations import Integrations
from gateway.errors import GatewayError
from gateway.keys import Keys
from gateway.services import SERVICES, Services

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Next:
    """A configuration that was read and checked anew, in a form that `turn` can put in place."""

    config: Config
    catalog: Catalog
    integrations: Integrations


def read_again(running: Config, given: Config | Mapping[str, Any] | str | PathLike[str] | None = None) -> Config:
    """The file of `running`, or what is `given`, read anew; what needs a restart is told and stays. Raises Faults."""
    new = configuration.load(_path_of(running)) if given is None else read(given)
    config, ignored = with_fixed(new, running)
    for place in ignored:
        log.warning("needs_a_restart", where=new.where(*place), key=".".join(place), effect="the old value stays")
    return config


def checked(config: Config) -> Next:
    """With its catalog. Raises Faults or CatalogFaults."""
    catalog, integrations = declared_in(config)
    return Next(config, catalog, integrations)


async def reload(app: web.Application, given: Config | Mapping[str, Any] | str | PathLike[str] | None = None) -> bool:
    """Whether `app` now works by its file as it is now, or by what is `given`. All faults are logged, by ``file:line``.

    Reading happens in a thread, since a catalog is large and streams go on meanwhile.
    """
    running = app[SERVICES]
    try:
        config = await asyncio.to_thread(read_again, running.config, given)
        ready = await asyncio.to_thread(checked, config)
        await running.store.ensure_environments(set(config.environments))
    except (Faults, CatalogFaults, GatewayError) as refusal:
        tell_refusal(refusal)
        running.metrics.add("gateway_config_reloads_total", "refused")
        return False
    turn(app, ready)
    running.metrics.add("gateway_config_reloads_total", "taken")
    log.info("reloaded", environments=sorted(config.environments), providers=len(ready.catalog.providers))
    return True


def tell_refusal(refusal: Faults | CatalogFaults | GatewayError) -> None:
    """One line a fault, and one that says what became of it."""
    for fault in str(refusal).splitlines():
        log.error("fault", detail=fault)
    log.error("reload_refused", effect="the configuration in use stays")


def turn(app: web.Application, ready: Next) -> None:
    """Put `ready` in place, in one step. Who has taken Services from the application before works with these to the end."""
    old = app[SERVICES]
    new: Services = copy(old)
    new.config, new.catalog, new.integrations = ready.config, ready.catalog, ready.integrations
    new.keys = Keys.declared(ready.config)
    if ready.config.egress != old.config.egress:
        new.egress = egress_of(ready.config)
        new.retired = (*old.retired, old.egress)  # what is under way there may last; idle connections end by themselves
    tokens = complete(new)
    new.flows.take_over(old.flows)
    new.renewer.turn_to(new.integrations, new.catalog, tokens)
    new.live.turn_to(ready.config.live, new.integrations, new.catalog)
    # aiohttp warns of changes to an application that has started, since it cannot know that this one is meant.
    app._state[SERVICES] = new


def _path_of(running: Config) -> Path:
    if running.path is None:
        raise Faults([configuration.Fault("configuration", "was given in Python: hand a new one to `gateway.reload`")])
    return running.path
