"""Another configuration for a gateway that serves: all of it or, where anything is wrong with it, none of it.

Who handles a request sees one generation of Services, the old or the new: `turn` replaces the whole, without giving up
the loop. What lives longer than a configuration goes over: the store, what is kept in memory as far as it still holds,
refreshes under way, and the connections to providers unless `egress` has changed.
"""

import asyncio
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web

from gateway.access.known_keys import Keys
from gateway.app.compose import Configured, declared, egress_of, gates_of, read
from gateway.app.lifetime import complete
from gateway.catalog.load_catalog import Catalog
from gateway.config import Config, Fault, Faults, with_fixed
from gateway.errors import GatewayError, StartRefused
from gateway.integrations.declared import integrations
from gateway.integrations.registry import Integrations
from gateway.observe.metrics import RELOADS, Metrics
from gateway.services import SERVICES, Services
from gateway.vault import Keyring

STAYS: Final = "the configuration in use stays"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Next:
    """A configuration that was read and checked, in a form that `turn` can put in place."""

    config: Config
    catalog: Catalog
    integrations: Integrations


def read_again(running: Config, given: Configured | None = None) -> Config:
    """The file of `running`, or what is `given`, read again; what needs a restart is logged and stays. Raises Faults."""
    new = read(_file_of(running) if given is None else given)
    config, ignored = with_fixed(new, running)
    for place in ignored:
        log.warning("needs_a_restart", where=new.where(*place), setting=".".join(place), effect="the old value stays")
    return config


def checked(config: Config) -> Next:
    """With its catalog. Raises Faults."""
    found = declared(config)
    return Next(config, found.catalog, Integrations(found.integrations))


async def reload(
    app: web.Application, given: Configured | None = None, *, accept: Callable[[Next], None] | None = None
) -> bool:
    """Whether `app` now works by its file as it is now, or by what is `given`. All faults are logged, by ``file:line``.

    `accept` is called in a thread with what is put in place next; what it raises is a refusal.
    """

    def read_and_checked() -> Next:
        return checked(read_again(app[SERVICES].config, given))

    return await _reloaded(app, read_and_checked, accept)


async def take_over(app: web.Application, accepted: Callable[[], tuple[Config, Catalog]]) -> bool:
    """Whether `app` now works by the configuration and catalog that another worker has `accepted`."""

    def made() -> Next:
        config, catalog = accepted()
        return Next(config, catalog, Integrations(integrations(config, catalog)[0]))

    return await _reloaded(app, made, None)


async def _reloaded(app: web.Application, read: Callable[[], Next], accept: Callable[[Next], None] | None) -> bool:
    """Reading happens in a thread, since a catalog is large and streams go on meanwhile."""
    async with app[SERVICES].turning:
        running = app[SERVICES]
        try:
            ready = await asyncio.to_thread(read)
            config = ready.config
            if config.store.encryption_keys != running.config.store.encryption_keys:
                await running.store.turn_to(
                    Keyring(config.store.encryption_keys), environments=set(config.environments)
                )
            else:
                await running.store.ensure_environments(set(config.environments))
            if accept is not None:
                await asyncio.to_thread(accept, ready)
        except Exception as refusal:  # noqa: BLE001 (whatever it was, the configuration in use stays)
            tell_refusal(refusal, running.metrics)
            return False
        turn(app, ready)
    running.metrics.add(RELOADS, "taken")
    log.info("reloaded", environments=sorted(config.environments), providers=len(ready.catalog.providers))
    return True


def tell_refusal(refusal: Exception, metrics: Metrics | None) -> None:
    """One line a fault, and one that says what became of it."""
    if isinstance(refusal, Faults | GatewayError | StartRefused):
        for fault in str(refusal).splitlines():
            log.error("fault", detail=fault)
        log.error("reload_refused", effect=STAYS)
    else:
        log.error("reload_refused", effect=STAYS, exc_info=refusal)
    if metrics is not None:
        metrics.add(RELOADS, "refused")


def turn(app: web.Application, ready: Next) -> None:
    """Put `ready` in place, in one step. Who has taken Services from the application before works with these to the end."""
    old = app[SERVICES]
    new: Services = copy(old)
    new.config, new.catalog, new.integrations = ready.config, ready.catalog, ready.integrations
    new.keys = Keys.declared(ready.config, old.keys.minted)
    new.retired = tuple(egress for egress in old.retired if not egress.unused)
    if ready.config.egress != old.config.egress:
        old.egress.retire()
        new.egress, new.retired = egress_of(ready.config), (*new.retired, old.egress)
    if ready.config.egress.limits != old.config.egress.limits:
        new.gates = gates_of(ready.config)
    new.page_memory.limit_bytes = ready.config.egress.page_memory_bytes
    new.integrations.take_over(old.integrations)
    dialogues = complete(new)
    new.sessions.take_over(old.sessions)
    new.flows.take_over(old.flows)
    new.links.take_over(old.links)
    new.deleter.take_over(old.deleter)
    new.made.take_over(old.made)
    new.renewer.turn_to(new.integrations, new.catalog, dialogues)
    new.live.turn_to(ready.config.live, new.integrations, new.catalog)
    new.deliverer.turn_to(ready.config, new.catalog, new.egress)
    new.metrics.turn_to(new.integrations.has)
    new.request_log.stored = ready.config.request_log.enabled
    # aiohttp warns of changes to an application that has started, since it cannot know that this one is meant.
    app._state[SERVICES] = new


def _file_of(running: Config) -> Path:
    """The file, by the name that the operator gave it, for messages about faults."""
    if running.path is None:
        raise Faults([Fault("configuration", "was given in Python: hand a new one to `gateway.reload`")])
    named = Path(running.document.name or running.path)
    return named if named.absolute() == running.path else running.path
