"""The fast path: which requests take it, and that callers cannot notice whether a request took it.

Each test also checks the counters of the fast path. So a test fails if its request went through the middleware chain
instead.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import gateway
from gateway import clock
from gateway.runtime import RUNTIME
from gateway.secret import digest
from gateway.server import client_protocol, known_heads
from gateway.server.fast_path import FORGET_AFTER_S
from tests.fakes.gateways import SECRET_KEY, RunningGateway, document, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import OK, RawProvider, raw_provider, read_message
from tests.wire.bench import Caller, Response

ENTRY = {"display_name": "Acme", "categories": ["other"], "docs": "https://d.example", "auth_mode": "API_KEY"}
HEADERS = {"authorization": "Bearer ${apiKey}"}
NAMES = f"Host: gw\r\nAuthorization: Bearer {SECRET_KEY}\r\nProvider-Config-Key: acme\r\nConnection-Id: c1\r\n".encode()
VARIES = re.compile(rb"(?m)^(Date|Gateway-Request-Id|Server-Timing): .*\r\n")


def get(target: bytes = b"/proxy/x", more: bytes = b"", method: bytes = b"GET") -> bytes:
    return method + b" " + target + b" HTTP/1.1\r\n" + NAMES + more + b"\r\n"


class Client(Caller):
    async def ask(self, request: bytes, *, method: bytes = b"GET") -> Response:
        await self.send(request)
        return await self.response(method)

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")


@asynccontextmanager
async def dial(port: int) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def gateway_to_provider(
    provider: RawProvider, folder: Path, *, fast_path: bool = True, **proxy: Any
) -> AsyncIterator[RunningGateway]:
    """Yield a gateway with connection `c1` to `provider`."""
    write_entry(folder, "acme", {**ENTRY, "proxy": {"base_url": provider.origin, "headers": HEADERS, **proxy}})
    config_text = document([f"127.0.0.1/32:{provider.port}"], acme={"provider": "acme"})
    del config_text["environments"]["dev"]["integrations"]["tracker"]
    running = RunningGateway(folder, config_text, fast_path=fast_path)
    await running.start()
    try:
        credentials = {"type": "API_KEY", "apiKey": "key-of-c1"}
        body = {"provider_config_key": "acme", "connection_id": "c1", "credentials": credentials}
        await running.json("POST", "/connections", json=body, expect=201)
        yield running
    finally:
        await running.stop()


async def warm(running: RunningGateway) -> None:
    """Make the first request. It goes through the middleware chain and opens the connection to the provider."""
    async with running.call_proxy("c1", "/warm", integration="acme", headers={"X-Warm": "1"}) as response:
        assert response.status == 200
        await response.read()


def port_of(running: RunningGateway) -> int:
    return int(running.url.rpartition(":")[2])


async def test_plain_request_takes_the_fast_path_from_the_second_on(tmp_path: Path) -> None:
    async with (
        raw_provider() as provider,
        gateway_to_provider(provider, tmp_path) as running,
        dial(port_of(running)) as client,
    ):
        for _ in range(3):
            assert (await client.ask(get())).status == 200
        assert (running.fast_path.taken, running.fast_path.handed_over) == (2, 0)
        assert provider.connections == 1
        assert provider.heads[0] == provider.heads[1] == provider.heads[2]
        assert b"\r\nauthorization: Bearer key-of-c1\r\n" in provider.heads[2]


async def test_connection_that_is_sealed_in_memory_is_opened_on_the_fast_path(tmp_path: Path) -> None:
    async with (
        raw_provider() as provider,
        gateway_to_provider(provider, tmp_path) as running,
        dial(port_of(running)) as client,
    ):
        for _ in range(2):
            await client.ask(get())
        live = running.runtime.live
        for kept in live._entries.values():
            kept.opened, kept.good_until = None, 0.0  # the sweep does the same after a minute
        for _ in range(2):
            assert (await client.ask(get())).status == 200
        assert running.fast_path.taken == 3
        assert provider.heads[0] == provider.heads[2] == provider.heads[3]
        (kept,) = live._entries.values()
        kept.opened, kept.good_until = None, 0.0
        kept.connection = replace(kept.connection, expires_at=clock.now())
        await client.ask(get())  # the middleware chain handles expired tokens, because it refreshes them
        assert running.fast_path.taken == 3


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(b"Origin: https://a.example\r\n", id="from a script in a browser"),
        pytest.param(b"Gateway-Dry-Run: true\r\n", id="a dry run"),
        pytest.param(b"Gateway-Paginate: all\r\n", id="a whole list"),
        pytest.param(b"Base-Url-Override: https://a.example\r\n", id="another host"),
        pytest.param(b"Connection: keep-alive, x-more\r\n", id="options of its connection"),
        pytest.param(b"Upgrade: websocket\r\nConnection: upgrade\r\n", id="another protocol"),
        pytest.param(b"Expect: 100-continue\r\n", id="an expectation"),
        pytest.param(b"Provider_Config_Key: other\r\nConnection-Id: c2\r\n", id="two connections"),
    ],
)
async def test_requests_with_options_that_only_the_chain_supports_use_the_chain(tmp_path: Path, more: bytes) -> None:
    async with raw_provider() as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.ask(get(more=more))
        assert running.fast_path.taken == 0


@pytest.mark.parametrize("target", [b"/proxy/../x", b"/%70roxy/x", b"/proxyx", b"/proxy/%2e%2e/x", b"/providers"])
async def test_a_path_that_is_not_plain_uses_the_chain(tmp_path: Path, target: bytes) -> None:
    async with raw_provider() as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.ask(get(target))
        assert running.fast_path.taken == 0
        assert len(provider.heads) == 1


async def test_an_absolute_url_below_the_base_gives_the_same_path_on_both_paths(tmp_path: Path) -> None:
    limits = {"display_name": "k", "scopes": ["environment:proxy"], "limits": {"rules": ["GET /a"]}}
    async with (
        raw_provider() as provider,
        gateway_to_provider(provider, tmp_path) as running,
        dial(port_of(running)) as client,
    ):
        minted = await running.json("POST", "/environment/api-keys", json=limits, expect=200)
        secret = minted["data"]["secret"].encode()
        rounds = 0
        while running.fast_path.taken < 2 and rounds < 20:  # a late change notification can send a call to the chain
            rounds += 1
            for path, status in ((b"/a", 200), (b"/b", 403)):
                request = get(b"/proxy/" + provider.origin.encode() + path + b"?x")
                response = await client.ask(request.replace(SECRET_KEY.encode(), secret))
                assert response.status == status
        assert {head.partition(b"\r\n")[0] for head in provider.heads} == {b"GET /a?x HTTP/1.1"}
        assert (len(provider.heads), running.fast_path.taken) == (rounds, 2)


RESPONSES = [
    pytest.param(OK, b"GET", id="plain"),
    pytest.param(OK, b"HEAD", id="to HEAD"),
    pytest.param(b"HTTP/1.1 204 No Content\r\nETag: x\r\n\r\n", b"GET", id="204"),
    pytest.param(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", b"GET", id="304"),
    pytest.param(b"HTTP/1.1 404 Nope\r\nContent-Length: 4\r\n\r\nnope", b"GET", id="404"),
    pytest.param(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", b"GET", id="500"),
    pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", b"GET", id="chunked"),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n: a\r\n0\r\n\r\n",
        b"GET",
        id="events",
    ),
    pytest.param(
        b"HTTP/1.1 302 Found\r\nLocation: /y?z\r\nSet-Cookie: a=b\r\nAccess-Control-Allow-Origin: *\r\nX-a: b\r\n"
        b"x-A: \xe4\r\nConnection: keep-alive, x-gone\r\nX-Gone: 1\r\nDate: yesterday\r\nGateway-Error: forged\r\n"
        b"Content-Length: 0\r\n\r\n",
        b"GET",
        id="fields of every kind",
    ),
    pytest.param(b"HTTP/1.1 103 Early\r\n\r\n" + OK, b"GET", id="after an interim response"),
]


@pytest.mark.parametrize(("says", "method"), RESPONSES)
async def test_a_response_is_the_same_on_the_fast_path_and_in_the_chain(
    tmp_path: Path, says: bytes, method: bytes
) -> None:
    seen: dict[bool, list[bytes]] = {}
    for fast_path in (True, False):
        folder = tmp_path / str(fast_path)
        folder.mkdir()

        async def responded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                head, _ = await read_message(reader)
                warming = b"/warm" in head
                writer.write(OK if warming else says.split(b"\r\n\r\n")[0] + b"\r\n\r\n" if method == b"HEAD" else says)

        async with (
            raw_provider(responded) as provider,
            gateway_to_provider(provider, folder, fast_path=fast_path) as running,
        ):
            await warm(running)
            async with dial(port_of(running)) as client:
                response = await client.ask(get(method=method), method=method)
                assert (await client.ask(get(b"/proxy/warm"))).status == 200, "the connection stays usable"
            if fast_path:
                assert (running.fast_path.taken, running.fast_path.handed_over) == (2, 0)
            own = f":{port_of(running)}/proxy".encode()
            seen[fast_path] = [VARIES.sub(b"", response.head.raw).replace(own, b":0/proxy"), response.body.data]
    assert seen[True] == seen[False]


async def test_records_are_the_same_on_the_fast_path_and_in_the_chain(tmp_path: Path) -> None:
    async with raw_provider() as provider, gateway_to_provider(provider, tmp_path) as running:
        notes: list[Any] = []
        running.runtime.call_queue.record = notes.append  # type: ignore[method-assign]
        async with dial(port_of(running)) as client:
            responses = [await client.ask(get(b"/proxy/a/b?secret=1", b"X-Request-Id: mine\r\n")) for _ in range(2)]
        assert running.fast_path.taken == 1
    chain, fast_path = notes
    for name in ("request_id", "environment", "integration_id", "connection_id", "method", "host", "path", "status"):
        assert getattr(chain, name) == getattr(fast_path, name), name
    assert [note.bytes_out for note in notes] == [
        len(response.head.raw) + len(response.body.data) for response in responses
    ]
    assert (fast_path.bytes_in, fast_path.error_code) == (chain.bytes_in, chain.error_code)
    assert fast_path.token_ms == 0, "no token had to be loaded"
    assert fast_path.gateway_ms >= 0
    assert 0 < fast_path.upstream_ms <= fast_path.duration_ms
    assert fast_path.path == "/a/b"
    assert fast_path.request_id == "mine"


async def test_a_401_is_the_first_attempt_of_the_chain(tmp_path: Path) -> None:
    """The request is not repeated: an API key cannot be refreshed, so the caller gets the provider's own 401."""
    refusal = b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno"

    async def responded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            provider.heads.append(head)
            writer.write(OK if b"/warm" in head else refusal)

    async with raw_provider(responded) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            response = await client.ask(get())
            assert (response.status, response.body.data) == (401, b"no")
            assert b"\r\nGateway-Attempts: 1\r\n" in response.head.raw
            assert (await client.ask(get(b"/proxy/warm"))).status == 200
        assert len(provider.heads) == 3
        assert running.fast_path.handed_over == 1


