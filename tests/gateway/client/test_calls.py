"""Proxied calls with every method, async and sync, and which exception says whether gateway or provider failed."""

import asyncio
import io
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.client import (
    AsyncClient,
    AsyncStream,
    CallFailed,
    Client,
    CutShort,
    GatewayError,
    ProviderError,
    Response,
    Unreachable,
)
from tests.fakes.gateways import SECRET_KEY
from tests.fakes.lists import KEY, PagedGateway, paged
from tests.fakes.patience import PATIENCE_S

METHODS = ["get", "post", "put", "patch", "delete", "head", "options"]
Call = Callable[..., Awaitable[Any]]


async def echo(request: web.Request) -> web.StreamResponse:
    """Return the request; for ``/fail/404`` that status, for ``/cut`` half a response, for ``/slow`` slow pieces."""
    if request.path.startswith("/v1/fail/"):
        return web.json_response({"provider": "no"}, status=int(request.path.rpartition("/")[2]))
    if request.path in ("/v1/cut", "/v1/endless"):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"line 1\nline")
        if request.path == "/v1/endless":
            await asyncio.Event().wait()
        assert request.transport is not None
        request.transport.abort()
        return response
    text = {
        "method": request.method,
        "target": request.raw_path,
        "key": request.headers.get("x-api-key"),
        "type": request.headers.get("Content-Type"),
        "mine": request.headers.get("X-Mine"),
        "body": (await request.read()).decode(),
    }
    return web.json_response(text, headers={"X-Method": request.method})


@pytest.fixture
async def paged_gateway(tmp_path: Path) -> AsyncIterator[PagedGateway]:
    async with paged(tmp_path, echo) as running:
        yield running


@pytest.fixture(params=["async", "sync"])
async def call(request: pytest.FixtureRequest, paged_gateway: PagedGateway) -> AsyncIterator[Call]:
    """Return a function that calls a method of the client: ``await call("get", "/x", …)``. Runs with both clients."""
    names: Any = {"provider_config_key": "tracker", "connection_id": "c1"}
    if request.param == "async":
        async with AsyncClient(paged_gateway.gateway.url, SECRET_KEY, **names) as client:

            async def asynchronous(method: str, *args: Any, **options: Any) -> Any:
                return await getattr(client, method)(*args, **options)

            yield asynchronous
    else:
        with Client(paged_gateway.gateway.url + "/", SECRET_KEY, **names) as blocking:

            async def call_in_thread(method: str, *args: Any, **options: Any) -> Any:
                return await asyncio.to_thread(getattr(blocking, method), *args, **options)

            yield call_in_thread
            await asyncio.to_thread(blocking.close)


async def test_every_method_makes_the_same_proxied_call(call: Call) -> None:
    for method in METHODS:
        response: Response = await call(
            method, endpoint="/a%2Fb?x=1", params={"max": 5, "ids": [1, 2]}, headers={"X-Mine": "1"}
        )
        assert (response.status, response.ok, response.headers["X-Method"]) == (200, True, method.upper())
        assert response.request_id
        if method != "head":
            body = response.json()
            assert body["target"] == "/v1/a%2Fb?x=1&max=5&ids=1&ids=2"
            assert (body["key"], body["mine"], body["body"]) == (KEY, "1", ""), method


async def test_any_method_can_be_named(call: Call) -> None:
    assert (await call("request", "REPORT", "/x")).json()["method"] == "REPORT"


@pytest.mark.parametrize(
    ("body", "arrives", "kind"),
    [
        ({"json": {"a": 1}}, '{"a": 1}', "application/json"),
        ({"data": b"raw"}, "raw", "application/octet-stream"),
        ({"data": {"a": "1", "b": "ü"}}, "a=1&b=%C3%BC", "application/x-www-form-urlencoded"),
        ({"data": "text", "headers": {"Content-Type": "text/csv"}}, "text", "text/csv"),
    ],
)
async def test_a_body_is_json_a_form_or_bytes(call: Call, body: dict[str, Any], arrives: str, kind: str) -> None:
    response = (await call("post", "/x", **body)).json()
    assert (response["body"], response["type"]) == (arrives, kind)


async def test_a_body_may_be_made_while_it_is_sent(call: Call) -> None:
    def pieces() -> Iterator[bytes]:
        for number in range(3):
            yield b"piece %d," % number
            yield b""

    body = (await call("put", "/x", data=pieces(), headers={"Content-Type": "text/csv"})).json()
    assert (body["body"], body["type"]) == ("piece 0,piece 1,piece 2,", "text/csv")
    assert (await call("post", "/x", data=io.BytesIO(b"a file"))).json()["body"] == "a file"


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_exception_of_an_uploaded_iterable_is_raised_unchanged(call: Call, kind: str) -> None:
    def failing_pieces() -> Iterator[bytes]:
        yield b"half"
        raise OSError("the disk is gone")

    async def broken_async() -> AsyncIterator[bytes]:
        yield b"half"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await call("post", "/x", data=failing_pieces() if kind == "plain" else broken_async())
    assert (await call("get", "/x")).status == 200


async def test_a_call_may_name_another_connection(call: Call) -> None:
    assert (await call("get", "/x", connection_id="c2")).status == 200
    with pytest.raises(GatewayError) as refused:
        await call("get", "/x", connection_id="nobody")
    fault = refused.value
    assert (fault.status, fault.code, fault.payload["connection_id"]) == (404, "unknown_connection", "nobody")
    assert "nobody" in fault.message
    assert fault.request_id


async def test_base_url_can_be_overridden_where_allowed(call: Call, paged_gateway: PagedGateway) -> None:
    response = await call("get", "/x", base_url_override=f"{paged_gateway.lists.url}/v2")
    assert response.json()["target"] == "/v2/x"
    with pytest.raises(GatewayError, match="base_url_override_not_allowed"):
        await call("get", "/x", base_url_override="https://evil.example")


