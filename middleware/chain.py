"""Binds middlewares to a route instead of an application, so that a host's own routes are untouched (ADR 1)."""

from collections.abc import Awaitable, Callable, Iterator
from functools import wraps

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Middleware = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]


class Chain:
    """Middlewares in order, outermost first. Calling it with a handler gives a handler; nothing is built per request."""

    __slots__ = ("_links",)

    def __init__(self, *links: Middleware) -> None:
        self._links = links

    def __iter__(self) -> Iterator[Middleware]:
        return iter(self._links)

    def __call__(self, handler: Handler) -> Handler:
        bound = handler
        for link in reversed(self._links):
            bound = _bind(link, bound)

        @wraps(handler)
        async def enter(
            request: web.Request,
        ) -> web.StreamResponse:  # a coroutine function, as aiohttp's router demands
            return await bound(request)

        return enter


def _bind(link: Middleware, inner: Handler) -> Handler:
    def bound(request: web.Request) -> Awaitable[web.StreamResponse]:
        return link(request, inner)

    return bound
