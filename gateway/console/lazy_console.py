"""The console's handlers. Each handler imports its module at the first request, because most workers serve no page.

Requests to `console.port` reach only the console.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import hdrs, web

from gateway.errors import NotFound
from gateway.middleware.facts import REQUEST_ID
from gateway.middleware.response_shape import CALLER_REQUEST_ID, add_request_id, error_response, loggable_id, new_id

AnyHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

OWN_PORT: Final = web.RequestKey("own_port", bool)  # set by console_alone; absent if the request came to server.port
ROOT: Final = "/console"


def console_alone(handler: AnyHandler) -> AnyHandler:
    """Return a handler for requests to `console.port`, which calls `handler` for the paths of the console.

    ``/`` redirects to the console. For any other path the response is 404.
    """

    async def handle_console_request(request: web.BaseRequest) -> web.StreamResponse:
        request[OWN_PORT] = True
        path = request.rel_url.raw_path
        if path == ROOT or path.startswith(f"{ROOT}/"):
            return await handler(request)
        request[REQUEST_ID] = loggable_id(request.headers.get(CALLER_REQUEST_ID)) or new_id()
        if path == "/" and request.method in (hdrs.METH_GET, hdrs.METH_HEAD):
            return add_request_id(web.Response(status=303, headers={hdrs.LOCATION: ROOT.removeprefix("/")}), request)
        return error_response(request, NotFound("not_found", f"This port serves only the console, at {ROOT}."))

    return handle_console_request


async def sign_in(request: web.Request) -> web.StreamResponse:
    from gateway.console import sign_in as own

    return await own.page_or_session(request)


async def redirect_to_identity_provider(request: web.Request) -> web.StreamResponse:
    from gateway.console import sign_in as own

    return await own.redirect_to_identity_provider(request)


async def finish_oidc_sign_in(request: web.Request) -> web.StreamResponse:
    from gateway.console import sign_in as own

    return await own.finish_oidc_sign_in(request)


async def sign_out(request: web.Request) -> web.StreamResponse:
    from gateway.console import sign_in as own

    return await own.sign_out(request)


async def asset(request: web.Request) -> web.StreamResponse:
    from gateway.console import console_page

    return console_page.asset(request)


async def logo(request: web.Request) -> web.StreamResponse:
    from gateway.console import console_page

    return await console_page.logo(request)


async def view(request: web.Request) -> web.StreamResponse:
    from gateway.console import view_table

    return await view_table.view(request)


async def act(request: web.Request) -> web.StreamResponse:
    from gateway.console import view_table

    return await view_table.action(request)
