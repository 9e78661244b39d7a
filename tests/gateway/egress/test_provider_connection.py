"""Requests to a provider: framed by the gateway, as fast as the provider reads, never more bytes than declared."""

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from multidict import CIMultiDict

from gateway.egress.egress_errors import EgressError
from gateway.egress.provider_connection import ProviderConnection
from gateway.egress.provider_exchange import Body, ProviderResponse
from gateway.http.response_head import ResponseHead
from gateway.records.proxied_call import UpstreamRequest
from tests.fakes.certificate import tls_contexts
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import OK, RawProvider, raw_provider, read_message
from tests.gateway.egress.test_client import HOST, addresses
from tests.gateway.egress.test_pool import open_egress, pieces, pool_of, read_all, request_to

__all__ = ["addresses"]


async def test_head_has_the_given_fields_and_the_gateways_framing() -> None:
    async with raw_provider() as provider, open_egress() as egress:
        request = request_to(provider, "GET", "/a%2Fb?")
        request.headers = CIMultiDict(
            [("b", "1"), ("A", "caf\udce9"), ("B", "2"), ("host", "evil"), ("Transfer-Encoding", "x"), ("EXPECT", "y")]
        )
        await read_all(await egress.send(request))
    assert provider.heads == [
        f"GET /a%2Fb? HTTP/1.1\r\nHost: 127.0.0.1:{provider.port}\r\nb: 1\r\nA: caf".encode() + b"\xe9\r\nB: 2\r\n\r\n"
    ]


@pytest.mark.parametrize(
    ("name", "value", "target", "method"),
    [
        ("X", "a\r\nY: b", "/", "GET"),
        ("X", "a\nb", "/", "GET"),
        ("X", "a\rb", "/", "GET"),
        ("X", "a\x00b", "/", "GET"),
        ("X\r\nY", "a", "/", "GET"),
        ("X", "a", "/ HTTP/1.1\r\nX: y", "GET"),
        ("X", "a", "/a b", "GET"),
        ("X", "a", "/", "GET /x"),
    ],
)
async def test_field_that_would_change_the_message_is_not_sent(name: str, value: str, target: str, method: str) -> None:
    async with raw_provider() as provider, open_egress() as egress:
        request = request_to(provider, method, target)
        request.headers = CIMultiDict([(name, value)])
        with pytest.raises(EgressError, match="was not sent"):
            await egress.send(request)
    assert provider.heads == []


@pytest.mark.parametrize(
    ("parts", "length", "whole_body", "framing", "sent"),
    [
        ([], 0, None, "Content-Length: 0", b""),
        ([b"ab", b"", b"c"], 3, None, "Content-Length: 3", b"abc"),
        ([b"ab", b"", b"c"], None, None, "Transfer-Encoding: chunked", b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"),
        ([], 3, b"abc", "Content-Length: 3", b"abc"),
        ([], None, b"abc", "Transfer-Encoding: chunked", b"3\r\nabc\r\n0\r\n\r\n"),
        ([], None, b"", "Transfer-Encoding: chunked", b"0\r\n\r\n"),
    ],
)
async def test_a_body_is_framed_as_declared(
    parts: list[bytes], length: int | None, whole_body: bytes | None, framing: str, sent: bytes
) -> None:
    async with raw_provider() as provider, open_egress() as egress:
        await read_all(await egress.send(request_to(provider, "POST"), Body(pieces(*parts), length, whole_body)))
        await read_all(await egress.send(request_to(provider)))
    assert provider.lines(0)[1:] == [framing]
    assert provider.bodies[0] == sent
    assert provider.connections == 1


@pytest.mark.parametrize("length", [2, 4])
async def test_a_body_of_another_length_than_declared_is_cut(length: int) -> None:
    async with raw_provider() as provider, open_egress() as egress:
        for body in (Body(pieces(b"abc"), length), Body(pieces(), length, b"abc")):
            with pytest.raises(EgressError) as failure:
                await egress.send(request_to(provider, "POST"), body)
            assert failure.value.kind == "protocol"
    assert provider.bodies == []


async def test_interrupted_body_is_never_complete_at_the_provider() -> None:
    got: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.read())

    async def failing_body() -> AsyncIterator[bytes]:
        yield b"abc"
        raise ConnectionError("the caller left")

    async with raw_provider(script) as provider, open_egress() as egress:
        with pytest.raises(EgressError, match="broke off"):
            await egress.send(request_to(provider, "POST"), Body(failing_body(), None))
        await asyncio.wait_for(provider.left.wait(), PATIENCE_S)
    assert not any(body.endswith(b"0\r\n\r\n") for body in got)