async def test_retries_continue_in_the_chain(tmp_path: Path) -> None:
    busy = b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"

    async def responded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            provider.heads.append(head)
            writer.write(busy if len(provider.heads) == 2 else OK)

    async with raw_provider(responded) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            response = await client.ask(get(more=b"Retries: 2\r\n"))
        assert response.status == 200
        assert b"\r\nGateway-Attempts: 2\r\n" in response.head.raw
        assert len(provider.heads) == 3
        assert running.fast_path.handed_over == 1


async def test_an_idle_connection_that_was_closed_is_replaced_once(tmp_path: Path) -> None:
    async def one_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await read_message(reader)
        provider.heads.append(head)
        writer.write(OK)
        await read_message(reader)  # read the next request, then close without a response

    async with raw_provider(one_each) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            response = await client.ask(get())
        assert response.status == 200
        assert b"\r\nGateway-Attempts: 1\r\n" in response.head.raw
        assert provider.connections == 2
        assert (running.fast_path.taken, running.fast_path.handed_over) == (1, 1)


async def test_a_response_that_is_not_http_is_a_502(tmp_path: Path) -> None:
    async def responded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            writer.write(
                OK if b"/warm" in head else b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"
            )

    async with raw_provider(responded) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            response = await client.ask(get())
        assert response.status == 502
        assert b"\r\nGateway-Error: upstream_protocol\r\n" in response.head.raw
        assert running.fast_path.handed_over == 1


