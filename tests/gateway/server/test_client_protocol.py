"""A handler receives exactly the bytes of its request, and no bytes of earlier or later requests."""

import asyncio
import gzip
import socket

import pytest
from aiohttp import web

from gateway.errors import StartRefused
from gateway.middleware.facts import CONNECTION, READ_BODY, UPSTREAM
from gateway.server import runner
from gateway.server.runner import refuse_inflated, refuse_without_c_parser
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw import dial, exchange, parsed
from tests.gateway.server.conftest import RecordingApplication, Served, served
from tests.gateway.server.test_refusals import CHUNKED, HOST, get

LAST = b"Connection: close\r\n"


def echo(fields: bytes, body: bytes) -> bytes:
    return b"POST /echo HTTP/1.1\r\n" + HOST + fields + b"\r\n" + body


def names(server: Served, at: int = -1) -> list[bytes]:
    return [name.lower() for name, _ in server.recording_app.heads[at][2]]


@pytest.mark.parametrize(
    ("target", "seen"),
    [
        (b"/a%2Fb%2f%41?x=%2F&y=+", "/a%2Fb%2f%41?x=%2F&y=+"),
        (b"/a?", "/a?"),
        (b"//evil.example/a", "//evil.example/a"),
        (b"/a/../b/./c", "/a/../b/./c"),
        (b"http://gw.example/a%2Fb?c", "/a%2Fb?c"),
        (b"HTTPS://GW.example/a?", "/a?"),
        (b"http://gw.example", "/"),
        (b"http://gw.example?q=/", "/?q=/"),
    ],
)
async def test_the_target_arrives_as_it_was_sent_without_its_origin(server: Served, target: bytes, seen: str) -> None:
    response = parsed(await exchange(server.port, get(target, LAST)))
    assert response.body.decode() == seen


async def test_a_compressed_upload_arrives_as_it_was_sent(server: Served) -> None:
    coded = gzip.compress(b"text" * 100)
    fields = LAST + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n" % len(coded)
    assert parsed(await exchange(server.port, echo(fields, coded))).body == coded


async def test_a_hundred_headers_are_accepted(server: Served) -> None:
    fields = b"".join(b"X-%d: %s\r\n" % (n, b"v" * 100) for n in range(120))
    assert parsed(await exchange(server.port, get(b"/", fields + LAST))).status == 200
    assert len(server.recording_app.heads[0][2]) == 122


@pytest.mark.parametrize("cut", [False, True], ids=["together", "one after the other"])
async def test_trailers_do_not_turn_into_headers_of_the_next_request(server: Served, cut: bool) -> None:
    first = echo(CHUNKED, b"3\r\nabc\r\n0\r\nX-Sum: 1\r\nConnection-Id: stolen\r\n\r\n")
    async with dial(server.port) as client:
        client.send(first if cut else first + get(b"/next", LAST))
        assert (await client.response()).body == b"abc"
        if cut:
            client.send(get(b"/next", LAST))
        assert (await client.response()).body == b"/next"
    assert names(server) == [b"host", b"connection"]


async def test_trailers_in_any_two_pieces_belong_to_their_message(server: Served) -> None:
    data = echo(CHUNKED, b"3\r\nabc\r\n0\r\nConnection-Id: stolen\r\n\r\n") + get(b"/next", LAST)
    for at in range(len(data) - 60, len(data)):
        server.recording_app.heads.clear()
        async with dial(server.port) as client:
            client.send(data[:at])
            await client.writer.drain()
            if at >= len(data) - len(get(b"/next", LAST)):
                await client.response()  # the first piece must be read before the second piece is sent
            client.send(data[at:])
            await client.until_closed()
        assert all(b"connection-id" not in names(server, n) for n in range(len(server.recording_app.heads)))


async def test_one_connection_serves_many_chunked_uploads(server: Served) -> None:
    async with dial(server.port) as client:
        for n in range(5):
            body = b"upload %d \r\n\r\n with empty lines \r\n\r\n" % n
            client.send(echo(CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)))
            assert (await client.response()).body == body


def handlers() -> int:
    """Return how many of aiohttp's handlers run, which is at most one for each client connection."""
    return sum("RequestHandler.start" in repr(task.get_coro()) for task in asyncio.all_tasks())