async def test_early_response_is_returned_while_the_body_is_still_sent() -> None:
    more = asyncio.Event()
    ended = asyncio.Event()

    async def paused_body() -> AsyncIterator[bytes]:
        try:
            yield b"abc"
            await more.wait()
            yield b"def"
        finally:
            ended.set()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"abc")
        writer.write(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
        await reader.read()

    async with raw_provider(script) as provider, open_egress() as egress:
        exchange = await egress.send(request_to(provider, "POST"), Body(paused_body(), 6))
        assert (exchange.status, await exchange.read(), await exchange.read()) == (413, b"no", b"")
        exchange.close()  # the rest of the body is not sent, and the connection is not reused
        await asyncio.wait_for(provider.left.wait(), PATIENCE_S)
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
        assert not list(egress.load()) or await egress.send(request_to(provider))


EARLY = b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno"


def respond_and_close(listener: socket.socket) -> None:
    """Respond to a request of which most is unread, and close. The system then resets the connection.

    The event loop runs nothing meanwhile, so the next write to the connection fails.
    """
    with listener.accept()[0] as provider:
        provider.recv(1)
        provider.sendall(EARLY)


@pytest.mark.parametrize(
    ("rest", "length"), [((b"d" * 9, b"e"), 13), ((b"d",), 4)], ids=["in the body", "at its last piece"]
)
async def test_response_before_a_reset_that_fails_the_upload_is_returned(rest: tuple[bytes, ...], length: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        async def body() -> AsyncIterator[bytes]:
            yield b"abc"
            respond_and_close(listener)
            for piece in rest:
                yield piece

        async with open_egress() as egress:
            request = request_to(RawProvider(listener.getsockname()[1]), "POST")
            exchange = await egress.send(request, Body(body(), length))
            assert (exchange.status, await read_all(exchange)) == (413, b"no")


async def test_response_over_tls_before_a_reset_that_fails_the_upload_is_returned(
    addresses: dict[str, list[str]], tmp_path: Path
) -> None:
    server, trusting = tls_contexts(HOST, tmp_path)
    arrived, may_respond = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def respond_over_tls() -> None:
            with server.wrap_socket(listener.accept()[0], server_side=True) as provider:
                provider.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a reset drops what is not sent yet
                provider.recv(1)
                arrived.set()
                may_respond.wait(PATIENCE_S)
                provider.sendall(EARLY)

        async def body() -> AsyncIterator[bytes]:
            yield b"abc"
            while not arrived.is_set():
                await asyncio.sleep(0)
            yield b"d" * 9
            for _ in range(30):  # until these bytes have arrived, which stay unread
                await asyncio.sleep(0)
            may_respond.set()
            thread.join(PATIENCE_S)  # the event loop runs nothing meanwhile
            yield b"e"

        thread = threading.Thread(target=respond_over_tls)
        thread.start()
        async with open_egress(tls=trusting) as egress:
            request = UpstreamRequest("POST", "https", HOST, listener.getsockname()[1], "/")
            exchange = await egress.send(request, Body(body(), 13))
            assert (exchange.status, await read_all(exchange)) == (413, b"no")


async def test_upload_over_tls_uses_one_descriptor_while_its_response_lasts(
    addresses: dict[str, list[str]], tmp_path: Path
) -> None:
    server, trusting = tls_contexts(HOST, tmp_path)

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await reader.read()
        writer.close()

    listening = await asyncio.start_server(stream, "127.0.0.1", 0, ssl=server)
    async with listening, open_egress(tls=trusting) as egress:
        request = UpstreamRequest("POST", "https", HOST, listening.sockets[0].getsockname()[1], "/")
        exchange = await egress.send(request, Body(pieces(b"ab", b"c"), 3))
        assert await exchange.read() == b"a"
        targets = map(os.path.realpath, Path("/proc/self/fd").iterdir())
        sockets = [target for target in targets if "socket:" in target]
        assert len(sockets) == len(set(sockets))
        exchange.close()


class PushingRequest:
    """A request whose body is written piece by piece; `response` is its response."""

    def __init__(self) -> None:
        self.response: asyncio.Future[ProviderResponse] = asyncio.get_running_loop().create_future()

    def sink_for(self, head: ResponseHead) -> None:
        return None

    def on_response(self, response: ProviderResponse | None) -> None:
        assert response is not None
        self.response.set_result(response)

    def on_failure(self, fault: Exception) -> None:
        self.response.set_exception(fault)

    def pause_upload(self) -> None: ...

    def resume_upload(self) -> None: ...


async def test_response_before_a_reset_that_fails_a_fast_path_upload_is_returned() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection, request = ProviderConnection("http://a"), PushingRequest()
        await asyncio.get_running_loop().create_connection(lambda: connection, *listener.getsockname())
        upload = connection.send_with_upload(b"POST / HTTP/1.1\r\n", request, request, method="POST")
        respond_and_close(listener)
        upload.write(b"abc")
        upload.end()
        response = await asyncio.wait_for(request.response, PATIENCE_S)
        assert (response.status, await response.read()) == (413, b"no")


async def test_connection_is_kept_if_the_body_finishes_after_the_response() -> None:
    more = asyncio.Event()

    async def body_with_pause() -> AsyncIterator[bytes]:
        yield b"abc"
        await more.wait()
        yield b"def"

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"abc")
        writer.write(OK)
        await reader.readexactly(3)
        while await read_message(reader):
            writer.write(OK)

    async with raw_provider(script) as provider, open_egress() as egress:
        exchange = await egress.send(request_to(provider, "POST"), Body(body_with_pause(), 6))
        assert await exchange.read() == b"ok"
        more.set()
        pool = pool_of(egress, provider)
        async with asyncio.timeout(PATIENCE_S):
            while not pool.load.idle:
                await asyncio.sleep(0)
        await read_all(await egress.send(request_to(provider)))
    assert provider.connections == 1


async def test_sending_pauses_while_the_provider_does_not_read() -> None:
    taken = 0
    go = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(1024):
            taken += 1
            yield bytes(65536)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await go.wait()
        for _ in range(1024):
            await reader.readexactly(65536)
        writer.write(OK)

    async with raw_provider(script) as provider, open_egress() as egress:
        sending = asyncio.create_task(egress.send(request_to(provider, "POST"), Body(endless(), 1 << 26)))
        seen = -1
        async with asyncio.timeout(PATIENCE_S):
            while seen != taken or not taken:  # until no more is taken
                seen = taken
                for _ in range(200):
                    await asyncio.sleep(0)
        assert taken < 512
        go.set()
        assert await read_all(await sending) == b"ok"
    assert taken == 1024


async def test_head_is_sent_with_the_first_piece_and_never_waits_for_it() -> None:
    first: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first.append(await reader.read(65536))
        writer.write(b"HTTP/1.1 401 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async with raw_provider(script) as provider, open_egress() as egress:
        (await egress.send(request_to(provider, "POST"), Body(pieces(b"abc"), 3))).close()
        exchange = await egress.send(request_to(provider, "POST"), Body(never(), 3))
        exchange.close()
    assert first[0].endswith(b"\r\n\r\nabc")
    assert first[1].endswith(b"Content-Length: 3\r\n\r\n")
