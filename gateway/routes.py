"""The one table of routes: each line says who may enter, and where the request ends."""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from gateway.api import connect, connections, health, integrations, logos, providers
from gateway.forward import forward
from gateway.pages.begin import begin
from gateway.pages.callback import callback
from gateway.pages.connect import connect_page
from middleware.expectation import no_early_continue
from middleware.surfaces import API, OPEN, PROXY

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# Ids of connections may hold slashes, and published clients do not encode them.
ID: Final = r"{connection_id:.+}"

ROUTES: Final[tuple[tuple[str, str, Handler], ...]] = (
    ("GET", "/health", OPEN(health.health)),
    ("GET", "/ready", OPEN(health.ready)),
    ("GET", "/images/template-logos/{name}.svg", OPEN(logos.logo)),
    ("GET", "/connect", OPEN(connect_page)),
    ("GET", "/oauth/connect/{integration_id}", OPEN(begin)),
    ("GET", "/oauth/callback", OPEN(callback)),
    ("GET", "/providers", API(providers.list_providers)),
    ("GET", "/providers/{provider}", API(providers.get_provider)),
    ("GET", "/integrations", API(integrations.list_integrations)),
    ("GET", "/integrations/{unique_key}", API(integrations.get_integration)),
    ("POST", "/connect/sessions", API(connect.create_session)),
    ("GET", "/connections", API(connections.list_connections)),
    ("POST", "/connections", API(connections.import_connection)),
    ("GET", f"/connections/{ID}", API(connections.get_connection)),
    ("DELETE", f"/connections/{ID}", API(connections.delete_connection)),
    ("*", "/proxy", PROXY(forward)),
    ("*", "/proxy/{path:.*}", PROXY(forward)),
)


def add_routes(app: web.Application) -> None:
    """Seat every route on `app`. A key is checked before ``100 Continue`` invites a body."""
    for method, path, handler in ROUTES:
        app.router.add_route(method, path, handler, expect_handler=no_early_continue)
