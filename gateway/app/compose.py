"""The composition root: seats the gateway on an application. `lifetime` builds the runtime when that starts, and closes it."""

from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from gateway.app.gauges import gauges
from gateway.app.generations import Checked, Configured, checked, read
from gateway.app.lifetime import opened
from gateway.app.routes import add_routes
from gateway.integrations.declared import Examined
from gateway.middleware.access_log import unrouted
from gateway.middleware.answer_shape import error_shape, request_id
from gateway.observe import logs
from gateway.observe.metrics import MetricsPage
from gateway.pages import lazy_pages
from gateway.pages.templates import setup_templates
from gateway.refresh.through_parent import ParentLink
from gateway.runtime import RUNTIME

BODY_LIMIT_BYTES: Final = 1 << 20
# So that an unknown path is noted, and answered in the same shape, or with a page.
OWN_MIDDLEWARES: Final = (request_id, unrouted(lazy_pages.front_door), error_shape)

SEATED: Final = web.AppKey("seated", Checked)
"""What an application starts with: checked when it was seated, before anything is opened."""
# In a worker of `gateway serve`, set before the start:
PARENT: Final = web.AppKey("parent", ParentLink)
"""The link to the parent, which does its token exchanges."""
METRICS_PAGE: Final = web.AppKey("metrics_page", MetricsPage)
"""Shared memory for its counters, which the parent reads."""


def create_app(config: Configured) -> web.Application:
    """The gateway as an application of its own. Raises config.Faults with every fault at once."""
    return create(config)


def create(config: Configured, found: Examined | None = None) -> web.Application:
    """Create an application with the gateway on it. `found`: the check of `config` against its catalog, if there is one."""
    app = web.Application(middlewares=OWN_MIDDLEWARES, client_max_size=BODY_LIMIT_BYTES)
    setup(app, config, found)
    return app


def setup(app: web.Application, config: Configured, found: Examined | None = None) -> None:
    """Seat the gateway on `app`: its routes, with their own chains, and from the start on its runtime. Raises config.Faults."""
    logs.for_host()
    seated = app[SEATED] = checked(read(config), found)
    setup_templates(app)
    add_routes(app, seated.config.server.websocket_path)
    app.cleanup_ctx.append(_running)
    app.on_shutdown.append(_stop_serving)


async def _running(app: web.Application) -> AsyncIterator[None]:
    """Keep open what has a connection, a file or a task behind it, for as long as the application runs."""
    parent, page = app.get(PARENT), app.get(METRICS_PAGE)
    async with opened(app[SEATED], parent=parent, page=page, background=True) as runtime:
        app[RUNTIME] = runtime
        runtime.metrics.watch(lambda: gauges(runtime))
        runtime.serving = True
        yield
        runtime.serving = False


async def _stop_serving(app: web.Application) -> None:
    if RUNTIME in app:  # otherwise the start has failed
        app[RUNTIME].serving = False
