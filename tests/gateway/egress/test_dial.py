"""From a name to an open connection: addresses, TLS and its sessions, errors of the outbound proxy."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.egress import dial
from gateway.egress.dial import NameResolver
from gateway.egress.egress_errors import EgressError
from gateway.records.proxied_call import UpstreamRequest
from tests.fakes.certificate import tls_contexts
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import OK, raw_provider, read_message
from tests.gateway.egress.test_client import HOST, addresses
from tests.gateway.egress.test_pool import open_egress, read_all

__all__ = ["addresses"]


@asynccontextmanager
async def tls_provider(server: ssl.SSLContext, response: bytes, seen: list[ssl.SSLObject]) -> AsyncIterator[int]:
    """Respond to each request. After a response without a length, close without TLS's close_notify."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("ssl_object"))
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            while True:
                head, _ = await read_message(reader)
                writer.write(response)
                await writer.drain()
                if b"/cut" in head:
                    with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as beneath:
                        beneath.shutdown(socket.SHUT_RDWR)
                    writer.close()
                    return
                if b"/close" in head:
                    break
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await listening.wait_closed()


def request_to(port: int, target: str = "/") -> UpstreamRequest:
    return UpstreamRequest("GET", "https", HOST, port, target)


async def test_a_session_is_resumed_on_the_next_connection(addresses: dict[str, list[str]], tmp_path: Path) -> None:
    server, trusting = tls_contexts(HOST, tmp_path)
    seen: list[ssl.SSLObject] = []
    last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    async with tls_provider(server, last, seen) as port, open_egress(tls=trusting) as egress:
        for _ in range(3):
            assert await read_all(await egress.send(request_to(port))) == b"ok"
    assert [inside.session_reused for inside in seen] == [False, True, True]
    assert seen[0].version() == "TLSv1.3"
    assert trusting.minimum_version >= ssl.TLSVersion.TLSv1_2


async def test_verification_cannot_be_turned_off_by_the_context(
    addresses: dict[str, list[str]], tmp_path: Path
) -> None:
    server, _ = tls_contexts(HOST, tmp_path)
    lax = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    lax.check_hostname, lax.verify_mode = False, ssl.CERT_NONE
    async with tls_provider(server, OK, []) as port, open_egress(tls=lax) as egress:
        with pytest.raises(EgressError) as failure:
            await egress.send(request_to(port))
    assert failure.value.kind == "tls"


async def test_body_that_ends_with_the_connection_needs_the_end_of_tls(
    addresses: dict[str, list[str]], tmp_path: Path
) -> None:
    server, trusting = tls_contexts(HOST, tmp_path)
    async with tls_provider(server, b"HTTP/1.1 200 OK\r\n\r\nabc", []) as port, open_egress(tls=trusting) as egress:
        assert await read_all(await egress.send(request_to(port, "/close"))) == b"abc"
        with pytest.raises(EgressError, match="broke off"):
            await read_all(await egress.send(request_to(port, "/cut")))


async def test_the_next_address_is_tried_when_one_does_not_respond(addresses: dict[str, list[str]]) -> None:
    addresses[HOST] = ["127.0.0.2", "127.0.0.1"]  # nobody listens on the first
    async with raw_provider() as provider, open_egress() as egress:
        request = UpstreamRequest("GET", "http", HOST, provider.port, "/")
        assert await read_all(await egress.send(request)) == b"ok"


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nearly",
        b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere\r\n\r\n",
        b"nothing of HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20_000,
        b"",
    ],
)
async def test_proxy_that_refuses_the_tunnel_gets_no_part_of_the_request(
    addresses: dict[str, list[str]], response: bytes
) -> None:
    received: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(response)
        if response:
            received.append(await reader.read())

    async with raw_provider(script) as proxy, open_egress(proxy=f"http://127.0.0.1:{proxy.port}") as egress:
        with pytest.raises(EgressError, match="outbound proxy did not open") as failure:
            await egress.send(request_to(443))
        await asyncio.wait_for(proxy.left.wait(), PATIENCE_S)
    assert failure.value.kind == "unreachable"
    assert received[0] == b"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n\r\n"
    assert received[1:] in ([], [b""])


async def test_concurrent_lookups_of_one_name_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []

    def look_up(host: str, _port: int) -> list[str]:
        looked_up.append(host)
        return ["127.0.0.1"]

    monkeypatch.setattr(dial, "_look_up", look_up)
    looking = NameResolver()
    first = asyncio.create_task(looking.addresses(HOST, 443))
    await asyncio.sleep(0)
    others = [asyncio.create_task(looking.addresses(HOST, 443)) for _ in range(20)]
    first.cancel()
    assert await asyncio.gather(*others) == [["127.0.0.1"]] * 20
    assert len(looked_up) <= 2
    looking.close()
