"""The console's handlers, loaded with the first request for a page: most workers never serve one."""

from aiohttp import web


async def sign_in(request: web.Request) -> web.StreamResponse:
    from gateway.console import sign_in as own

    return await own.page_or_session(request)


async def to_identity_provider(request: web.Request) -> web.StreamResponse:
    from gateway.console import sign_in as own

    return await own.to_identity_provider(request)


async def from_identity_provider(request: web.Request) -> web.StreamResponse:
    from gateway.console import sign_in as own

    return await own.from_identity_provider(request)


async def sign_out(request: web.Request) -> web.StreamResponse:
    from gateway.console import sign_in as own

    return await own.sign_out(request)


async def style(request: web.Request) -> web.StreamResponse:
    from gateway.console import console_page

    return console_page.style(request)


async def view(request: web.Request) -> web.StreamResponse:
    from gateway.console import view_table

    return await view_table.view(request)


async def act(request: web.Request) -> web.StreamResponse:
    from gateway.console import view_table

    return await view_table.act(request)