async def test_a_body_that_breaks_off_never_ends_cleanly(tmp_path: Path) -> None:
    sent = asyncio.Event()

    async def torn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            if b"/warm" in head:
                writer.write(OK)
                continue
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
            await sent.wait()
            return

    async with raw_provider(torn) as provider, gateway_to_provider(provider, tmp_path) as running:
        notes: list[Any] = []
        await warm(running)
        running.runtime.call_queue.record = notes.append  # type: ignore[method-assign]
        async with dial(port_of(running)) as client:
            await client.send(get())
            head = await client.head()
            assert b" 200 " in head
            sent.set()
            assert len(await client.rest()) <= 3
        assert [(note.status, note.error_code) for note in notes] == [(200, "cut")]


async def test_disconnect_of_the_caller_frees_the_provider(tmp_path: Path) -> None:
    disconnected, began = asyncio.Event(), asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            if b"/warm" in head:
                writer.write(OK)
                continue
            began.set()
            assert await reader.read() == b""
            disconnected.set()
            return

    async with raw_provider(endless) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        notes: list[Any] = []
        running.runtime.call_queue.record = notes.append  # type: ignore[method-assign]
        async with dial(port_of(running)) as client:
            await client.send(get())
            await began.wait()
        async with asyncio.timeout(PATIENCE_S):
            await disconnected.wait()
        assert [(note.status, note.error_code) for note in notes] == [(499, "client_left")]
        assert running.fast_path.taken == 1