async def test_a_handler_starts_with_the_first_request_that_needs_it(server: Served) -> None:
    async with dial(server.port) as client, dial(server.port), asyncio.timeout(PATIENCE_S):
        while server.runner.client_connections < 2:
            await asyncio.sleep(0)
        assert handlers() == 0
        client.send(get(b"/one"))
        assert (await client.response()).body == b"/one"
        assert handlers() == 1
        client.send(get(b"/two"))
        assert (await client.response()).body == b"/two"
        assert handlers() == 1


async def test_the_kernel_probes_the_clients_of_connections_that_stay_open(recording_app: RecordingApplication) -> None:
    serving = await served(recording_app, head_s=0.2)
    async with dial(serving.port) as client:
        client.send(get(b"/wait"))
        await asyncio.wait_for(recording_app.entered.wait(), PATIENCE_S)
        (connection,) = serving.runner.servers[0].connections
        assert connection.transport is not None
        sock = connection.transport.get_extra_info("socket")
        async with asyncio.timeout(PATIENCE_S):
            while not sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
                await asyncio.sleep(0)
    await serving.runner.cleanup()


async def test_pipelined_requests_get_responses_in_order(server: Served) -> None:
    uploads = [echo(CHUNKED, b"2\r\n%02d\r\n0\r\n\r\n" % n) + get(b"/%d" % n) for n in range(40)]
    async with dial(server.port) as client:
        client.send(b"".join(uploads))
        for n in range(40):
            assert (await client.response()).body == b"%02d" % n
            assert (await client.response()).body == b"/%d" % n


async def test_few_requests_are_read_ahead_of_the_response_to_an_earlier_request(server: Served) -> None:
    fields = b"X-Long: " + b"x" * 10_000 + b"\r\n"
    async with dial(server.port) as client:
        client.send(get(b"/wait") + b"".join(get(b"/%d" % n, fields) for n in range(40)))
        await server.recording_app.entered.wait()
        (connection,) = server.runner.server.connections  # type: ignore[union-attr]
        async with asyncio.timeout(PATIENCE_S):
            while connection.transport.is_reading():
                await asyncio.sleep(0)
        assert 0 < connection.queued_requests <= 4
        server.recording_app.release.set()
        assert (await client.response()).body == b"waited"
        assert [(await client.response()).body for _ in range(40)] == [b"/%d" % n for n in range(40)]


async def test_an_idle_connection_keeps_no_data_of_its_last_request(server: Served) -> None:
    async with dial(server.port) as client:
        client.send(b"POST /whole HTTP/1.1\r\n" + HOST + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000)
        assert len((await client.response()).body) == 100_000
        server.recording_app.entered.clear()
        client.send(get(b"/wait"))  # when this request is handled, the first is finished
        await server.recording_app.entered.wait()
        assert server.recording_app.last is not None
        request, response = server.recording_app.last
        assert response.body is None
        assert [fact for fact in (READ_BODY, UPSTREAM, CONNECTION) if fact in request] == []
        with pytest.raises(web.PayloadAccessError):
            await request.read()


async def test_a_large_body_of_empty_lines_arrives_complete(server: Served) -> None:
    body = b"\r\n\r\n" * 50_000
    chunks = b"".join(b"%x\r\n%s\r\n" % (4000, body[at : at + 4000]) for at in range(0, len(body), 4000))
    async with dial(server.port) as client:
        client.send(echo(CHUNKED, chunks + b"0\r\n\r\n"))
        assert (await client.response()).body == body
        client.send(get(b"/next"))
        assert (await client.response()).body == b"/next"


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabcX0\r\n\r\n",
        b"3\nabc\r\n0\r\n\r\n",
        b"3 \r\nabc\r\n0\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"-3\r\nabc\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        b"3;" + b"x" * 200_000 + b"\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabc\r\n0\r\n" + b"X: " + b"y" * 20_000 + b"\r\n\r\n",
        b"3\r\nabc\r\n0\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
    ],
    ids=lambda body: repr(body[:24]),
)
@pytest.mark.parametrize("follows", [b"", get(b"/smuggled")], ids=["alone", "with another behind"])
async def test_a_body_framed_wrongly_is_refused(server: Served, body: bytes, follows: bytes) -> None:
    response = parsed(await exchange(server.port, echo(CHUNKED, body + follows)))
    assert (response.status, response.error["code"]) == (400, "bad_framing")
    assert response.headers["connection"] == "close"
    assert response.rest == b""
    assert all(target != "/smuggled" for _, target, _ in server.recording_app.heads)


