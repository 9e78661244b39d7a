"""Binds middlewares to a route instead of an application, so that a host's own routes are unaffected (ADR 1)."""

from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from typing import Final

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Middleware = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]

CHAIN_ATTRIBUTE: Final = "__gateway_chain__"


class Chain:
    """Middlewares in order, the outermost first. Call a chain with a handler to wrap the handler in the middlewares.

    The wrapping happens only then, and not at each request. A chain is iterable, so that another chain can begin with
    the same middlewares: ``API = Chain(*OPEN, bearer_key)``.
    """

    __slots__ = ("_links",)

    def __init__(self, *links: Middleware) -> None:
        if not links:
            raise ValueError("a chain needs at least one middleware")
        self._links = links

    def __iter__(self) -> Iterator[Middleware]:
        return iter(self._links)

    def __call__(self, handler: Handler) -> Handler:
        """Return `handler` wrapped by the chain; the name and docstring of the handler stay the same.

        A handler that this chain has wrapped already is returned unchanged. Raises TypeError if the handler is bound to
        another chain, because it would be unclear which of the two chains decides access.
        """
        bound_by = getattr(handler, CHAIN_ATTRIBUTE, None)
        if bound_by == self._links:
            return handler
        if bound_by is not None:
            raise TypeError(f"{handler!r} is bound to another chain already")
        outermost, *inner_links = self._links
        inner = handler
        for link in reversed(inner_links):
            inner = _bind(link, inner)

        @wraps(handler)
        async def enter(request: web.Request) -> web.StreamResponse:  # the router requires a coroutine function
            return await outermost(request, inner)

        setattr(enter, CHAIN_ATTRIBUTE, self._links)
        return enter


def _bind(link: Middleware, inner: Handler) -> Handler:
    def bound(request: web.Request) -> Awaitable[web.StreamResponse]:
        return link(request, inner)

    return bound
