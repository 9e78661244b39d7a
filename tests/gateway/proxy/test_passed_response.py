"""The gateway passes on the provider's response with its own framing. A truncated response never looks complete."""

import asyncio
import gzip
import re
import socket
import struct
from typing import Any

import pytest
from aiohttp import web

from gateway.connections.opened import Placement
from gateway.egress.client import Timeouts
from gateway.proxy import forward
from tests.fakes.patience import PATIENCE_S
from tests.fakes.proxy_end import PUBLIC_URL, gateway_to, opened_at
from tests.fakes.raw_provider import Script, raw_provider, read_message

OURS = "Host: gw\r\nAuthorization: Bearer k\r\nProvider-Config-Key: tracker\r\nConnection-Id: u1"


def head_of(response: bytes) -> list[str]:
    return response.partition(b"\r\n\r\n")[0].decode("utf-8", "surrogateescape").split("\r\n")


async def bytes_to_caller(
    response: bytes, *lines: str, method: str = "GET", close: bool = False, **connection: Any
) -> bytes:
    """Return the bytes that the caller receives when the provider sends `response`."""
    async with (
        raw_provider(response, close=close) as provider,
        gateway_to(opened_at(provider.port, **connection)) as gateway,
    ):
        return await gateway.call("/proxy/x", *lines, method=method)


async def test_status_reason_fields_and_body_pass_as_they_are() -> None:
    raw = await bytes_to_caller(
        b"HTTP/1.1 299 Quite Fine\r\nserver: theirs\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nx-A: 1\r\nX-a: 2\r\n"
        b'X-Latin: caf\xe9\r\nETag: "v1"\r\nContent-Length: 3\r\n\r\nabc'
    )
    assert re.sub(rb"Server-Timing: [^\r]+\r\n", b"", raw) == (
        b"HTTP/1.1 299 Quite Fine\r\nserver: theirs\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nx-A: 1\r\nX-a: 2\r\n"
        b'X-Latin: caf\xe9\r\nETag: "v1"\r\nX-Content-Type-Options: nosniff\r\nContent-Security-Policy: sandbox\r\n'
        b"Vary: Authorization, Connection-Id, Provider-Config-Key, Base-Url-Override\r\n"
        b"Gateway-Request-Id: req-1\r\nGateway-Attempts: 1\r\nContent-Length: 3\r\n"
        b"Connection: close\r\n\r\nabc"
    )


async def test_only_framing_a_date_and_headers_of_the_gateway_are_added() -> None:
    names = [
        line.partition(":")[0]
        for line in head_of(await bytes_to_caller(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"))
    ]
    guard = ["X-Content-Type-Options", "Content-Security-Policy", "Vary"]
    ours = [*guard, "Gateway-Request-Id", "Gateway-Attempts", "Server-Timing"]
    assert names[1:] == [*ours, "Content-Length", "Connection", "Date"]


async def test_site_wide_and_hop_by_hop_fields_are_dropped() -> None:
    response = await bytes_to_caller(
        b"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nStrict-Transport-Security: x\r\n"
        b"Access-Control-Allow-Origin: *\r\nClear-Site-Data: *\r\nAlt-Svc: h3\r\nNEL: {}\r\nReport-To: {}\r\n"
        b"Accept-CH: x\r\nCritical-CH: x\r\nOrigin-Agent-Cluster: ?1\r\nSet-Login: logged-out\r\nX-Content-Type-Options: x\r\n"
        b"Service-Worker-Allowed: /\r\nSet-Cookie: a=b\r\nGateway-Error: forged\r\nGateway_Error: forged\r\n"
        b"X-Accel-Redirect: /etc\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n"
    )
    ours = ("Date", "Gateway-Request-Id", "Gateway-Attempts", "Server-Timing")
    ours += ("X-Content-Type-Options: nosniff", "Content-Security-Policy: sandbox", "Vary: Authorization, ")
    assert [line for line in head_of(response)[1:] if not line.startswith(ours)] == [
        "WWW-Authenticate: Bearer",
        "Content-Length: 0",
        "Connection: close",
    ]


async def test_cookies_are_passed_on_if_the_integration_enables_it() -> None:
    cookies = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; HttpOnly\r\nSet-Cookie: c=d\r\nContent-Length: 0\r\n\r\n"
    assert [line for line in head_of(await bytes_to_caller(cookies, forward_set_cookie=True)) if "Cookie" in line] == [
        "Set-Cookie: a=b; HttpOnly",
        "Set-Cookie: c=d",
    ]


async def test_links_below_the_providers_base_url_are_rewritten_to_the_gateway() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        origin = f"http://127.0.0.1:{writer.get_extra_info('sockname')[1]}"
        writer.write(
            f"HTTP/1.1 302 Found\r\nLocation: {origin}/v1/next?a=1#f\r\nContent-Location: /v1/here\r\n"
            f'Link: <{origin}/v1/p?page=2>; rel="next"; title="<{origin}/v1/>", '
            f"<{origin}/v2/p>; rel=a, <?p=1>; rel=b\r\n"
            "Content-Length: 0\r\n\r\n".encode()
        )

    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port, "/v1")) as gateway:
        lines = head_of(await gateway.call())
    assert f"Location: {PUBLIC_URL}/proxy/next?a=1#f" in lines
    assert f"Content-Location: {PUBLIC_URL}/proxy/here" in lines
    assert (
        f'Link: <{PUBLIC_URL}/proxy/p?page=2>; rel="next"; title="<{provider.origin}/v1/>", '
        f"<{provider.origin}/v2/p>; rel=a, <?p=1>; rel=b"
    ) in lines


