"""The composition root: builds Services and seats them on an application; `lifetime` opens and closes them with it."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, Final

import structlog
from aiohttp import web

from gateway import clock
from gateway import config as configuration
from gateway.access.invalid_keys import InvalidKeys
from gateway.access.known_keys import Keys
from gateway.app.gauges import gauges
from gateway.app.lifetime import opened
from gateway.app.routes import add_routes
from gateway.config import Config, Faults
from gateway.egress.client import Egress, Timeouts
from gateway.egress.guard import Guard
from gateway.egress.limits import GateLimits, Gates
from gateway.egress.page_memory import PageMemory
from gateway.integrations.declared import Examined, all_faults, examined
from gateway.integrations.registry import Integrations
from gateway.middleware.access_log import unrouted
from gateway.middleware.error_shape import error_shape
from gateway.middleware.request_id import request_id
from gateway.observe import logs
from gateway.observe.metrics import INVALID_KEYS, Metrics
from gateway.observe.request_log import RequestLogger
from gateway.pages.templates import setup_templates
from gateway.services import SERVICES, Services

BODY_LIMIT_BYTES: Final = 1 << 20
# So that an unknown path is noted, and answered in the same shape.
OWN_MIDDLEWARES: Final = (request_id, unrouted, error_shape)

Configured = Config | Mapping[str, Any] | str | PathLike[str]

log = structlog.get_logger(__name__)


def create_app(config: Configured) -> web.Application:
    """The gateway as an application of its own. Raises config.Faults with every fault at once."""
    return create(config)


def create(config: Configured, found: Examined | None = None) -> web.Application:
    """The same. `found`: `config` held against its catalog, where that is done already."""
    app = web.Application(middlewares=OWN_MIDDLEWARES, client_max_size=BODY_LIMIT_BYTES)
    setup(app, config, found)
    return app


def setup(app: web.Application, config: Configured, found: Examined | None = None) -> None:
    """Seat the gateway on `app`: its routes, with their own chains, and its services. Raises config.Faults."""
    logs.for_host()
    app[SERVICES] = services_of(read(config), found)
    setup_templates(app)
    add_routes(app, app[SERVICES].config.server.websocket_path)
    app.cleanup_ctx.append(_opened)
    app.on_shutdown.append(_stop_serving)


def services_of(config: Config, found: Examined | None = None) -> Services:
    """All that can be known before the store is open. Raises config.Faults."""
    found = found or declared(config)
    integrations = Integrations(found.integrations)
    metrics = Metrics(integrations.has)
    return Services(
        config=config,
        catalog=found.catalog,
        keys=Keys.declared(config),
        integrations=integrations,
        egress=egress_of(config),
        gates=gates_of(config),
        page_memory=PageMemory(config.egress.page_memory_bytes),
        metrics=metrics,
        invalid_keys=InvalidKeys(lambda: metrics.add(INVALID_KEYS)),
        request_log=RequestLogger(observe=metrics.observe, stored=config.request_log.enabled),
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
    return Gates(GateLimits(limits.outstanding, limits.waiting, limits.wait_s))


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


async def _stop_serving(app: web.Application) -> None:
    app[SERVICES].serving = False