async def test_error_contains_every_fault(call: Call) -> None:
    with pytest.raises(GatewayError) as refused:
        await call("get", "/x", headers={"Gateway-Timeout": "never"}, retry_on=[-1])
    assert refused.value.code == "invalid_headers"
    assert {issue["path"][0] for issue in refused.value.errors} == {"retry-on", "gateway-timeout"}


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_error_status_of_the_provider_is_a_response(call: Call, status: int) -> None:
    response: Response = await call("get", f"/fail/{status}")
    assert (response.status, response.json()) == (status, {"provider": "no"})
    if status >= 400:
        with pytest.raises(ProviderError, match='"provider": "no"') as raised:
            response.raise_for_status()
        assert raised.value.response is response
    else:
        assert response.raise_for_status() is response


async def test_truncated_response_raises(call: Call) -> None:
    with pytest.raises(CutShort):
        await call("get", "/cut")


async def test_unreachable_gateway_is_reported(unused_tcp_port: int) -> None:
    async with AsyncClient(
        f"http://127.0.0.1:{unused_tcp_port}", "k", provider_config_key="a", connection_id="b"
    ) as client:
        with pytest.raises(Unreachable, match=str(unused_tcp_port)):
            await client.get("/x")


async def test_invalid_key_is_reported_without_showing_it(paged_gateway: PagedGateway) -> None:
    async with AsyncClient(
        paged_gateway.gateway.url, "sk-wrong-0123456789", provider_config_key="t", connection_id="c"
    ) as client:
        assert "sk-wrong" not in repr(client)
        with pytest.raises(GatewayError, match="unknown_account") as refused:
            await client.get("/x")
        assert isinstance(refused.value, CallFailed)
    assert "sk-wrong" not in repr(Client(paged_gateway.gateway.url, "sk-wrong-0123456789"))


async def test_a_connection_is_read(call: Call) -> None:
    response = await call("get_connection")
    assert (response["connection_id"], response["credentials"]) == ("c1", {"type": "API_KEY", "apiKey": KEY})
    assert (await call("get_connection", "tracker", "c2", force_refresh=True))["connection_id"] == "c2"
    with pytest.raises(GatewayError, match="unknown_connection"):
        await call("get_connection", connection_id="a/b c")


async def test_stream_yields_pieces_as_they_arrive(paged_gateway: PagedGateway) -> None:
    names: Any = {"provider_config_key": "tracker", "connection_id": "c1"}
    async with AsyncClient(paged_gateway.gateway.url, SECRET_KEY, **names) as client:
        async with client.stream("GET", "/endless") as response:
            assert (response.status, response.ok) == (200, True)
            assert await anext(aiter(response.lines())) == b"line 1"
        seen = bytearray()
        async with client.stream("GET", "/cut") as response:
            with pytest.raises(CutShort):
                await append_lines(seen, response)
        assert seen == b"line 1\nline"


async def append_lines(seen: bytearray, response: AsyncStream) -> None:
    async for piece in response:
        seen += piece


async def test_blocking_client_behaves_like_the_async_client(paged_gateway: PagedGateway) -> None:
    def use() -> list[Any]:
        names: Any = {"provider_config_key": "tracker", "connection_id": "c1"}
        with Client(paged_gateway.gateway.url, SECRET_KEY, **names) as client:
            seen: list[Any] = []
            with client.stream("GET", "/endless") as response:
                seen.append(next(iter(response.lines())))
            with client.stream("POST", "/x", data=b"ab") as response:
                seen.append(json.loads(b"".join(response))["body"])
            with client.stream("GET", "/x") as response:
                seen.append(response.whole().json()["method"])
            with pytest.raises(CutShort), client.stream("GET", "/cut") as response:
                list(response)
            return seen

    assert await asyncio.to_thread(use) == [b"line 1", "ab", "GET"]


async def test_client_that_is_closed_within_a_stream_starts_no_second_thread(paged_gateway: PagedGateway) -> None:
    def use() -> list[str]:
        with Client(paged_gateway.gateway.url, SECRET_KEY, provider_config_key="tracker", connection_id="c1") as client:
            with client.stream("GET", "/endless") as response:
                assert next(iter(response.lines())) == b"line 1"
                client.close()
            return [thread.name for thread in threading.enumerate() if thread.name == "gateway-client"]

    assert await asyncio.to_thread(use) == []


async def test_threads_may_share_a_client(paged_gateway: PagedGateway) -> None:
    with Client(paged_gateway.gateway.url, SECRET_KEY, provider_config_key="tracker", connection_id="c1") as client:
        responses = await asyncio.gather(*(asyncio.to_thread(client.get, f"/{number}") for number in range(8)))
        assert [response.json()["target"] for response in responses] == [f"/v1/{number}" for number in range(8)]
        await asyncio.to_thread(client.close)
        assert (await asyncio.to_thread(client.get, "/again")).status == 200
        await asyncio.to_thread(client.close)


FORKED = """
import os, sys
from gateway.client import Client

client = Client(sys.argv[1], sys.argv[2], provider_config_key="tracker", connection_id="c1")
assert client.get("/parent").ok
child = os.fork()
if child == 0:
    os._exit(0 if client.get("/child").ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert client.get("/parent").ok
client.close()
"""


async def test_a_forked_process_starts_its_own_thread(paged_gateway: PagedGateway) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", FORKED, paged_gateway.gateway.url, SECRET_KEY)
    async with asyncio.timeout(PATIENCE_S):
        assert await process.wait() == 0
    assert paged_gateway.lists.seen == ["/v1/parent", "/v1/child", "/v1/parent"]