async def test_a_link_that_repeats_the_requested_url_does_not_show_the_credential() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await read_message(reader)
        target = head.split(b" ")[1]
        writer.write(b"HTTP/1.1 200 OK\r\nLink: <%s&page=2>; rel=next\r\nContent-Length: 0\r\n\r\n" % target)

    placement = Placement(query_slots=(("api%20key", "s3cr3t"),))
    async with raw_provider(echo) as provider, gateway_to(opened_at(provider.port, "/v1", placement)) as gateway:
        response = await gateway.call("/proxy/p?q=%2F")
    assert f"Link: <{PUBLIC_URL}/proxy/p?q=%2F&page=2>; rel=next\r\n".encode() in response
    assert b"s3cr3t" not in response


@pytest.mark.parametrize(
    ("response", "method", "length"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", "HEAD", "12"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HEAD", None),
        (b'HTTP/1.1 304 Not Modified\r\nContent-Length: 12\r\nETag: "a"\r\n\r\n', "GET", "12"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "GET", None),
    ],
)
async def test_responses_without_a_body_keep_their_framing(response: bytes, method: str, length: str | None) -> None:
    got = await bytes_to_caller(response, method=method)
    assert got.endswith(b"\r\n\r\n")
    lengths = [line.partition(": ")[2] for line in head_of(got) if line.startswith("Content-Length")]
    assert lengths == ([] if length is None else [length])
    assert b"Transfer-Encoding" not in got


async def test_a_chunked_response_is_chunked_again_and_one_to_http_1_0_ends_with_the_connection() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nX-Trailer: t\r\n\r\n"
    assert (await bytes_to_caller(chunked)).endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    async with raw_provider(chunked) as provider, gateway_to(opened_at(provider.port)) as gateway:
        old = await gateway.raw(f"GET /proxy/x HTTP/1.0\r\n{OURS}\r\n\r\n".encode())
    assert old.startswith(b"HTTP/1.0 200 OK\r\n")
    assert old.endswith(b"\r\n\r\nabc")
    assert b"Transfer-Encoding" not in old


async def test_interim_responses_are_swallowed() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    assert (await bytes_to_caller(early + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")).startswith(
        b"HTTP/1.1 200 OK\r\n"
    )


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"this is not HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
    ],
)
async def test_a_response_that_is_not_clean_http_is_a_502(response: bytes) -> None:
    got = await bytes_to_caller(response, close=True)
    assert got.startswith(b"HTTP/1.1 502")
    assert b"Gateway-Error: upstream_" in got


def breaks_off(sent: bytes, then: bytes, seen: asyncio.Event) -> Script:
    """Send the beginning of a response. When the caller has received it, send `then`, or a reset if `then` is
    ``RESET``.
    """

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sent)
        await seen.wait()
        if then == b"RESET":
            lingering = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingering)
            writer.transport.abort()
        else:
            writer.write(then)

    return script