async def test_receiving_pauses_while_the_caller_does_not_read(tmp_path: Path) -> None:
    written = 0
    total = 64 << 20

    async def large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        while True:
            head, _ = await read_message(reader)
            if b"/warm" in head:
                writer.write(OK)
                continue
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
            piece = b"x" * 65536
            while written < total:
                writer.write(piece)
                written += len(piece)
                await writer.drain()

    async with raw_provider(large) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.send(get())
            await client.head()
            seen = -1
            async with asyncio.timeout(PATIENCE_S):
                while seen != written:  # wait until no more bytes move
                    seen = written
                    await asyncio.sleep(0.2)
            assert written < total
            assert len(await client.reader.readexactly(total)) == total
            assert (await client.ask(get(b"/proxy/warm"))).status == 200
        assert running.fast_path.taken == 2


async def test_requests_sent_together_get_responses_in_their_order(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            target = head.split(b" ")[1]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(target) + target)

    async with raw_provider(echo) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.send(get(b"/proxy/0"))
            await asyncio.sleep(0)
            await client.send(b"".join(get(b"/proxy/%d" % n) for n in range(1, 40)))
            assert [(await client.response()).body.data for _ in range(40)] == [b"/%d" % n for n in range(40)]


async def test_a_deleted_connection_is_refused_immediately(tmp_path: Path) -> None:
    async with (
        raw_provider() as provider,
        gateway_to_provider(provider, tmp_path) as running,
        dial(port_of(running)) as client,
    ):
        assert (await client.ask(get())).status == 200
        assert (await client.ask(get())).status == 200
        await running.json("DELETE", "/connections/c1?provider_config_key=acme", expect=200)
        response = await client.ask(get())
        assert response.status == 404
        assert b"\r\nGateway-Error: unknown_connection\r\n" in response.head.raw


async def test_a_removed_key_is_refused(tmp_path: Path) -> None:
    async with (
        raw_provider() as provider,
        gateway_to_provider(provider, tmp_path) as running,
        dial(port_of(running)) as client,
    ):
        for _ in range(2):
            assert (await client.ask(get())).status == 200
        del running.runtime.generation.keys._by_digest[digest(SECRET_KEY)]
        response = await client.ask(get())
        assert response.status == 401
        assert len(provider.heads) == 2


async def test_no_secret_key_is_kept(tmp_path: Path) -> None:
    async with (
        raw_provider() as provider,
        gateway_to_provider(provider, tmp_path) as running,
        dial(port_of(running)) as client,
    ):
        await warm(running)
        for _ in range(2):
            await client.ask(get())
        assert running.fast_path.taken == 2
        assert running.fast_path.remembered_heads == 1
        assert SECRET_KEY not in repr(vars(running.fast_path))


