"""The pages' handlers, imported with the first request for a page: most workers serve none, and the import costs 1
MB."""

from aiohttp import hdrs, web

from gateway.middleware.chain import Handler
from gateway.middleware.response_shape import convert_http_exception


async def entrance(request: web.Request) -> web.StreamResponse:
    from gateway.pages import connect_page

    return await connect_page.entrance(request)


async def start(request: web.Request) -> web.StreamResponse:
    from gateway.pages import connect_page

    return await connect_page.start(request)


async def form(request: web.Request) -> web.StreamResponse:
    from gateway.pages import connect_page

    return await connect_page.form(request)


async def act(request: web.Request) -> web.StreamResponse:
    from gateway.pages import connect_page

    return await connect_page.act(request)


async def leave(request: web.Request) -> web.StreamResponse:
    from gateway.pages import connect_page

    return await connect_page.leave(request)


async def result(request: web.Request) -> web.StreamResponse:
    from gateway.pages.result import result as own

    return await own(request)


async def to_application(request: web.Request) -> web.StreamResponse:
    from gateway.pages.result import to_application as own

    return await own(request)


async def asset(request: web.Request) -> web.StreamResponse:
    from gateway.pages import frame

    return await frame.asset(request)


async def begin(request: web.Request) -> web.StreamResponse:
    from gateway.pages.redirects import begin as own

    return await own(request)


async def callback(request: web.Request) -> web.StreamResponse:
    from gateway.pages.redirects import callback as own

    return await own(request)


async def site(request: web.Request) -> web.StreamResponse:
    from gateway.pages.redirects import site as own

    return await own(request)


async def guide(request: web.Request) -> web.StreamResponse:
    from gateway.pages.guide import guide as own

    return await own(request)


async def guides(request: web.Request) -> web.StreamResponse:
    from gateway.pages import front_door as own

    return own.guides(request)


async def front_door(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Serve a page to a browser for ``/``, an unknown path or a method that is not allowed; for other clients, call
    `handler`."""
    if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
        return await handler(request)
    from gateway.pages import front_door as own

    if request.path == "/" and request.method in (hdrs.METH_GET, hdrs.METH_HEAD):
        return await own.start_page(request)
    fault = request.match_info.http_exception
    assert fault is not None
    return own.missing(request, convert_http_exception(request, fault))
