"""Every exception is returned in one format, says what to do next, and reveals no internals."""

import pytest
from aiohttp import web

from gateway.errors import GatewayError, InvalidRequest, Issue, TooManyRequests, Unauthorized, Unavailable
from gateway.middleware.chain import Chain
from gateway.middleware.response_shape import error_shape, request_id
from gateway.proxy.passed_response import PassedResponse
from tests.fakes.raw import dial, exchange, parsed
from tests.middleware.conftest import Serve

OPEN = Chain(request_id, error_shape)
GET = b"GET / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\nX-Request-Id: r1\r\n\r\n"


async def response_to_error(serve: Serve, fault: BaseException, data: bytes = GET) -> bytes:
    async def handler(_request: web.Request) -> web.Response:
        raise fault

    return await exchange(await serve(OPEN, handler), data)


async def test_gateway_error_is_returned_completely(serve: Serve) -> None:
    fault = InvalidRequest(
        "invalid_body", "Say more.", errors=[Issue("too_small", "short", ("name",))], payload={"seen": 1}
    )
    response = parsed(await response_to_error(serve, fault))
    assert response.status == 400
    assert response.error == {
        "code": "invalid_body",
        "message": "Say more.",
        "errors": [{"code": "too_small", "message": "short", "path": ["name"]}],
        "payload": {"seen": 1},
    }
    assert response.headers["gateway-error"] == "invalid_body"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["gateway-request-id"] == "r1"
    assert response.headers["content-type"] == "application/json; charset=utf-8"


async def test_absent_members_are_absent_and_not_null(serve: Serve) -> None:
    response = parsed(
        await response_to_error(serve, Unauthorized("unknown_account", "No.", headers={"WWW-Authenticate": "Bearer"}))
    )
    assert set(response.error) == {"code", "message"}
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "fault", [Unavailable("busy", "x", retry_after_s=7), TooManyRequests("too_many_request", "x", retry_after_s=7)]
)
async def test_temporary_error_has_retry_after(serve: Serve, fault: GatewayError) -> None:
    assert parsed(await response_to_error(serve, fault)).headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (web.HTTPNotFound(), 404, "not_found"),
        (web.HTTPMethodNotAllowed("PUT", ["GET", "DELETE"]), 405, "method_not_allowed"),
        (web.HTTPRequestEntityTooLarge(10, 20), 413, "body_too_large"),
        (web.HTTPBadRequest(reason="odd"), 400, "bad_framing"),
        (web.HTTPInternalServerError(), 500, "generic_error_support"),
        (web.RequestPayloadError("bad chunk"), 400, "bad_framing"),
        (TimeoutError(), 500, "generic_error_support"),
        (ConnectionRefusedError("the store"), 500, "generic_error_support"),
        (RuntimeError("Bearer s3cr3t"), 500, "generic_error_support"),
    ],
)
async def test_other_exceptions_are_returned_in_the_same_format(
    serve: Serve, fault: BaseException, status: int, code: str
) -> None:
    raw = await response_to_error(serve, fault)
    response = parsed(raw)
    assert (response.status, response.error["code"], response.headers["gateway-error"]) == (status, code, code)
    assert b"s3cr3t" not in raw
    assert b"Traceback" not in raw
    if status == 405:
        assert response.headers["allow"] == "DELETE, GET"
    if status == 500:
        assert response.error["payload"] == {"request_id": "r1"}


async def test_a_redirect_is_not_converted_to_an_error(serve: Serve) -> None:
    response = parsed(await response_to_error(serve, web.HTTPFound("/elsewhere")))
    assert (response.status, response.headers["location"]) == (302, "/elsewhere")
    assert "gateway-error" not in response.headers


async def test_a_response_to_head_has_no_body(serve: Serve) -> None:
    raw = await response_to_error(serve, Unauthorized("unknown_account", "No."), GET.replace(b"GET", b"HEAD"))
    response = parsed(raw, head_only=True)
    assert (response.status, response.rest) == (401, b"")
    assert int(response.headers["content-length"]) > 0


async def test_some_errors_end_the_connection(serve: Serve) -> None:
    kept = GET.replace(b"Connection: close\r\n", b"")
    response = parsed(await response_to_error(serve, InvalidRequest("bad_framing", "x", close=True), kept))
    assert response.headers["connection"] == "close"


async def test_an_error_while_the_response_head_waits_for_the_body_cuts_the_connection(serve: Serve) -> None:
    async def write_head(request: web.Request) -> web.StreamResponse:
        response = PassedResponse(200, "OK", [], None)
        response.head_with_first_write = True
        await response.prepare(request)
        raise InvalidRequest("invalid_body", "too late")

    assert await exchange(await serve(OPEN, write_head), GET) == b""


async def test_an_error_after_the_response_head_cuts_the_connection(serve: Serve) -> None:
    async def write_half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        raise InvalidRequest("invalid_body", "too late")

    port = await serve(OPEN, write_half)
    async with dial(port) as client:
        client.send(GET)
        await client.until(b"half\r\n")
        with pytest.raises(ConnectionResetError):
            await client.until_clean_end()
