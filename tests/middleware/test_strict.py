"""Under a foreign runner too, a message that can be read in two ways is refused."""

import pytest
from aiohttp import web

from gateway.middleware.chain import Chain
from gateway.middleware.error_shape import error_shape
from gateway.middleware.request_id import request_id
from gateway.middleware.request_message import strict
from tests.fakes.raw import exchange, parsed
from tests.middleware.conftest import Serve

OPEN = Chain(request_id, error_shape, strict)


async def show(request: web.Request) -> web.Response:
    return web.Response(text=request.raw_path)


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        ("GET / HTTP/2.0\r\nHost: gw\r\n\r\n", 505, "bad_framing"),
        ("GET / HTTP/1.1\r\nHost: gw\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n", 400, "bad_framing"),
        ("GET / HTTP/1.1\r\nHost: gw\r\nConnection-Id: a\r\nConnection-Id: b\r\n\r\n", 400, "bad_framing"),
        ("GET / HTTP/1.1\r\nHost: g w\r\n\r\n", 400, "bad_framing"),
        ("TRACE / HTTP/1.1\r\nHost: gw\r\n\r\n", 405, "method_not_allowed"),
        ("GET /a\\b HTTP/1.1\r\nHost: gw\r\n\r\n", 400, "bad_path"),
        ("GET http://other/ HTTP/1.1\r\nHost: gw\r\n\r\n", 400, "bad_framing"),
        ("POST / HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, "not_supported"),
        ("POST / HTTP/1.0\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "bad_framing"),
    ],
)
async def test_is_refused_and_the_connection_ends(serve: Serve, data: str, status: int, code: str) -> None:
    answer = parsed(await exchange(await serve(OPEN, show), data.encode()))  # which ends with the connection
    assert (answer.status, answer.error["code"]) == (status, code)


@pytest.mark.parametrize(
    ("target", "seen"),
    [
        ("/a%2Fb?x=%2F", "/a%2Fb?x=%2F"),
        ("http://gw:80/a%2Fb?", "/a%2Fb?"),
        ("HTTP://GW:80/", "/"),
    ],
)
async def test_a_target_arrives_as_it_was_sent_less_its_origin(serve: Serve, target: str, seen: str) -> None:
    head = f"GET {target} HTTP/1.1\r\nHost: gw:80\r\nConnection: close\r\n\r\n"
    assert parsed(await exchange(await serve(OPEN, show), head.encode())).body.decode() == seen


@pytest.mark.parametrize("host", ["gw", "gw:3003", "GW.example.com:1", "[::1]:3003", "10.0.0.1", "a_b", ""])
async def test_any_well_formed_host_is_accepted(serve: Serve, host: str) -> None:
    head = f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    assert parsed(await exchange(await serve(OPEN, show), head.encode())).status == 200
