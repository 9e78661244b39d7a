"""Binds middlewares to a route instead of an application, so that a host's own routes are untouched (ADR 1)."""

from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from typing import Final

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Middleware = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]

CHAIN: Final = "__gateway_chain__"


class Chain:
    """Middlewares in order, outermost first. Calling it with a handler gives a handler; nothing is built per request.

    A chain is iterable, so that one can begin with another: ``API = Chain(*OPEN, bearer_key)``.
    """

    __slots__ = ("_links",)

    def __init__(self, *links: Middleware) -> None:
        if not links:
            raise ValueError("a chain needs at least one middleware")
        self._links = links

    def __iter__(self) -> Iterator[Middleware]:
        return iter(self._links)

    def __call__(self, handler: Handler) -> Handler:
        """`handler` behind the chain, under its own name. Once is enough: the same chain again changes nothing.

        Raises TypeError where another chain is bound already, since which of the two lets in would be anybody's guess.
        """
        bound_by = getattr(handler, CHAIN, None)
        if bound_by == self._links:
            return handler
        if bound_by is not None:
            raise TypeError(f"{handler!r} is bound to another chain already")
        first, *rest = self._links
        inner = handler
        for link in reversed(rest):
            inner = _bind(link, inner)

        @wraps(handler)
        async def enter(request: web.Request) -> web.StreamResponse:  # the router demands a coroutine function
            return await first(request, inner)

        setattr(enter, CHAIN, self._links)
        return enter


def _bind(link: Middleware, inner: Handler) -> Handler:
    def bound(request: web.Request) -> Awaitable[web.StreamResponse]:
        return link(request, inner)

    return bound
