"""A request's head must be unambiguous. Bodies for the gateway's own API must be JSON, small, and arrive in time."""

import asyncio
from dataclasses import replace

import pytest
from aiohttp import web

from gateway.errors import Unavailable
from gateway.middleware import request_message as limits
from gateway.middleware.chain import Chain, Handler
from gateway.middleware.request_message import MAX_JSON_BYTES, invite_body, json_only, read_limited_body, strict
from gateway.middleware.response_shape import error_shape, request_id
from tests.fakes.clock import Clock
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw import RawResponse, dial, exchange, parsed
from tests.middleware.conftest import Serve

# ── Ambiguous messages are refused under another runner too.

OPEN = Chain(request_id, error_shape, strict)


async def show_path(request: web.Request) -> web.Response:
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
async def test_ambiguous_head_is_refused_and_the_connection_closed(
    serve: Serve, data: str, status: int, code: str
) -> None:
    response = parsed(
        await exchange(await serve(OPEN, show_path), data.encode())
    )  # the connection ends after the response
    assert (response.status, response.error["code"]) == (status, code)


@pytest.mark.parametrize(
    ("target", "seen"),
    [
        ("/a%2Fb?x=%2F", "/a%2Fb?x=%2F"),
        ("http://gw:80/a%2Fb?", "/a%2Fb?"),
        ("HTTP://GW:80/", "/"),
    ],
)
async def test_target_is_passed_on_without_its_origin(serve: Serve, target: str, seen: str) -> None:
    head = f"GET {target} HTTP/1.1\r\nHost: gw:80\r\nConnection: close\r\n\r\n"
    assert parsed(await exchange(await serve(OPEN, show_path), head.encode())).body.decode() == seen


@pytest.mark.parametrize("host", ["gw", "gw:3003", "GW.example.com:1", "[::1]:3003", "10.0.0.1", "a_b", ""])
async def test_any_well_formed_host_is_accepted(serve: Serve, host: str) -> None:
    head = f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    assert parsed(await exchange(await serve(OPEN, show_path), head.encode())).status == 200


# ── Bodies for the gateway's own API are JSON, small, and arrive in time.

API = Chain(request_id, error_shape, json_only)


async def show(request: web.Request) -> web.Response:
    return web.json_response(await request.json() if request.body_exists else None)


async def send_to_api(serve: Serve, fields: str, body: bytes = b"") -> RawResponse:
    head = f"POST / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n{fields}\r\n"
    async with dial(await serve(API, show, web.Application(client_max_size=0))) as client:
        client.send(head.encode() + body)
        return await client.response()


