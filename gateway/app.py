"""The composition root: builds Services, opens them with the application and closes them with it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Any, Final

import structlog
from aiohttp import web

from gateway import clock, logs
from gateway import config as configuration
from gateway.config import Config, Faults
from gateway.connections.create import Creator
from gateway.connections.delete import Deleter
from gateway.connections.dialogues import Dialogues
from gateway.connections.flow import Flows
from gateway.connections.integrations import Integrations
from gateway.connections.keep_alive import KeepAlive
from gateway.connections.links import Links
from gateway.connections.live import Live
from gateway.connections.made import MadeIntegrations, go_on
from gateway.connections.outcomes import Outcomes
from gateway.connections.recover import recover
from gateway.connections.renew import Renewer
from gateway.connections.sessions import Sessions
from gateway.connections.typed import TypedIn
from gateway.declared import Examined, all_faults, examined
from gateway.egress.bulkhead import Limits
from gateway.egress.client import Egress, Timeouts
from gateway.egress.gates import Gates
from gateway.egress.guard import Guard
from gateway.errors import GatewayError
from gateway.gauges import gauges
from gateway.keys import Keys
from gateway.keys.issue import Issuer
from gateway.metrics import Metrics
from gateway.pages.environment import setup_templates
from gateway.request_log import RequestLog
from gateway.routes import add_routes
from gateway.services import SERVICES, Services
from gateway.store import Store, open_store
from gateway.vault import Keyring, Tokens
from gateway.webhooks.deliver import Deliverer
from gateway.webhooks.keeper import Keeper
from middleware.error_shape import error_shape
from middleware.request_id import request_id
from middleware.unrouted import unrouted

BODY_LIMIT_BYTES: Final = 1 << 20
PRUNE_EVERY_S: Final = 600.0
KEEP_REQUEST_LOG: Final = timedelta(days=30)
# So that an unknown path is noted, and answered in the same shape.
OWN_MIDDLEWARES: Final = (request_id, unrouted, error_shape)

Configured = Config | Mapping[str, Any] | str | PathLike[str]

log = structlog.get_logger(__name__)


def create_app(config: Configured) -> web.Application:
    """The gateway as an application of its own. Raises config.Faults with every fault at once."""
    app = web.Application(middlewares=OWN_MIDDLEWARES, client_max_size=BODY_LIMIT_BYTES)
    setup(app, config)
    return app


def setup(app: web.Application, config: Configured) -> None:
    """Seat the gateway on `app`: its routes, with their own chains, and its services. Raises config.Faults."""
    logs.for_host()
    app[SERVICES] = services_of(read(config))
    setup_templates(app)
    add_routes(app, app[SERVICES].config.server.websocket_path)
    app.cleanup_ctx.append(_opened)
    app.on_shutdown.append(_stop_serving)


def services_of(config: Config) -> Services:
    """All that can be known before the store is open. Raises config.Faults."""
    found = declared(config)
    integrations = Integrations(found.integrations)
    metrics = Metrics(integrations.has)
    return Services(
        config=config,
        catalog=found.catalog,
        keys=Keys.declared(config),
        integrations=integrations,
        egress=egress_of(config),
        gates=gates_of(config),
        metrics=metrics,
        request_log=RequestLog(observe=metrics.observe),
        started_at=clock.now(),
    )


def declared(config: Config) -> Examined:
    """`config` held against its catalog. Raises config.Faults with what forbids to use it."""
    found = examined(config)
    if found.faults:
        raise Faults(found.faults)
    return found


def egress_of(config: Config) -> Egress:
    return Egress(
        Guard(config.egress.allow),
        proxy=config.egress.proxy,
        timeouts=Timeouts(**asdict(config.egress.timeouts)),
        connections_per_host=config.egress.limits.connections,
    )


def gates_of(config: Config) -> Gates:
    limits = config.egress.limits
    return Gates(Limits(limits.outstanding, limits.waiting, limits.wait_s))


def complete(services: Services) -> Dialogues:
    """Add what is built on the rest and keeps nothing of its own; the conversations with providers that it uses."""
    store, catalog, live, integrations = services.store, services.catalog, services.live, services.integrations
    dialogues, public_url = Dialogues(services.egress), services.config.server.public_url
    services.creator = Creator(store, catalog, live, services.egress, dialogues, public_url)
    services.sessions = Sessions(store)
    services.page_cursors = Tokens(services.config.store.encryption_keys, "page cursor")
    services.links = Links(store, services.sessions, public_url)
    services.issuer = Issuer(store, services.keys.minted)
    live.followers = (services.keys.minted, services.links)
    services.flows = Flows(store, integrations, services.creator, dialogues, services.outcomes, public_url)
    services.typed_in = TypedIn(store, services.creator, services.outcomes)
    services.deleter = Deleter(store, integrations, catalog, live, dialogues)
    services.made = MadeIntegrations(store, integrations, live, services.deleter)
    return dialogues


def read(config: Configured) -> Config:
    """As it is, or read from a mapping or a file. Raises Faults, with those that lie behind it."""
    if isinstance(config, Config):
        return config
    try:
        if isinstance(config, Mapping):
            return configuration.parse(config, base=Path.cwd())
        return configuration.load(Path(config))
    except Faults as found:
        raise all_faults(found) from None


async def _opened(app: web.Application) -> AsyncIterator[None]:
    """Everything with a connection, a file or a task behind it, for as long as the application runs."""
    services = app[SERVICES]
    async with opened(services, latest=lambda: app[SERVICES], background=True):
        services.metrics.watch(lambda: gauges(app[SERVICES]))
        services.serving = True
        yield
        app[SERVICES].serving = False  # of the last configuration


@asynccontextmanager
async def opened(
    services: Services, *, latest: Callable[[], Services] | None = None, background: bool = False
) -> AsyncIterator[None]:
    """The store and all that stands on it; with `background` also what goes on by itself while a gateway serves.

    `latest` tells what is to be closed at the end, where a reload may have put others in place.
    """
    config = services.config
    store = services.store = await open_store(
        config.store.url,
        Keyring(config.store.encryption_keys),
        environments=config.environments,
        pool=config.store.pool,
    )
    try:
        since = await store.changes.last_id()  # before they are read, so that none that comes meanwhile is missed
        services.integrations.learn(await store.integrations.all())
    except BaseException:
        await store.close()
        raise
    dialogues = Dialogues(services.egress)
    services.renewer = Renewer(store, services.integrations, services.catalog, dialogues, services.metrics)
    services.live = Live(config.live, store, services.integrations, services.catalog, services.renewer)
    services.deliverer = Deliverer(store, config, services.catalog, services.egress, services.metrics)
    services.keys.minted.open(store)
    services.outcomes = Outcomes(store)
    complete(services)
    now = latest or (lambda: services)
    services.keeper = Keeper(store, lambda: now().config.environments, services.deliverer.wake)
    tasks = []
    if background:
        services.live.heard = services.deliverer.wake
        keep_alive = KeepAlive(store, services.renewer, lambda: (now().integrations, now().catalog))
        tasks = [
            asyncio.create_task(
                services.live.follow(since, lambda: services.outcomes.look(now().serving)), name="follow_changes"
            ),
            asyncio.create_task(recover(store, services.renewer), name="recover_refreshes"),
            asyncio.create_task(keep_alive.run(), name="keep_alive"),
            asyncio.create_task(services.deliverer.run(), name="deliver_events"),
            asyncio.create_task(services.keeper.run(), name="keep_events"),
            asyncio.create_task(_prune(store), name="prune"),
            asyncio.create_task(go_on(lambda: now().made), name="end_integrations"),
            asyncio.create_task(services.keys.minted.write(), name="write_key_use"),
            asyncio.create_task(services.request_log.write_to(store.request_log), name="write_request_log"),
        ]
    try:
        yield
    finally:
        await _closed(latest() if latest else services, tasks)


async def _closed(services: Services, tasks: Sequence["asyncio.Task[None]"]) -> None:
    async with AsyncExitStack() as end:  # from the bottom up, each whatever became of the one before
        end.push_async_callback(services.store.close)
        for egress in (services.egress, *services.retired):
            end.push_async_callback(egress.close)
        end.push_async_callback(services.request_log.close)
        end.push_async_callback(services.deliverer.close)
        end.push_async_callback(services.keys.minted.close)
        end.push_async_callback(_ended, tasks)
        end.push_async_callback(services.links.close)
        end.push_async_callback(services.renewer.close)
        end.push_async_callback(services.deleter.close)
        end.push_async_callback(services.made.close)
        end.push_async_callback(services.flows.close)
        end.push_async_callback(services.live.close)


async def _ended(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            log.error("background_task_failed", exc_info=outcome)


async def _stop_serving(app: web.Application) -> None:
    app[SERVICES].serving = False


async def _prune(store: Store) -> None:
    """Sessions and flows live minutes, and what is older is only weight."""
    while True:
        now = clock.now()
        try:
            await store.prune(now)
            await store.request_log.prune(now - KEEP_REQUEST_LOG)
        except GatewayError as fault:
            log.warning("prune_failed", detail=fault.message)
        await asyncio.sleep(PRUNE_EVERY_S)
