"""The errors of the client when the gateway cannot be reached."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.client import AsyncClient, Client, GatewayError, ProviderError, Unreachable
from gateway.client.client_errors import unreachable_error

Response = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server_that_writes(response: Response) -> AsyncIterator[str]:
    """Run a server that writes `response` to each request. Yield its URL."""
    tasks = set[asyncio.Task[None] | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            await reader.readuntil(b"\r\n\r\n")
            await response(writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield "http://{}:{}".format(*server.sockets[0].getsockname())
        for task in tasks:
            if task is not None:
                task.cancel()


async def message_of(url: str, silence_s: float = 30) -> str:
    async with AsyncClient(url, "k" * 16, silence_s=silence_s) as client:
        with pytest.raises(Unreachable) as raised:
            await client.list_integrations()
    assert str(raised.value).startswith(f"no response from the gateway at {url}: {raised.value.cause}; ")
    assert "Error(" not in str(raised.value)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_error_for_a_refused_connection_has_the_next_step(host: str, unused_tcp_port: int) -> None:
    output = await message_of(f"http://{host}:{unused_tcp_port}")
    assert "nothing listens at this address" in output
    assert "`gateway serve`" in output
    assert "('" not in output


async def test_error_for_an_unknown_host_names_the_host() -> None:
    assert "no host with the name 'no-such-host.invalid'" in await message_of("http://no-such-host.invalid:3003")


async def test_server_that_is_not_a_gateway_is_reported() -> None:
    async def write_ssh_banner(writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await writer.drain()

    async def hang_up(_: asyncio.StreamWriter) -> None:
        return

    async def wait(_: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with server_that_writes(write_ssh_banner) as url:
        assert "something other than a valid HTTP response" in await message_of(url)
    async with server_that_writes(hang_up) as url:
        assert "it closed the connection without a response" in await message_of(url)
    async with server_that_writes(wait) as url:
        assert "silence_s" in await message_of(url, silence_s=0.05)


async def test_error_of_a_server_that_is_not_a_gateway_says_so() -> None:
    async def not_found(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\nConnection: close\r\n\r\nnothing")
        await writer.drain()

    not_a_gateway = r"^the server is not a gateway: its response \(404 Not Found\) has no Gateway-Request-Id; "
    async with server_that_writes(not_found) as url, AsyncClient(url, "k" * 16) as client:
        with pytest.raises(GatewayError, match=not_a_gateway) as refused:
            await client.list_integrations()
        assert refused.value.code == ""
        response = await client.get("/x", provider_config_key="jira", connection_id="c1")
        with pytest.raises(ProviderError, match=not_a_gateway):
            response.raise_for_status()


def test_several_addresses_are_not_reported_as_tuples() -> None:
    several = OSError(
        "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), [Errno 111] ('127.0.0.1', 1)"
    )
    assert "('" not in str(unreachable_error("http://localhost:1", several))


@pytest.mark.parametrize("url", ["http://gw:3003/proxy", "https://gw.example.com/proxy/"])
def test_url_of_the_proxy_is_refused_immediately(url: str) -> None:
    """The client adds /proxy, so that the provider would get /proxy at the beginning of each path, and return 404."""
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match=r"ends with /proxy, which the client adds; write 'https?://gw[^/]*'"):
            kind(url, "k" * 16)


@pytest.mark.parametrize("url", ["localhost:3003", "127.0.0.1:3003", "", "http://", "http://gw:99999", "ftp://gw"])
def test_invalid_url_is_refused_immediately(url: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="is not the URL of a gateway; write it with http:// or https://"):
            kind(url, "k" * 16)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "secret_key is empty"),
        (" \n", "secret_key is empty"),
        ("sk-0123456789abcdef\n", "secret_key ends with a line break; remove it with .strip()"),
        ("sk-01234567\n89abcdef", "secret_key contains a line break or another control character"),
    ],
)
def test_invalid_secret_key_is_refused_immediately_and_not_shown(key: str, message: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match=message) as raised:
            kind("http://127.0.0.1:3003", key)
        assert "0123" not in str(raised.value)


def test_a_variable_that_is_not_set_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GATEWAY_SECRET_KEY", raising=False)
    missing: Any = os.environ.get("GATEWAY_SECRET_KEY")
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="secret_key is None; check that the environment variable is set"):
            kind("http://127.0.0.1:3003", missing)
        with pytest.raises(ValueError, match="base_url is None; check that the environment variable is set"):
            kind(missing, "k" * 16)