@pytest.mark.parametrize(
    "kind", ["", "Content-Type: application/json\r\n", "Content-Type: Application/JSON; charset=utf-8\r\n"]
)
async def test_json_and_missing_content_type_are_accepted(serve: Serve, kind: str) -> None:
    response = await send_to_api(serve, kind + "Content-Length: 7\r\n", b'{"a":1}')
    assert (response.status, response.body) == (200, b'{"a": 1}')


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
@pytest.mark.parametrize("body", [b"", b"a=1"])
async def test_other_content_types_are_refused(serve: Serve, kind: str, body: bytes) -> None:
    response = await send_to_api(serve, f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n", body)
    assert (response.status, response.error["code"]) == (415, "invalid_content_type")


async def test_content_type_without_a_body_is_accepted(serve: Serve) -> None:
    assert (await send_to_api(serve, "Content-Type: application/json\r\n")).status == 200


async def test_a_body_at_the_limit_is_read_even_if_the_host_application_allows_less(serve: Serve) -> None:
    body = b'"' + b"x" * (MAX_JSON_BYTES - 2) + b'"'
    assert (await send_to_api(serve, f"Content-Length: {len(body)}\r\n", body)).body == body


@web.middleware
async def reads_the_body(request: web.Request, handler: Handler) -> web.StreamResponse:
    await request.read()
    return await handler(request)


async def test_a_body_that_a_middleware_of_the_host_application_has_read_is_used(serve: Serve) -> None:
    port = await serve(API, show, web.Application(middlewares=[reads_the_body], client_max_size=MAX_JSON_BYTES * 2))
    for body, status in ((b'{"a": 1}', 200), (b" " * (MAX_JSON_BYTES + 1), 413)):
        async with dial(port) as client:
            client.send(b"POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            response = await client.response()
        assert response.status == status
        assert status == 413 or response.body == body


async def test_a_body_over_the_limit_is_refused(serve: Serve) -> None:
    response = await send_to_api(serve, f"Content-Length: {MAX_JSON_BYTES + 1}\r\n")
    assert (response.status, response.error["code"]) == (413, "body_too_large")


async def test_a_body_of_unknown_length_is_refused_once_it_is_over_the_limit(serve: Serve) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    response = await send_to_api(serve, "Transfer-Encoding: chunked\r\n", chunk * 17)
    assert (response.status, response.error["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("limit", ["body_grace_s", "body_idle_s"])
async def test_slow_body_is_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(limits, "DEFAULT_LIMITS", replace(limits.DEFAULT_LIMITS, **{limit: 0.05}))
    port = await serve(API, show)
    async with dial(port) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 10\r\n\r\n{")
        response = await client.response()
    assert (response.status, response.error["code"]) == (400, "invalid_body")
    assert response.headers["connection"] == "close"


@pytest.mark.parametrize(("rate", "status"), [(1, 200), (0, 200), (1000, 400)], ids=["above", "no minimum", "below"])
async def test_minimum_rate_of_a_body_applies_after_the_grace_period(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, clock: Clock, rate: int, status: int
) -> None:
    bodies = limits.ArrivingBodies(1 << 20)
    monkeypatch.setattr(limits, "ARRIVING_BODIES", bodies)
    monkeypatch.setattr(limits, "DEFAULT_LIMITS", replace(limits.DEFAULT_LIMITS, body_bytes_per_s=rate))
    async with dial(await serve(API, show)) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 102\r\n\r\n" + b'"' + b"x" * 99)
        await wait_for_bytes(bodies, 100)
        clock.ahead_s += limits.DEFAULT_LIMITS.body_grace_s + 1  # 100 bytes in 21 s
        client.send(b"x")
        if status == 200:
            await wait_for_bytes(bodies, 101)
            client.send(b'"')
        assert (await client.response()).status == status


async def wait_for_bytes(bodies: limits.ArrivingBodies, size: int) -> None:
    """Wait until the unfinished bodies have `size` bytes together."""
    async with asyncio.timeout(PATIENCE_S):
        while bodies.size != size:
            await asyncio.sleep(0)


async def test_bodies_that_have_not_arrived_completely_have_limited_memory_together(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = limits.ArrivingBodies(100)
    monkeypatch.setattr(limits, "ARRIVING_BODIES", bodies)
    port = await serve(API, show)
    head = b"POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 90\r\n\r\n"
    async with dial(port) as stalled, dial(port) as later:
        stalled.send(head + b'"' + b"a" * 59)
        await wait_for_bytes(bodies, 60)
        later.send(head + b'"' + b"b" * 59)
        refused = await stalled.response()
        later.send(b"b" * 29 + b'"')
        assert (await later.response()).body == b'"' + b"b" * 88 + b'"'
    assert (refused.status, refused.error["code"], refused.headers["retry-after"]) == (503, "busy", "5")
    assert refused.headers["connection"] == "close"
    assert bodies.size == 0


async def test_a_single_body_that_needs_too_much_memory_is_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = limits.ArrivingBodies(100)
    monkeypatch.setattr(limits, "ARRIVING_BODIES", bodies)
    port = await serve(API, show)
    async with dial(port) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 200\r\n\r\n" + b" " * 150)
        assert (await client.response()).status == 503
    assert bodies.size == 0


async def test_memory_is_free_again_if_the_client_disconnects(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = limits.ArrivingBodies(100)
    monkeypatch.setattr(limits, "ARRIVING_BODIES", bodies)
    port = await serve(API, show)
    async with dial(port) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: gw\r\nContent-Length: 90\r\n\r\n" + b" " * 60)
        await wait_for_bytes(bodies, 60)
    await wait_for_bytes(bodies, 0)
    assert bodies.size == 0


async def test_body_that_is_refused_while_its_last_bytes_arrive_is_not_counted_twice() -> None:
    bodies = limits.ArrivingBodies(100)
    with bodies.begin() as first, bodies.begin() as second:
        bodies.add(first, 60)
        bodies.add(second, 60)
        assert (first.refused, second.refused, bodies.size) == (True, False, 60)
        with pytest.raises(Unavailable):
            bodies.add(first, 10)
        assert bodies.size == 60
    assert bodies.size == 0


async def test_continue_is_sent_only_for_an_accepted_request(serve: Serve) -> None:
    port = await serve(API, show)
    head = "POST / HTTP/1.1\r\nHost: gw\r\nExpect: 100-continue\r\nContent-Length: 2\r\n{}\r\n"
    async with dial(port) as client:
        client.send(head.format("").encode())
        assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"{}")
        assert (await client.response()).body == b"{}"
    async with dial(port) as client:
        client.send(head.format("Content-Type: text/plain\r\n").encode())
        assert (await client.response()).status == 415


@web.middleware
async def read_body(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Read the body before the last link of the chain, as `key_rules` does for a rule that looks into the body."""
    await read_limited_body(request, MAX_JSON_BYTES, "too large")
    return await handler(request)


async def test_continue_is_sent_once_if_the_body_is_read_twice_and_is_empty(serve: Serve) -> None:
    port = await serve(Chain(request_id, error_shape, strict, read_body, invite_body), show_path)
    async with dial(port) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: gw\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"0\r\n\r\n")
        assert (await client.response()).status == 200


async def test_continue_is_not_sent_if_the_request_declares_an_empty_body(serve: Serve) -> None:
    port = await serve(Chain(request_id, error_shape, strict, invite_body), show_path)
    async with dial(port) as client:
        client.send(b"POST / HTTP/1.1\r\nHost: gw\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n")
        assert (await client.response()).status == 200
