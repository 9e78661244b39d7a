"""The handlers of the pages, imported at the first request for a page.

Most workers serve no page, and the import costs 1 MB of memory.
"""

from aiohttp import hdrs, web

from gateway.middleware.chain import Handler
from gateway.middleware.response_shape import convert_http_exception


async def open_link(request: web.Request) -> web.StreamResponse:
    from gateway.pages import connect_page

    return await connect_page.open_link(request)


async def show_offers(request: web.Request) -> web.StreamResponse:
    from gateway.pages import connect_page

    return await connect_page.show_offers(request)


async def show_form(request: web.Request) -> web.StreamResponse:
    from gateway.pages import connect_page

    return await connect_page.show_form(request)


async def submit_form(request: web.Request) -> web.StreamResponse:
    from gateway.pages import connect_page

    return await connect_page.submit_form(request)


async def leave_for_provider(request: web.Request) -> web.StreamResponse:
    from gateway.pages import connect_page

    return await connect_page.leave_for_provider(request)


async def result(request: web.Request) -> web.StreamResponse:
    from gateway.pages.result import result as page_handler

    return await page_handler(request)


async def return_to_application(request: web.Request) -> web.StreamResponse:
    from gateway.pages.result import return_to_application as page_handler

    return await page_handler(request)


async def asset(request: web.Request) -> web.StreamResponse:
    from gateway.pages import frame

    return await frame.asset(request)


async def begin(request: web.Request) -> web.StreamResponse:
    from gateway.pages.redirects import begin as page_handler

    return await page_handler(request)


async def callback(request: web.Request) -> web.StreamResponse:
    from gateway.pages.redirects import callback as page_handler

    return await page_handler(request)


async def choose_site(request: web.Request) -> web.StreamResponse:
    from gateway.pages.redirects import choose_site as page_handler

    return await page_handler(request)


async def guide(request: web.Request) -> web.StreamResponse:
    from gateway.pages.guide import guide as page_handler

    return await page_handler(request)


async def guides(request: web.Request) -> web.StreamResponse:
    from gateway.pages import root_pages

    return root_pages.guides(request)


async def browser_page(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Serve a page to a browser for ``/``, for an unknown path, or for a method that is not allowed.

    For a client that is not a browser, call `handler`.
    """
    if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
        return await handler(request)
    from gateway.pages import root_pages

    if request.path == "/" and request.method in (hdrs.METH_GET, hdrs.METH_HEAD):
        return await root_pages.start_page(request)
    fault = request.match_info.http_exception
    assert fault is not None
    return root_pages.missing_page(request, convert_http_exception(request, fault))
