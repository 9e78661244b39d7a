"""The one table of routes: each line says who may enter, and where the request ends."""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from gateway.api import client_metadata, connect, connections, health, integrations, logos, options, providers, typed_in
from gateway.forward import forward
from gateway.pages.begin import begin
from gateway.pages.callback import callback
from gateway.pages.connect import connect_page
from gateway.pages.guide import guide
from middleware.expectation import no_early_continue
from middleware.surfaces import API, CALLED, OPEN, POSTED, PROXY

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# Ids of connections may hold slashes, and published clients do not encode them.
ID: Final = r"{connection_id:.+}"
# Encoded line ends are bytes like any other, and the router matches what it has decoded.
REST: Final = r"{path:(?s:.*)}"


def _posted(end: Handler) -> tuple[tuple[str, Handler], ...]:
    return ("POST", POSTED(end)), ("OPTIONS", CALLED(options.options))


ROUTES: Final[tuple[tuple[str, str, Handler], ...]] = (
    ("GET", "/health", OPEN(health.health)),
    ("GET", "/ready", OPEN(health.ready)),
    ("GET", "/images/template-logos/{name}.svg", OPEN(logos.logo)),
    ("GET", "/connect", OPEN(connect_page)),
    ("GET", "/oauth/connect/{integration_id}", OPEN(begin)),
    ("GET", "/oauth/callback", OPEN(callback)),
    ("GET", "/app-auth/connect", OPEN(callback)),
    ("GET", "/oauth/client-metadata/{environment}/{integration_id}", OPEN(client_metadata.document)),
    *((method, path, chain) for path, end in typed_in.ENDS for method, chain in _posted(end)),
    ("GET", "/providers", API(providers.list_providers)),
    ("OPTIONS", "/providers", CALLED(options.options)),
    ("GET", "/providers/{provider}", API(providers.get_provider)),
    ("OPTIONS", "/providers/{provider}", CALLED(options.options)),
    ("GET", "/providers/{provider}/guide", OPEN(guide)),
    ("GET", "/integrations", API(integrations.list_integrations)),
    ("OPTIONS", "/integrations", CALLED(options.options)),
    ("GET", "/integrations/{unique_key}", API(integrations.get_integration)),
    ("OPTIONS", "/integrations/{unique_key}", CALLED(options.options)),
    ("POST", "/connect/sessions", API(connect.create_session)),
    ("OPTIONS", "/connect/sessions", CALLED(options.options)),
    ("GET", "/connections", API(connections.list_connections)),
    ("POST", "/connections", API(connections.import_connection)),
    ("OPTIONS", "/connections", CALLED(options.options)),
    ("GET", f"/connections/{ID}", API(connections.get_connection)),
    ("DELETE", f"/connections/{ID}", API(connections.delete_connection)),
    ("OPTIONS", f"/connections/{ID}", CALLED(options.options)),
    ("*", "/proxy", PROXY(forward)),
    ("*", f"/proxy/{REST}", PROXY(forward)),
)


# A GET that does something: a link scanner's HEAD would use an authorization up, and nobody would see what came of it.
WITHOUT_HEAD: Final = frozenset({"/oauth/callback", "/app-auth/connect"})


def add_routes(app: web.Application) -> None:
    """Seat every route on `app`, HEAD wherever there is a GET (RFC 9110 §9.1).

    A key is checked before ``100 Continue`` invites a body.
    """
    for method, path, handler in ROUTES:
        for one in ("HEAD", "GET") if method == "GET" and path not in WITHOUT_HEAD else (method,):
            app.router.add_route(one, path, handler, expect_handler=no_early_continue)