@pytest.mark.parametrize("then", [b"", b"zz\r\n", b"RESET"])
@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nabc",
    ],
)
@pytest.mark.parametrize("version", ["1.1", "1.0"])
async def test_a_response_that_breaks_off_never_ends_cleanly(sent: bytes, then: bytes, version: str) -> None:
    if b"/1.0 200" in sent and then != b"RESET":
        pytest.skip("without a declared length, closing the connection is a valid end")
    seen = asyncio.Event()
    async with raw_provider(breaks_off(sent, then, seen)) as provider, gateway_to(opened_at(provider.port)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(f"GET /proxy/x HTTP/{version}\r\n{OURS}\r\n\r\n".encode())
        got = await reader.readuntil(b"abc")
        seen.set()
        torn = False
        try:
            got += await reader.read()
        except ConnectionResetError:
            torn = True
        writer.close()
    assert got.startswith(f"HTTP/{version} 200 OK".encode())
    declared = b"Content-Length: 10" in got or b"chunked" in got
    assert torn or declared
    assert not got.endswith(b"\r\n0\r\n\r\n")


async def test_a_body_that_ends_with_a_clean_close_is_complete() -> None:
    assert (await bytes_to_caller(b"HTTP/1.0 200 OK\r\n\r\nabc", close=True)).endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")


async def test_unrequested_bytes_after_a_response_close_their_connection() -> None:
    stray = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    async with raw_provider(stray) as provider, gateway_to(opened_at(provider.port)) as gateway:
        first, second = await gateway.call(), await gateway.call()
    assert first.endswith(b"\r\n\r\nok")
    assert second.endswith(b"\r\n\r\nok")
    assert provider.connections == 2


async def test_unrequested_bytes_between_two_calls_are_not_a_response() -> None:
    seen = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await seen.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")

    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        first = await gateway.call(method="POST")
        seen.set()
        for _ in range(50):  # the bytes arrive within these iterations of the event loop
            await asyncio.sleep(0)
        second = await gateway.call(method="POST")
    assert first.endswith(b"ok")
    assert second.endswith(b"ok")
    assert provider.connections == 2


class RecordedTransport:
    """A client's transport. `written`: what each call of `write` has written."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(bytes(data))
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def pieces_written(script: Script | bytes) -> list[bytes]:
    """Return what the gateway writes to the caller when the provider sends this response, one item for each write."""
    recorded: list[RecordedTransport] = []

    async def end(request: web.Request) -> web.StreamResponse:
        protocol: Any = request.protocol
        protocol.transport = RecordedTransport(protocol.transport)
        recorded.append(protocol.transport)
        return await forward(request)

    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port), end=end) as gateway:
        await gateway.call("/proxy/x")
    return recorded[0].written


async def test_a_head_and_a_body_that_arrive_together_are_written_together() -> None:
    (whole,) = await pieces_written(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab")
    assert whole.startswith(b"HTTP/1.1 200 OK\r\n")
    assert whole.endswith(b"\r\n\r\nab")


async def test_a_head_does_not_wait_for_the_body() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        await more.wait()
        writer.write(b"ab")

    more = asyncio.Event()
    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(f"GET /proxy/x HTTP/1.1\r\nConnection: close\r\n{OURS}\r\n\r\n".encode())
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        more.set()
        assert await reader.read() == b"ab"
        writer.close()


async def test_events_pass_one_by_one_with_buffering_disabled_for_proxies() -> None:
    more = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"9\r\ndata: 1\n\n\r\n")
        await more.wait()
        writer.write(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(f"GET /proxy/x HTTP/1.1\r\nConnection: close\r\n{OURS}\r\n\r\n".encode())
        first = await asyncio.wait_for(reader.readuntil(b"data: 1\n\n\r\n"), PATIENCE_S)
        more.set()
        rest = await reader.read()
        writer.close()
    assert b"X-Accel-Buffering: no" in first
    assert rest == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"


@pytest.mark.parametrize("cancellation", [True, False])
async def test_disconnect_of_the_caller_frees_the_provider(cancellation: bool) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
        await reader.read()

    async with raw_provider(script) as provider:
        options = {"handler_cancellation": cancellation}
        async with gateway_to(opened_at(provider.port), runner_options=options) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(f"GET /proxy/x HTTP/1.1\r\n{OURS}\r\n\r\n".encode())
            await reader.readuntil(b"abc")
            writer.close()
            assert await asyncio.wait_for(provider.left.wait(), PATIENCE_S)


async def test_a_stalled_stream_is_cut() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
        await reader.read()

    async with (
        raw_provider(script) as provider,
        gateway_to(opened_at(provider.port), timeouts=Timeouts(idle_s=0.2)) as gateway,
    ):
        assert (await gateway.call()).endswith(b"\r\n\r\nabc")


async def test_a_closed_idle_connection_is_noticed_and_only_safe_requests_are_sent_again() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        requests.append(await reader.readuntil(b"\r\n\r\n"))  # then the provider closes the connection

    requests: list[bytes] = []
    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        assert (await gateway.call()).endswith(b"ok")
        assert (await gateway.call()).endswith(b"ok")
        assert len(requests) == 1
        response = await gateway.call(method="POST")
        assert response.startswith(b"HTTP/1.1 502")
        assert len(requests) == 2


@pytest.mark.parametrize("asked", [("Decompress: true",), ()])
async def test_a_coded_response_is_decoded_when_asked_and_passes_untouched_otherwise(asked: tuple[str, ...]) -> None:
    coded = gzip.compress(b"plain text")
    response = await bytes_to_caller(
        b'HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nETag: "v"\r\nAccept-Ranges: bytes\r\n'
        + f"Content-Length: {len(coded)}\r\n\r\n".encode()
        + coded,
        *asked,
    )
    if asked:
        assert response.endswith(b"\r\n\r\na\r\nplain text\r\n0\r\n\r\n")
        assert b"Content-Encoding" not in response
        assert b"Content-Length" not in response
        assert b'ETag: W/"v"' in response
        assert b"Vary: Accept-Encoding" in response
    else:
        assert response.endswith(b"\r\n\r\n" + coded)
        assert b"Content-Encoding: gzip" in response


async def test_the_header_wins_over_the_entrys_decompress() -> None:
    coded = gzip.compress(b"x")
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(coded)}\r\n\r\n".encode()
    assert b"Content-Encoding" not in await bytes_to_caller(head + coded, decompress=True)
    assert b"Content-Encoding" in await bytes_to_caller(head + coded, "Decompress: false", decompress=True)


@pytest.mark.parametrize(
    ("start", "method"),
    [("200 OK\r\nContent-Encoding: compress", "GET"), ("206 Partial Content\r\nContent-Encoding: gzip", "GET")],
)
async def test_a_response_that_cannot_be_decoded_passes_unchanged(start: str, method: str) -> None:
    response = await bytes_to_caller(
        f"HTTP/1.1 {start}\r\nContent-Length: 3\r\n\r\nabc".encode(), "Decompress: true", method=method
    )
    assert response.endswith(b"\r\n\r\nabc")
    assert b"Content-Encoding" in response


async def test_a_body_that_is_not_coded_as_it_says_is_a_502() -> None:
    response = await bytes_to_caller(
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 8\r\n\r\nnot gzip", "Decompress: true"
    )
    assert response.startswith(b"HTTP/1.1 502")
    assert b"upstream_protocol" in response


async def test_a_decompression_bomb_is_cut_off_during_decompression() -> None:
    bomb = gzip.compress(b"\0" * (64 << 20))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    response = await bytes_to_caller(head + bomb, "Decompress: true")
    size, end = len(response), response[-8:]
    assert size < 8 << 20
    assert not end.endswith(b"\r\n0\r\n\r\n")


@pytest.mark.parametrize("kind", ["application/x-ndjson", "Application/NDJSON; charset=utf-8", "application/jsonl"])
async def test_json_lines_are_also_sent_immediately(kind: str) -> None:
    response = await bytes_to_caller(
        f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 3\r\n\r\n{{}}\n".encode()
    )
    assert "X-Accel-Buffering: no" in head_of(response)
    assert b"X-Accel" not in await bytes_to_caller(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n"
    )
