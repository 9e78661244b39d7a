"""WebSocket through /proxy: the gateway adds the credential to the handshake, then passes bytes in both directions.

The tunnel ends when the caller or the provider closes its connection.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.patience import PATIENCE_S
from tests.fakes.proxy_end import US, Gateway, gateway_to, opened_at
from tests.fakes.raw import parsed
from tests.fakes.raw_provider import RawProvider, Script, raw_provider

ASK = "\r\n".join(
    [
        "GET /proxy/socket?x=1 HTTP/1.1",
        "Host: gw.example.com",
        *(f"{name}: {value}" for name, value in US.items()),
        "Connection: keep-alive, Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol: chat",
        "",
        "",
    ]
).encode()
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
)


def switching(after: Script, *, with_it: bytes = b"") -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCH + with_it)
        await after(reader, writer)

    return script


@asynccontextmanager
async def tunnel(
    after: Script, *, with_it: bytes = b"", ask: bytes = ASK, **options: object
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, RawProvider, Gateway]]:
    """Yield the open connection of a caller that has just sent its request."""
    async with (
        asyncio.timeout(PATIENCE_S),
        raw_provider(switching(after, with_it=with_it)) as provider,
        gateway_to(opened_at(provider.port), runner_options=options) as gateway,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(ask)
        try:
            yield reader, writer, provider, gateway
        finally:
            writer.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()


async def test_the_handshake_is_forwarded_with_the_credential_and_the_101_is_returned() -> None:
    heads: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(SWITCH + b"early")
        await echo(reader, writer)

    async with raw_provider(script) as provider, gateway_to(opened_at(provider.port)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(ASK + b"at once")
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        assert await reader.readexactly(12) == b"earlyat once"
        writer.close()
    assert heads[0].decode().split("\r\n") == [
        "GET /socket?x=1 HTTP/1.1",
        f"Host: 127.0.0.1:{provider.port}",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol: chat",
        "Authorization: Bearer at-1",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "",
        "",
    ]
    assert head[0] == "HTTP/1.1 101 Switching Protocols"
    assert sorted(line for line in head[1:-2] if not line.startswith("Server-Timing: ")) == [
        "Connection: Upgrade",
        "Gateway-Attempts: 1",
        "Gateway-Request-Id: req-1",
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        "Sec-WebSocket-Protocol: chat",
        "Upgrade: websocket",
    ]


async def test_bytes_pass_unchanged_in_both_directions_at_the_pace_of_the_slower_side() -> None:
    sent = bytes(range(256)) * 4096 * 96  # 96 MiB, which is more than the system buffers for four sockets
    async with tunnel(echo) as (reader, writer, _, _):
        await reader.readuntil(b"\r\n\r\n")
        gone = still = 0

        async def send() -> None:
            nonlocal gone
            for gone in range(0, len(sent), 65536):
                writer.write(sent[gone : gone + 65536])
                await writer.drain()

        sending = asyncio.create_task(send())
        before = -1
        async with asyncio.timeout(PATIENCE_S):
            while still < 200:  # nobody reads the echo, so after some time no byte moves
                await asyncio.sleep(0)
                still, before = (still + 1 if gone == before else 0), gone
        assert not sending.done()
        for at in range(0, len(sent), 1 << 20):
            assert await reader.readexactly(1 << 20) == sent[at : at + (1 << 20)]
        await sending


@pytest.mark.parametrize("cancellation", [True, False])
async def test_disconnect_of_the_caller_frees_the_provider_and_the_last_bytes_are_sent(cancellation: bool) -> None:
    got = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.set_result(await reader.read())

    async with tunnel(listen, handler_cancellation=cancellation) as (reader, writer, provider, _):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"the last word")
        writer.close()
        await asyncio.wait_for(provider.left.wait(), PATIENCE_S)
        assert await got == b"the last word"


async def test_when_the_provider_closes_the_tunnel_ends_cleanly_after_the_last_byte() -> None:
    async def bye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * 1_000_000)
        await writer.drain()

    async with tunnel(bye) as (reader, _, _, _):
        await reader.readuntil(b"\r\n\r\n")
        assert len(await reader.read()) == 1_000_000


async def test_a_reset_by_the_provider_resets_the_callers_connection() -> None:
    import socket
    import struct

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with tunnel(reset) as (reader, writer, _, _):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"x")
        with pytest.raises(ConnectionResetError):
            await reader.read()


async def test_a_refused_upgrade_passes_the_response_on_and_closes_the_connection() -> None:
    refusal = b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 3\r\nSec-WebSocket-Version: 13\r\n\r\nno!"
    async with raw_provider(refusal) as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = parsed(await gateway.raw(ASK))
    assert (response.status, response.body, response.headers["connection"]) == (426, b"no!", "close")
    assert response.headers["sec-websocket-version"] == "13"


@pytest.mark.parametrize(
    "asked",
    [
        ASK.replace(b"Upgrade: websocket", b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk"),
        ASK.replace(b"Upgrade: websocket", b"Upgrade: websocket, h2c"),
        ASK.replace(b"Upgrade: websocket", "Upgrade: websoc\u212aet".encode()),  # the Kelvin sign is a k in lower case
        ASK.replace(b"GET ", b"DELETE "),
        ASK.replace(b"keep-alive, Upgrade", b"close"),
    ],
)
async def test_no_other_upgrade_is_requested(asked: bytes) -> None:
    async with raw_provider() as provider, gateway_to(opened_at(provider.port)) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(asked)
        await reader.readuntil(b"\r\n\r\nok")
        writer.close()
    assert b"upgrade:" not in provider.heads[0].lower()


@pytest.mark.parametrize(
    "switch", [SWITCH.replace(b"WebSocket", b"h2c"), SWITCH.replace(b"Upgrade: WebSocket\r\n", b"")]
)
async def test_a_provider_that_switches_to_another_protocol_than_requested_is_a_502(switch: bytes) -> None:
    async with raw_provider(switch) as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = parsed(await gateway.raw(ASK))
    assert (response.status, response.error["code"]) == (502, "upstream_protocol")


async def test_a_switch_that_was_not_requested_is_a_502() -> None:
    async with raw_provider(SWITCH) as provider, gateway_to(opened_at(provider.port)) as gateway:
        response = parsed(await gateway.call())
    assert (response.status, response.error["code"]) == (502, "upstream_protocol")


async def talk(request: web.Request) -> web.WebSocketResponse:
    """Send the received key, return binary messages unchanged, and close after a text message."""
    socket = web.WebSocketResponse(protocols=["chat"])
    await socket.prepare(request)
    await socket.send_str(request.headers["X-Api-Key"])
    async for message in socket:
        await (socket.send_bytes(message.data) if message.type is WSMsgType.BINARY else socket.close(code=4001))
    request.app[CODES].append(socket.close_code)
    return socket


CODES = web.AppKey("codes", list)


@asynccontextmanager
async def whole_gateway(folder: Path) -> AsyncIterator[tuple[RunningGateway, list[int | None]]]:
    """Yield the real application on the gateway's own runner, in front of an aiohttp provider, and a list of close
    codes.
    """
    provider = web.Application()
    provider[CODES] = []
    provider.router.add_get("/socket", talk)
    server = TestServer(provider)
    await server.start_server()
    entry = tracker_entry(f"http://127.0.0.1:{server.port}", auth_mode="API_KEY")
    for name in (
        "authorization_url",
        "token_url",
        "post_connection_script",
        "default_scopes",
        "connection_configuration",
    ):
        del entry[name]
    entry["proxy"]["headers"] = {"x-api-key": "${apiKey}"}
    write_entry(folder, "tracker", entry)
    running = RunningGateway(folder, document([f"127.0.0.1/32:{server.port}"]))
    await running.start()
    names = {"provider_config_key": "tracker", "connection_id": "c1"}
    credentials = {"type": "API_KEY", "apiKey": "key-1"}
    try:
        await running.json("POST", "/connections", json={**names, "credentials": credentials}, expect=201)
        yield running, provider[CODES]
    finally:
        await running.stop()
        await server.close()


async def test_websocket_messages_and_close_codes_pass_in_both_directions(tmp_path: Path) -> None:
    async with whole_gateway(tmp_path) as (running, codes):
        url = f"{running.url}/proxy/socket"
        headers = {**running.headers, "Provider-Config-Key": "tracker", "Connection-Id": "c1"}
        async with running.http.ws_connect(url, headers=headers, protocols=["chat"]) as socket:
            assert socket.protocol == "chat"
            assert await socket.receive_str() == "key-1"
            await socket.send_bytes(b"\x00" * 300_000)
            assert await socket.receive_bytes() == b"\x00" * 300_000
            await socket.close(code=4000)
        async with running.http.ws_connect(url, headers=headers) as socket:
            await socket.receive_str()
            await socket.send_str("close me")
            assert (await socket.receive()).type is WSMsgType.CLOSE
            assert socket.close_code == 4001
        assert codes[0] == 4000
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await running.http.ws_connect(url, headers={**headers, "Connection-Id": "nobody"})
        assert refused.value.status == 404
