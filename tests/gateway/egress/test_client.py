"""Egress on real sockets: names, TLS, the outbound proxy, and small responses that are read completely."""

import asyncio
import contextlib
import gzip
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.egress import dial
from gateway.egress.client import Egress, RetiredEgress, Timeouts
from gateway.egress.egress_errors import EgressError
from gateway.egress.guard import Guard
from gateway.records.proxied_call import UpstreamRequest
from tests.fakes.certificate import tls_contexts
from tests.fakes.patience import PATIENCE_S
from tests.fakes.proxy_end import LOOPBACK, OpenNetwork
from tests.fakes.raw_provider import raw_provider, read_message

HOST = "api.example.test"


@asynccontextmanager
async def open_egress(guard: Guard | None = None, **options: object) -> AsyncIterator[Egress]:
    egress = Egress(guard or Guard(LOOPBACK), **options)  # type: ignore[arg-type]
    try:
        yield egress
    finally:
        await egress.close()


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The addresses of the names that resolve; no other name does."""
    known: dict[str, list[str]] = {HOST: ["127.0.0.1"]}

    def look_up(host: str, _port: int) -> list[str]:
        if host not in known:
            raise OSError("unknown")
        return known[host]

    monkeypatch.setattr(dial, "_look_up", look_up)
    return known


@asynccontextmanager
async def tls_provider(server: ssl.SSLContext) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            while True:
                await read_message(reader)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecure")
        writer.transport.abort()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        await listening.wait_closed()


async def wait_until_resolved() -> None:
    """Wait until no DNS thread is left."""
    async with asyncio.timeout(PATIENCE_S):
        while any(thread.name.startswith("resolve") for thread in threading.enumerate()):
            await asyncio.sleep(0.001)


async def test_a_replaced_egress_serves_its_running_requests_and_is_then_dropped(
    addresses: dict[str, list[str]],
) -> None:
    retired = RetiredEgress()
    async with raw_provider() as provider, open_egress() as former:
        url = f"http://{HOST}:{provider.port}/"
        assert (await former.fetch("GET", url)).body == b"ok"
        retired.add(former)
        async with asyncio.timeout(PATIENCE_S):
            while list(retired):  # until the former egress has closed its last connection
                await asyncio.sleep(0)
        await wait_until_resolved()
        assert (await former.fetch("GET", url)).body == b"ok", "a request that began before the reload can still send"
        await wait_until_resolved()
        assert list(former.load()) == []


async def test_a_small_response_is_read_whole_and_decoded() -> None:
    body = gzip.compress(b'{"access_token": "at"}')
    head = f"HTTP/1.1 400 Bad\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\nX-A: 1\r\nX-A: 2\r\n\r\n"
    async with raw_provider(head.encode() + body) as provider, open_egress() as egress:
        form = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        response = await egress.fetch("POST", f"{provider.origin}/token?a=%2F", headers=form, body=b"grant_type=x")
    assert (response.status, response.body) == (400, b'{"access_token": "at"}')
    assert response.headers.getall("x-a") == ["1", "2"]
    assert provider.request_line() == "POST /token?a=%2F HTTP/1.1"
    assert provider.lines()[1:] == [
        "Content-Type: application/x-www-form-urlencoded",
        "Accept: application/json",
        "User-Agent: integration-gateway",
        "Content-Length: 12",
    ]
    assert provider.bodies == [b"grant_type=x"]


async def test_redirects_are_responses_and_cookies_are_not_kept() -> None:
    redirect = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n"
    async with raw_provider(redirect) as provider, open_egress() as egress:
        assert (await egress.fetch("GET", f"{provider.origin}/a")).status == 302
        await egress.fetch("GET", f"{provider.origin}")
    assert [provider.request_line(0), provider.request_line(1)] == ["GET /a HTTP/1.1", "GET / HTTP/1.1"]
    assert provider.connections == 1
    assert not any(line.startswith("Cookie") for line in provider.lines())


@pytest.mark.parametrize("head", ["Content-Length: 2000", "Transfer-Encoding: chunked"])
async def test_reading_stops_at_the_size_limit(head: str) -> None:
    body = bytes(2000) if "Length" in head else b"7d0\r\n" + bytes(2000) + b"\r\n0\r\n\r\n"
    async with raw_provider(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode() + body) as provider, open_egress() as egress:
        with pytest.raises(EgressError) as failure:
            await egress.fetch("GET", provider.origin, limit_bytes=1999)
    assert failure.value.kind == "too_large"


@pytest.mark.parametrize(("once", "received"), [(False, 3), (True, 2)])
async def test_request_that_may_be_sent_only_once_uses_no_idle_connection(once: bool, received: int) -> None:
    """The provider closes an idle connection, possibly after it has read and executed the request."""
    requests = list[int]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            for number in range(2):
                await read_message(reader)
                requests.append(number)
                if number == 0:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/token?refresh_token=r"
    async with open_egress() as egress:
        for _ in range(2):
            assert (await egress.fetch("GET", url, once=once)).status == 200
    listening.close()
    assert len(requests) == received


async def test_fetch_ends_at_its_time_limit() -> None:
    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_provider(silent) as provider, open_egress() as egress:
        with pytest.raises(EgressError) as failure:
            await egress.fetch("GET", provider.origin, timeout_s=0.1)
        await asyncio.wait_for(provider.left.wait(), PATIENCE_S)
    assert failure.value.kind == "timeout"


@pytest.mark.parametrize("url", ["ftp://a", "https://u:p@a/", "http://8.8.8.8/", "https://10.0.0.1", "https://[::1]/"])
async def test_forbidden_address_is_refused_before_a_socket_is_created(url: str) -> None:
    async with open_egress() as egress:
        with pytest.raises(EgressError) as failure:
            await egress.fetch("GET", url)
    assert failure.value.kind == "refused"


async def test_a_name_is_refused_if_any_of_its_addresses_is(addresses: dict[str, list[str]]) -> None:
    addresses["mixed.test"] = ["127.0.0.1", "10.0.0.1"]
    addresses["inside.test"] = ["10.0.0.1"]
    async with raw_provider() as provider, open_egress() as egress:
        for host in ("mixed.test", "inside.test"):
            for scheme in ("http", "https"):
                with pytest.raises(EgressError) as failure:
                    await egress.fetch("GET", f"{scheme}://{host}:{provider.port}/")
                assert failure.value.kind == "refused"
        assert (await egress.fetch("GET", f"http://{HOST}:{provider.port}/")).body == b"ok"
    assert provider.connections == 1
    assert provider.lines()[0] == f"Host: {HOST}:{provider.port}"


async def test_a_name_without_an_address_is_unreachable_and_a_slow_one_times_out(
    addresses: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    async with open_egress() as egress:
        with pytest.raises(EgressError) as failure:
            await egress.fetch("GET", "https://nowhere.test/")
        assert failure.value.kind == "unreachable"
        release = threading.Event()
        monkeypatch.setattr(dial, "_look_up", lambda _host, _port: [str(release.wait(5))])
        monkeypatch.setattr(dial, "LIMIT_S", 0.05)
        with pytest.raises(EgressError) as failure:
            await egress.fetch("GET", "https://slow.test/")
        release.set()
        assert failure.value.kind == "timeout"


async def test_tls_is_verified_against_the_name(addresses: dict[str, list[str]], tmp_path: Path) -> None:
    server, trusting = tls_contexts(HOST, tmp_path)
    addresses["other.test"] = ["127.0.0.1"]
    async with tls_provider(server) as port:
        async with open_egress(tls=trusting) as egress:
            assert (await egress.fetch("GET", f"https://{HOST}:{port}/")).body == b"secure"
            with pytest.raises(EgressError) as wrong_name:
                await egress.fetch("GET", f"https://other.test:{port}/")
        async with open_egress() as egress:
            with pytest.raises(EgressError) as unknown_issuer:
                await egress.fetch("GET", f"https://{HOST}:{port}/")
    assert wrong_name.value.kind == unknown_issuer.value.kind == "tls"
    assert "mismatch" in wrong_name.value.message
    assert "self-signed" in unknown_issuer.value.message


async def test_server_without_tls_is_reported_as_a_tls_error() -> None:
    async def write_plain_text(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"plain text\r\n\r\n")
        await writer.drain()

    async with raw_provider(write_plain_text) as provider, open_egress() as egress:
        with pytest.raises(EgressError) as failure:
            await egress.fetch("GET", f"https://127.0.0.1:{provider.port}/", timeout_s=30)
    assert failure.value.kind == "tls"


async def test_through_the_outbound_proxy_the_tunnel_goes_to_the_checked_address(
    addresses: dict[str, list[str]], tmp_path: Path
) -> None:
    server, trusting = tls_contexts(HOST, tmp_path)
    requests: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        target_reader, out = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while piece := await source.read(65536):
                    sink.write(piece)

        copies = [asyncio.create_task(copy(reader, out)), asyncio.create_task(copy(target_reader, writer))]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in copies:
                task.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
            out.close()

    async with (
        tls_provider(server) as port,
        raw_provider(proxy) as outbound,
        open_egress(tls=trusting, proxy=f"http://user:pass@127.0.0.1:{outbound.port}") as egress,
    ):
        response = await egress.fetch("GET", f"https://{HOST}:{port}/x")
        addresses["inside.test"] = ["10.0.0.1"]
        with pytest.raises(EgressError) as failure:
            await egress.fetch("GET", "https://inside.test/")
    assert response.body == b"secure"
    assert requests[0].startswith(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n".encode())
    assert b"Proxy-Authorization: Basic dXNlcjpwYXNz" in requests[0]
    assert failure.value.kind == "refused"
    assert len(requests) == 1


async def test_proxy_variables_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    async with raw_provider() as provider, open_egress() as egress:
        assert (await egress.fetch("GET", provider.origin)).status == 200


async def test_ipv6_is_written_in_brackets() -> None:
    opened = Guard([OpenNetwork(ipaddress.ip_network("::1/128"))])
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    try:
        listening = await asyncio.start_server(serve, "::1", 0)
    except OSError:
        pytest.skip("no IPv6 here")
    port = listening.sockets[0].getsockname()[1]
    async with open_egress(opened) as egress:
        await egress.fetch("GET", f"http://[::1]:{port}/x")
    listening.close()
    await listening.wait_closed()
    assert heads[0].startswith(f"GET /x HTTP/1.1\r\nHost: [::1]:{port}\r\n".encode())


async def test_opening_a_connection_has_a_time_limit(addresses: dict[str, list[str]]) -> None:
    import socket

    # A listener whose backlog is full accepts nothing more.
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    port = listener.getsockname()[1]
    fillers = [socket.socket() for _ in range(4)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(("127.0.0.1", port))
    try:
        async with open_egress(timeouts=Timeouts(connect_s=0.3)) as egress:
            with pytest.raises(EgressError) as failure:
                await egress.send(UpstreamRequest("GET", "http", "127.0.0.1", port, "/"))
    finally:
        for listening in [listener, *fillers]:
            listening.close()
    assert failure.value.kind == "timeout"


async def test_response_received_during_a_stall_of_the_process_is_read() -> None:
    """After a pause of the process or the machine, the time limit is over but the response is already in the socket."""
    request_arrived, response = threading.Event(), threading.Event()
    written = threading.Event()

    def serve(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            request_arrived.set()
            response.wait(PATIENCE_S)
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
            written.set()
            peer.recv(1)

    limit_s = 1.0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(asyncio.to_thread(serve, listener))
        async with open_egress() as egress:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/token"
            asking = asyncio.create_task(egress.fetch("POST", url, body=b"x", timeout_s=limit_s))
            assert await asyncio.to_thread(request_arrived.wait, PATIENCE_S)
            response.set()
            assert written.wait(PATIENCE_S)  # blocks the thread, and so the event loop
            time.sleep(limit_s)  # noqa: ASYNC251 (the stall)
            assert (await asking).body == b"late"
        await serving


async def test_abandoned_request_is_not_delivered_later() -> None:
    """The kernel keeps sending a closed socket's data, for minutes if the network is down: perhaps a refresh token."""
    body = b"x" * 40_000
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        async with open_egress() as egress:
            with pytest.raises(EgressError) as failure:
                await egress.fetch("POST", f"http://127.0.0.1:{listener.getsockname()[1]}/", body=body, timeout_s=0.1)
        assert failure.value.kind == "timeout"
        delivered = await asyncio.to_thread(_read_to_end, listener)
    assert len(delivered) < len(body)


def _read_to_end(listener: socket.socket) -> bytes:
    connection, _ = listener.accept()
    delivered = b""
    with connection, contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            delivered += piece
    return delivered
