"""Every response has a request id, which the caller may choose within limits."""

import pytest
from aiohttp import web

from gateway.middleware.chain import Chain
from gateway.middleware.facts import REQUEST_ID
from gateway.middleware.response_shape import add_request_id, error_shape, request_id
from tests.fakes.raw import exchange, parsed
from tests.middleware.conftest import Serve

ALONE = Chain(request_id)
KEYS = (f"gw_sk_{'a' * 49}", f"req-gw_cap_{'a' * 49}")


def get(fields: str = "") -> bytes:
    return f"GET / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n{fields}\r\n".encode()


async def show(request: web.Request) -> web.Response:
    return web.Response(text=request[REQUEST_ID])


@pytest.mark.parametrize("value", ["a", "req-1.2_3", "A" * 128])
async def test_valid_request_id_is_used(serve: Serve, value: str) -> None:
    response = parsed(await exchange(await serve(ALONE, show), get(f"X-Request-Id: {value}\r\n")))
    assert response.body.decode() == value
    assert response.headers["gateway-request-id"] == value


@pytest.mark.parametrize("value", ["", "A" * 129, "a b", "a\tb", "é", "<script>", "a/b", "a;b", "a\\nb", *KEYS])
async def test_invalid_request_id_is_replaced(serve: Serve, value: str) -> None:
    response = parsed(await exchange(await serve(ALONE, show), get(f"X-Request-Id: {value}\r\n")))
    assert response.headers["gateway-request-id"] != value
    assert len(response.headers["gateway-request-id"]) == 24


async def test_request_ids_are_unique(serve: Serve) -> None:
    port = await serve(ALONE, show)
    assert len({parsed(await exchange(port, get())).body for _ in range(20)}) == 20


async def test_application_and_route_use_one_request_id(serve: Serve) -> None:
    port = await serve(ALONE, show, web.Application(middlewares=[request_id]))
    response = parsed(await exchange(port, get()))
    assert response.headers["gateway-request-id"] == response.body.decode()


async def test_streaming_handler_adds_the_request_id(serve: Serve) -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = add_request_id(web.StreamResponse(), request)
        await response.prepare(request)
        await response.write_eof()
        return response

    response = parsed(await exchange(await serve(ALONE, stream), get("X-Request-Id: mine\r\n")))
    assert response.headers["gateway-request-id"] == "mine"


async def test_redirects_and_errors_have_a_request_id(serve: Serve) -> None:
    async def redirect(_request: web.Request) -> web.Response:
        raise web.HTTPFound("/elsewhere")

    async def missing(_request: web.Request) -> web.Response:
        raise web.HTTPNotFound

    for handler, status in ((redirect, 302), (missing, 404)):
        port = await serve(Chain(request_id, error_shape), handler)
        response = parsed(await exchange(port, get("X-Request-Id: mine\r\n")))
        assert (response.status, response.headers["gateway-request-id"]) == (status, "mine")
