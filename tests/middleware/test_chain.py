"""A chain binds its middlewares to a route, once, outermost first."""

import asyncio
from typing import Any, cast

import pytest
from aiohttp import web

from gateway.middleware.chain import Chain, Handler, Middleware

REQUEST = cast(web.Request, object())


def link(name: str, walked: list[str]) -> Middleware:
    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        walked.append(f"{name} in")
        try:
            return await handler(request)
        finally:
            walked.append(f"{name} out")

    return note


async def hello(_request: web.Request) -> web.Response:
    """Says hello."""
    return web.Response(text="hello")


async def test_middlewares_run_outermost_first() -> None:
    walked: list[str] = []
    await Chain(link("a", walked), link("b", walked), link("c", walked))(hello)(REQUEST)
    assert walked == ["a in", "b in", "c in", "c out", "b out", "a out"]


async def test_a_chain_can_extend_another_chain() -> None:
    walked: list[str] = []
    first = Chain(link("a", walked), link("b", walked))
    await Chain(*first, link("c", walked))(hello)(REQUEST)
    assert walked[:3] == ["a in", "b in", "c in"]


async def test_a_middleware_may_respond_instead_of_the_handler() -> None:
    async def refuse(_request: web.Request, _handler: Handler) -> web.StreamResponse:
        return web.Response(status=403)

    assert (await Chain(refuse)(hello)(REQUEST)).status == 403


async def test_one_chain_serves_many_routes_and_requests() -> None:
    walked: list[str] = []
    chain = Chain(link("a", walked))
    bound = [chain(hello), chain(hello)]
    await asyncio.gather(*(handler(REQUEST) for handler in bound * 2))
    assert walked.count("a in") == 4


def test_the_handler_keeps_its_name_and_is_a_coroutine_function() -> None:
    bound: Any = Chain(link("a", []))(hello)
    assert (bound.__name__, bound.__doc__) == ("hello", "Says hello.")
    assert asyncio.iscoroutinefunction(bound)
    web.Application().router.add_get("/", bound)


def test_a_handler_bound_twice_is_not_wrapped_twice() -> None:
    chain = Chain(link("a", []))
    bound = chain(hello)
    assert chain(bound) is bound
    with pytest.raises(TypeError, match="another chain"):
        Chain(link("b", []))(bound)


def test_a_chain_without_middlewares_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Chain()
