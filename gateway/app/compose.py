"""The composition root: adds the gateway to an application. `lifetime` builds and closes the runtime."""

from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from gateway.app.gauges import gauges
from gateway.app.generations import CheckedConfiguration, ConfigurationSource, check_configuration, read
from gateway.app.lifetime import open_runtime
from gateway.app.routes import add_routes
from gateway.integrations.declared import CheckResult
from gateway.middleware.access_log import unrouted
from gateway.middleware.response_shape import error_shape, request_id
from gateway.observe import logs
from gateway.observe.metrics_page import MetricsPage
from gateway.pages import lazy_pages
from gateway.pages.templates import setup_templates
from gateway.refresh.through_parent import ParentLink
from gateway.runtime import RUNTIME

BODY_LIMIT_BYTES: Final = 1 << 20
# These middlewares log requests to unknown paths, and respond with an error as JSON or as a page.
OWN_MIDDLEWARES: Final = (request_id, unrouted(lazy_pages.browser_page), error_shape)

CHECKED_CONFIGURATION: Final = web.AppKey("checked_configuration", CheckedConfiguration)
"""The configuration with which an application starts, checked before anything is opened."""
# Set in a worker of `gateway serve` before the start:
PARENT: Final = web.AppKey("parent", ParentLink)
"""The link to the parent, which sends the worker's token exchanges."""
METRICS_PAGE: Final = web.AppKey("metrics_page", MetricsPage)
"""Shared memory for the worker's counters, which the parent reads."""


def create_app(config: ConfigurationSource) -> web.Application:
    """Create an application with only the gateway. Raises config.Faults with every fault."""
    return create(config)


def create(config: ConfigurationSource, examined: CheckResult | None = None) -> web.Application:
    """Create an application with the gateway. `examined`: the result of checking `config` with its catalog; None: not
    checked yet."""
    app = web.Application(middlewares=OWN_MIDDLEWARES, client_max_size=BODY_LIMIT_BYTES)
    setup(app, config, examined)
    return app


def setup(app: web.Application, config: ConfigurationSource, examined: CheckResult | None = None) -> None:
    """Add the gateway to `app`: its routes with their middleware chains, and its runtime at startup. Raises
    config.Faults."""
    logs.setup_in_host()
    checked_configuration = app[CHECKED_CONFIGURATION] = check_configuration(read(config), examined)
    setup_templates(app)
    add_routes(app, checked_configuration.config.server.websocket_path)
    app.cleanup_ctx.append(_run_gateway)
    app.on_shutdown.append(_stop_serving)


async def _run_gateway(app: web.Application) -> AsyncIterator[None]:
    """Keep connections, files and tasks open while the application runs."""
    parent, page = app.get(PARENT), app.get(METRICS_PAGE)
    async with open_runtime(app[CHECKED_CONFIGURATION], parent=parent, page=page, background=True) as runtime:
        app[RUNTIME] = runtime
        runtime.metrics.watch(lambda: gauges(runtime))
        runtime.serving = True
        yield
        runtime.serving = False


async def _stop_serving(app: web.Application) -> None:
    if RUNTIME in app:  # after a failed start there is no runtime
        app[RUNTIME].serving = False