async def test_an_exchange_that_stalls_too_long_is_a_504(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            if b"/warm" in head:
                writer.write(OK)
            else:
                silent.set()

    async with raw_provider(mute) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.send(get())
            await silent.wait()
            server = running.runner.server  # type: ignore[union-attr]
            (client_connection,) = [connection for connection in server.connections if connection.on_fast_path]  # type: ignore[union-attr]
            client_connection.enforce_time_limits(asyncio.get_running_loop().time() + 61.0, late_if_before=0.0)
            result = await client.response()
        assert result.status == 504
        assert b"\r\nGateway-Error: upstream_timeout\r\n" in result.head.raw
        gate = running.runtime.egress_limits.for_origin(("http", "127.0.0.1", provider.port))
        assert gate.concurrency.outstanding == 0


async def test_the_last_response_before_a_stop_has_connection_close(tmp_path: Path) -> None:
    request_arrived, may_respond = asyncio.Event(), asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            if b"/warm" not in head:
                request_arrived.set()
                await may_respond.wait()
            writer.write(OK)

    async with raw_provider(slow) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.send(get())
            await request_arrived.wait()
            running.runner.start_draining()  # type: ignore[union-attr]
            may_respond.set()
            result = await client.response()
            assert b"\r\nConnection: close\r\n" in result.head.raw
            assert result.body.data == b"ok"
            assert await client.rest() == b""
        assert running.fast_path.taken == 1


async def test_a_connection_is_closed_if_the_client_requests_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client reads the whole response. The gateway closes the connection first, then the client closes it."""
    monkeypatch.setattr(client_protocol, "LINGER_S", 1000.0)
    # no time limit closes the connection
    monkeypatch.setattr(client_protocol.ClientProtocol, "enforce_time_limits", lambda *_, **__: None)
    body = b"x" * 2_000_000

    async def large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            writer.write(OK if b"/warm" in head else whole)

    async with raw_provider(large) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        server = running.runner.server if running.runner is not None else None
        assert server is not None
        others = set(server.connections)
        async with dial(port_of(running)) as client:
            await client.send(get(more=b"Connection: close\r\n"))
            result = await client.response()
            assert result.body.data == body
            assert await client.rest() == b""
            async with asyncio.timeout(PATIENCE_S):
                while set(server.connections) - others:
                    await asyncio.sleep(0)
        assert running.fast_path.taken == 1


async def test_host_application_has_no_fast_path(tmp_path: Path) -> None:
    """The middlewares of a host application must see every request, so the fast path stays off."""
    write_entry(tmp_path, "tracker", {**ENTRY, "proxy": {"base_url": "https://api.example.com", "headers": HEADERS}})

    @web.middleware
    async def of_the_host(request: web.Request, handler: Any) -> web.StreamResponse:
        return await handler(request)

    config_text = document([])
    config_text["environments"]["dev"]["integrations"] = {}
    app = gateway.create_app(gateway.config.parse(config_text, base=tmp_path, environ={}))
    app.middlewares.append(of_the_host)
    run = gateway.runner(app)
    await run.setup()
    try:
        assert run.server.fast_path is None  # type: ignore[union-attr]
        assert RUNTIME in app
    finally:
        await run.cleanup()


async def test_heads_are_forgotten_after_their_time_and_not_at_the_first_sweep(tmp_path: Path) -> None:
    async with (
        raw_provider() as provider,
        gateway_to_provider(provider, tmp_path) as running,
        dial(port_of(running)) as client,
    ):
        await warm(running)
        for _ in range(2):
            await client.ask(get())
        running.fast_path.sweep(clock.monotonic())
        assert running.fast_path.remembered_heads == 1
        running.fast_path.sweep(clock.monotonic() + FORGET_AFTER_S)
        assert running.fast_path.remembered_heads == 0


async def test_heads_are_forgotten_after_the_last_client_has_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with raw_provider() as provider, gateway_to_provider(provider, tmp_path) as running:
        sweep, forgotten, sweeps = running.fast_path.sweep, asyncio.Event(), 0

        def sweep_at_the_second_time(_now: float) -> bool:
            """The first sweep without a client comes before the time of the heads, and the second one after it."""
            nonlocal sweeps
            sweeps += not running.runner.client_connections
            done = sweep(clock.monotonic() + (FORGET_AFTER_S if sweeps > 1 else 0.0))
            if done:
                forgotten.set()
            return done

        monkeypatch.setattr(running.fast_path, "sweep", sweep_at_the_second_time)
        async with dial(port_of(running)) as client:
            await warm(running)
            for _ in range(2):
                await client.ask(get())
            assert running.fast_path.remembered_heads == 1
        await running.http.close()
        async with asyncio.timeout(PATIENCE_S):
            await forgotten.wait()
        assert running.fast_path.remembered_heads == 0


async def test_requests_with_invalid_keys_are_not_remembered(tmp_path: Path) -> None:
    """Parsed header lines are remembered only after the key was accepted, so strangers cannot fill the memory."""
    async with (
        raw_provider() as provider,
        gateway_to_provider(provider, tmp_path) as running,
        dial(port_of(running)) as client,
    ):
        foreign = get().replace(SECRET_KEY.encode(), b"sk-of-somebody-else-0123")
        assert (await client.ask(foreign)).status == 401
        assert running.fast_path.remembered_heads == 0
        await warm(running)
        for _ in range(2):
            assert (await client.ask(get())).status == 200
        assert running.fast_path.remembered_heads == 1


async def test_long_heads_are_remembered_up_to_a_number_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_heads, "MAX_KNOWN_BYTES", 20_000)
    async with (
        raw_provider() as provider,
        gateway_to_provider(provider, tmp_path) as running,
        dial(port_of(running)) as client,
    ):
        await warm(running)
        remembered = []
        for number in range(4):
            line = b"X-Long: %d%b\r\n" % (number, b"l" * 8000)
            for _ in range(3):
                assert (await client.ask(get(more=line))).status == 200
                assert line.lower() in provider.heads[-1].lower()
            remembered.append(running.fast_path.remembered_heads)
        assert running.fast_path.taken == 12
        assert remembered == [1, 2, 1, 2]


async def test_one_known_head_serves_all_connections_lengths_and_traces(tmp_path: Path) -> None:
    async with (
        raw_provider() as provider,
        gateway_to_provider(provider, tmp_path) as running,
        dial(port_of(running)) as client,
    ):
        await warm(running)
        ids = [f"c{number}" for number in range(1, 8)]
        for name in ids[1:]:
            credentials = {"type": "API_KEY", "apiKey": f"key-of-{name}"}
            body = {"provider_config_key": "acme", "connection_id": name, "credentials": credentials}
            await running.json("POST", "/connections", json=body, expect=201)
            await running.runtime.live.open_connection("dev", "acme", name)
        for name in ids * 2:
            number = ids.index(name)
            trace = b"00-%032d-%016d-01" % (number + 1, number + 1)
            length = b"traceparent: %b\r\nContent-Length: %d\r\n" % (trace, number)
            request = get(more=length, method=b"POST").replace(
                b"Connection-Id: c1", b"Connection-Id: %b" % name.encode()
            )
            assert (await client.ask(request + b"x" * number)).status == 200
            head = provider.heads[-1]
            assert head.count(b"key-of-") == 1
            assert b"\r\nauthorization: Bearer key-of-%b\r\n" % name.encode() in head
            assert b"\r\ntraceparent: %b\r\n" % trace in head
            assert b"\r\nContent-Length: %d\r\n" % number in head
            assert b"connection-id" not in head.lower()
        assert running.fast_path.taken == 14
        assert running.fast_path.remembered_heads == 1


async def test_a_401_to_a_credential_that_was_replaced_meanwhile_is_tried_with_the_new_one(tmp_path: Path) -> None:
    request_arrived, may_respond = asyncio.Event(), asyncio.Event()

    async def responded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_message(reader)
            if b"Bearer key-of-c1\r\n" in head and b"/warm" not in head:
                request_arrived.set()
                await may_respond.wait()
                writer.write(b"HTTP/1.1 401 Old\r\nContent-Length: 0\r\n\r\n")
            else:
                writer.write(OK)

    async with raw_provider(responded) as provider, gateway_to_provider(provider, tmp_path) as running:
        await warm(running)
        async with dial(port_of(running)) as client:
            await client.send(get())
            await request_arrived.wait()
            credentials = {"type": "API_KEY", "apiKey": "newer-key"}
            body = {"provider_config_key": "acme", "connection_id": "c1", "credentials": credentials}
            await running.json("POST", "/connections", json=body, expect=201)
            may_respond.set()
            result = await client.response()
        assert result.status == 200
        assert b"\r\nGateway-Attempts: 2\r\n" in result.head.raw
        assert running.fast_path.handed_over == 1
