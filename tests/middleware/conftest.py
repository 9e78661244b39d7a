"""Single middlewares on aiohttp's own runner, as in a host application."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from gateway.middleware.chain import Chain, Handler
from gateway.middleware.request_message import no_early_continue

Serve = Callable[..., Awaitable[int]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Return a function: ``await serve(chain, handler)`` runs an application with one route for any path, and returns
    its port.
    """
    runners: list[web.AppRunner] = []

    async def start(chain: Chain, handler: Handler, app: web.Application | None = None) -> int:
        app = app or web.Application()
        app.router.add_route("*", "/{path:.*}", chain(handler), expect_handler=no_early_continue)
        run = web.AppRunner(app, handler_cancellation=True, access_log=None)
        runners.append(run)
        await run.setup()
        site = web.TCPSite(run, "127.0.0.1", 0)
        await site.start()
        return site.port

    yield start
    for run in runners:
        await run.cleanup()