async def test_chunks_of_one_byte_are_accepted(server: Served) -> None:
    response = parsed(await exchange(server.port, echo(CHUNKED + LAST, b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")))
    assert response.body == b"x" * 20_000


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"


@pytest.mark.parametrize("together", [True, False], ids=["together", "one after the other"])
async def test_an_upgrade_to_another_protocol_is_ignored(server: Served, together: bool) -> None:
    """Java's HttpClient asks for h2c in each request to an http URL, and keeps the connection."""
    async with dial(server.port) as client:
        client.send(get(b"/a", H2C) + (get(b"/b", LAST) if together else b""))
        first = await client.response()
        assert (first.body, first.headers.get("connection")) == (b"/a", None)
        if not together:
            client.send(get(b"/b", LAST))
        assert (await client.response()).body == b"/b"


async def test_an_upgrade_that_reaches_the_parser_with_the_next_request_ends_the_connection(server: Served) -> None:
    """After many empty lines, the parser gets the rest in one piece. It drops the bytes behind an upgrade request."""
    async with dial(server.port) as client:
        client.send(b"\r\n" * 200 + get(b"/a", H2C) + get(b"/b"))
        response = await client.response()
        assert (response.body, response.headers["connection"]) == (b"/a", "close")
        assert await client.until_closed() == b""


@pytest.mark.parametrize(
    ("framing", "body"),
    [(b"Content-Length: 3\r\n", b"abc"), (CHUNKED, b"3\r\nabc\r\n0\r\n\r\n")],
    ids=["a length", "chunks"],
)
async def test_an_upgrade_to_another_protocol_with_a_body_ends_the_connection(
    server: Served, framing: bytes, body: bytes
) -> None:
    """The parser drops the bytes that it gets together with the end of an upgrade request."""
    async with dial(server.port) as client:
        client.send(echo(H2C + framing, body) + get(b"/b"))
        response = await client.response()
        assert (response.body, response.headers["connection"]) == (b"abc", "close")
        assert await client.until_closed() == b""


async def test_a_websocket_is_served() -> None:
    async def talk(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str(await socket.receive_str())
        await socket.close()
        return socket

    import aiohttp

    app = web.Application()
    app.router.add_get("/", talk)
    run = runner(app, drain_s=0)
    await run.setup()
    site = web.TCPSite(run, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession() as http, http.ws_connect(f"http://127.0.0.1:{site.port}/") as socket:
        await socket.send_str("hello")
        assert await socket.receive_str() == "hello"
    await run.cleanup()


async def test_a_client_that_disconnects_before_100_continue_is_not_an_error(
    server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a disconnect logs no traceback. Otherwise any stranger could add 5 KB to the log with each request."""
    request = b"POST /left HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    assert await exchange(server.port, request) == b""
    await server.runner.cleanup()
    assert "unhandled" not in capsys.readouterr().out


async def test_a_response_cut_by_a_crash_does_not_end_cleanly(server: Served) -> None:
    raw = await exchange(server.port, get(b"/torn"))
    assert b"0\r\n\r\n" not in raw


async def test_a_response_cut_by_a_crash_resets_a_client_that_reads_until_close(server: Served) -> None:
    async with dial(server.port) as client:
        client.send(get(b"/torn", version=b"HTTP/1.0"))
        with pytest.raises(ConnectionResetError):
            await client.until_clean_end()


def test_the_gateway_refuses_to_start_without_the_c_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiohttp import http_parser

    monkeypatch.setattr(http_parser, "HttpRequestParser", http_parser.HttpRequestParserPy)
    with pytest.raises(StartRefused, match="C extensions"):
        refuse_without_c_parser()


async def test_a_server_that_decompresses_uploads_does_not_start() -> None:
    async def never(_request: web.BaseRequest) -> web.StreamResponse:
        raise AssertionError

    with pytest.raises(StartRefused, match="decompresses uploads"):
        refuse_inflated(web.Server(never, auto_decompress=True))
    refuse_inflated(web.Server(never, auto_decompress=False))
