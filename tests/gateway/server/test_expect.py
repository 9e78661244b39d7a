"""Expect: 100-continue: the gateway asks for the body only after it has accepted the request, and refuses without the
body.
"""

import pytest

from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw import dial
from tests.gateway.server.conftest import Served

HEAD = b"POST %s HTTP/1.1\r\nHost: gw.example\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
INVITED = b"HTTP/1.1 100 Continue\r\n\r\n"


async def test_continue_is_sent_when_the_body_is_read(server: Served) -> None:
    async with dial(server.port) as client:
        client.send(HEAD % b"/echo")
        assert await client.until(b"\r\n\r\n") == INVITED
        client.send(b"body")
        response = await client.response()
        assert (response.status, response.body) == (200, b"body")
        client.send(HEAD % b"/echo")  # the connection stays open
        assert await client.until(b"\r\n\r\n") == INVITED


async def test_continue_is_not_sent_after_the_body_has_begun(server: Served) -> None:
    async with dial(server.port) as client:
        client.send(HEAD % b"/echo" + b"body")
        response = await client.response()
        assert (response.status, response.body) == (200, b"body")


@pytest.mark.parametrize("target", [b"/refuse", b"/crash"])
async def test_a_refusal_ends_the_connection_immediately(
    server: Served, target: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # much longer than the server waits for a body that is on its way
    monkeypatch.setattr("gateway.server.client_protocol.LINGER_S", 10 * PATIENCE_S)
    async with dial(server.port) as client:
        client.send(HEAD % target)
        response = await client.response()
        assert response.headers["connection"] == "close"
        assert response.status in {401, 500}
        assert await client.until_closed() == b""


async def test_a_refusal_reaches_a_client_that_still_sends_its_body(server: Served) -> None:
    async with dial(server.port) as client:
        client.send((HEAD % b"/refuse").replace(b"Length: 4", b"Length: 900000") + b"x" * 900_000)
        assert (await client.response()).status == 401


async def test_the_body_of_a_refused_request_is_never_the_next_request(server: Served) -> None:
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: gw.example\r\n\r\n"
    async with dial(server.port) as client:
        client.send((HEAD % b"/refuse").replace(b"Length: 4", b"Length: %d" % len(smuggled)))
        assert (await client.response()).status == 401
        client.send(smuggled)
        assert await client.until_closed() == b""
    assert server.recording_app.heads == []


async def test_continue_is_never_sent_to_http_1_0(server: Served) -> None:
    async with dial(server.port) as client:
        client.send((HEAD % b"/echo").replace(b"HTTP/1.1", b"HTTP/1.0") + b"body")
        assert (await client.until_closed()).startswith(b"HTTP/1.0 200")
