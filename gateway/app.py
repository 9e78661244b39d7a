"""The composition root: builds Services, opens them with the application and closes them with it."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Any, Final

import structlog
from aiohttp import web

from gateway import clock, logs
from gateway import config as configuration
from gateway.catalog.load import Catalog
from gateway.config import Config, Faults
from gateway.connections.create import Creator
from gateway.connections.flow import Flows
from gateway.connections.integrations import Integrations
from gateway.connections.live import Live
from gateway.connections.renew import Renewer
from gateway.connections.sessions import Sessions
from gateway.connections.tokens import TokenEndpoint
from gateway.declared import catalog_of, integrations
from gateway.egress.client import Egress
from gateway.egress.guard import Guard
from gateway.egress.load import PoolLoad
from gateway.errors import GatewayError
from gateway.keys import Keys
from gateway.pages.environment import setup_templates
from gateway.request_log import RequestLog
from gateway.routes import add_routes
from gateway.services import SERVICES, Services
from gateway.store import Store, open_store
from gateway.vault import Keyring
from middleware.error_shape import error_shape
from middleware.request_id import request_id

BODY_LIMIT_BYTES: Final = 1 << 20
PRUNE_EVERY_S: Final = 600.0
KEEP_REQUEST_LOG: Final = timedelta(days=30)

Configured = Config | Mapping[str, Any] | str | PathLike[str]

log = structlog.get_logger(__name__)


def create_app(config: Configured) -> web.Application:
    """The gateway as an application of its own. Raises config.Faults with every fault at once."""
    app = web.Application(middlewares=[request_id, error_shape], client_max_size=BODY_LIMIT_BYTES)
    setup(app, config)
    return app


def setup(app: web.Application, config: Configured) -> None:
    """Seat the gateway on `app`: its routes, with their own chains, and its services. Raises config.Faults."""
    logs.for_host()
    app[SERVICES] = services_of(read(config))
    setup_templates(app)
    add_routes(app)
    app.cleanup_ctx.append(_opened)
    app.on_shutdown.append(_stop_serving)


def services_of(config: Config) -> Services:
    """All that can be known before the store is open. Raises config.Faults."""
    catalog, declared = declared_in(config)
    return Services(
        config=config,
        catalog=catalog,
        keys=Keys.declared(config),
        integrations=declared,
        egress=egress_of(config),
        request_log=RequestLog(),
        started_at=clock.now(),
    )


def declared_in(config: Config) -> tuple[Catalog, Integrations]:
    """The catalog, and the integrations that hold against it. Raises Faults or CatalogFaults."""
    catalog = catalog_of(config)
    declared, faults, _ = integrations(config, catalog)
    if faults:
        raise Faults(faults)
    return catalog, Integrations(declared)


def egress_of(config: Config) -> Egress:
    return Egress(Guard(config.egress.allow), proxy=config.egress.proxy)


def complete(services: Services) -> TokenEndpoint:
    """Add what is built on the rest and keeps nothing of its own; the way to token endpoints that it uses."""
    tokens = TokenEndpoint(services.egress)
    services.creator = Creator(services.store, services.catalog, services.live, services.egress)
    services.sessions = Sessions(services.store)
    services.flows = Flows(
        services.store, services.integrations, services.creator, tokens, services.config.server.public_url
    )
    return tokens


def read(config: Configured) -> Config:
    """As it is, or read from a mapping or a file. Raises Faults."""
    if isinstance(config, Config):
        return config
    if isinstance(config, Mapping):
        return configuration.parse(config, base=Path.cwd())
    return configuration.load(Path(config))


async def _opened(app: web.Application) -> AsyncIterator[None]:
    """Everything with a connection, a file or a task behind it, for as long as the application runs."""
    services = app[SERVICES]
    config = services.config
    store = services.store = await open_store(
        config.store.url, Keyring(config.store.encryption_keys), environments=config.environments
    )
    await services.egress.open()
    tokens = TokenEndpoint(services.egress)
    services.renewer = Renewer(store, services.integrations, services.catalog, tokens, services.metrics)
    services.live = Live(config.live, store, services.integrations, services.catalog, services.renewer)
    complete(services)
    watch(app)
    tasks = [
        asyncio.create_task(services.live.follow(await store.changes.last_id()), name="follow_changes"),
        asyncio.create_task(_prune(store), name="prune"),
        asyncio.create_task(services.request_log.write_to(store.request_log), name="write_request_log"),
    ]
    services.serving = True
    yield
    services = app[SERVICES]  # of the last configuration
    services.serving = False
    async with AsyncExitStack() as end:  # from the bottom up, each whatever became of the one before
        end.push_async_callback(store.close)
        for egress in (services.egress, *services.retired):
            end.push_async_callback(egress.close)
        end.push_async_callback(services.request_log.close)
        end.push_async_callback(_ended, tasks)
        end.push_async_callback(services.renewer.close)
        end.push_async_callback(services.flows.close)


async def _ended(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            log.error("background_task_failed", exc_info=outcome)


def watch(app: web.Application) -> None:
    """Let metrics ask for what is not counted but simply is so. `app` is asked each time: a reload changes its Services."""
    metrics = app[SERVICES].metrics
    metrics.watch("gateway_live_connections", read=lambda: app[SERVICES].live.kept)
    metrics.watch("gateway_request_log_dropped_total", read=lambda: app[SERVICES].request_log.dropped)
    metrics.watch("gateway_upstream_connections", "busy", read=lambda: _pools(app).busy)
    metrics.watch("gateway_upstream_connections", "idle", read=lambda: _pools(app).idle)
    metrics.watch("gateway_upstream_waiting", read=lambda: _pools(app).waiting)


def _pools(app: web.Application) -> PoolLoad:
    services = app[SERVICES]
    return PoolLoad(*map(sum, zip(*(egress.load() for egress in (services.egress, *services.retired)), strict=True)))


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
