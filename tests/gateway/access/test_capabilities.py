"""A capability URL gives access to one connection. Every client can use the URL, and no client learns more than it
should.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.middleware.who_calls import mask_keys, mask_secrets_in_path
from gateway.records.connection import ConnectionRef
from gateway.secret import digest
from tests.fakes.keyed import OTHER_KEY, TwoConnectionGateway, dial, two_connection_gateway
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import OK, read_message


@pytest.fixture(params=["fast path", "chain"])
async def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TwoConnectionGateway]:
    async with two_connection_gateway(tmp_path, fast_path=request.param == "fast path") as made:
        await made.warm()
        made.provider.heads.clear()
        yield made


async def capability(gateway: TwoConnectionGateway, connection: str = "acme/c1", **extra: Any) -> dict[str, Any]:
    limits = {"connections": [connection], **extra.pop("limits", {})}
    return await gateway.key("cap", kind="capability", limits=limits, **extra)


def get(token: str, rest: str = "/x", more: bytes = b"", method: bytes = b"GET") -> bytes:
    return method + f" /c/{token}{rest} HTTP/1.1\r\nHost: gw\r\n".encode() + more + b"\r\n"


async def test_capability_url_behaves_like_the_providers_base_url(gateway: TwoConnectionGateway) -> None:
    result = await capability(gateway)
    token = result["secret"]
    assert re.fullmatch(r"gw_cap_[A-Za-z0-9_-]{49}", token)
    assert result["base_url"] == f"{gateway.running.url}/c/{token}"
    for _ in range(3):
        response = await gateway.raw(
            get(token, "/a%2Fb/c?x=%2F&&y", b"Authorization: Bearer dummy-key-of-an-sdk-000\r\n")
        )
        assert (response.status, response.body.data) == (200, b"ok")
        assert response.head.one("referrer-policy") == b"no-referrer"
    assert gateway.provider.request_line() == "GET /a%2Fb/c?x=%2F&&y HTTP/1.1"
    assert "authorization: Bearer key-of-c1" in gateway.provider.lines()
    assert "dummy" not in "\n".join(gateway.provider.lines())
    if gateway.running.on_fast_path:
        assert gateway.running.fast_path.taken >= 1


@pytest.mark.parametrize("fast_path", [True, False], ids=["fast path", "chain"])
async def test_responses_of_a_capability_run_no_script_and_are_not_sniffed(tmp_path: Path, fast_path: bool) -> None:
    page = b"<script>fetch('/connect')</script>"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nVary: Accept-Encoding\r\nContent-Length: %d\r\n\r\n"
    async with two_connection_gateway(tmp_path, fast_path=fast_path, responded=head % len(page) + page) as gateway:
        await gateway.warm()
        token = (await capability(gateway))["secret"]
        async with asyncio.timeout(PATIENCE_S):
            calls = 0
            while calls < 3 or (fast_path and gateway.running.fast_path.taken < 2):
                calls += 1
                response = await gateway.raw(get(token, "/page"))
                assert response.body.data == page
                assert response.head.all("content-security-policy") == [b"sandbox"]
                assert response.head.all("x-content-type-options") == [b"nosniff"]
                # not `Authorization`, because only the URL chooses the credential
                assert response.head.all("vary") == [b"Accept-Encoding"]


@pytest.mark.parametrize("name", [b"Service-Worker", b"service_worker"])
async def test_no_service_worker_is_loaded_from_a_capability(gateway: TwoConnectionGateway, name: bytes) -> None:
    token = (await capability(gateway))["secret"]
    for _ in range(2):
        response = await gateway.raw(get(token, "/worker.js", name + b": script\r\n"))
        assert (response.status, response.code) == (400, "invalid_headers")
    assert gateway.provider.heads == []


async def test_capability_passes_any_method_and_body(gateway: TwoConnectionGateway) -> None:
    token = (await capability(gateway))["secret"]
    response = await gateway.raw(
        get(token, "/x", b"Content-Length: 3\r\n\r\nabc", method=b"POST").removesuffix(b"\r\n")
    )
    assert response.status == 200
    assert gateway.provider.bodies[-1] == b"abc"
    assert (await gateway.raw(get(token, "", method=b"OPTIONS"))).status == 200
    assert gateway.provider.request_line() == "OPTIONS / HTTP/1.1"


async def test_capability_never_reaches_the_provider(gateway: TwoConnectionGateway) -> None:
    token = (await capability(gateway))["secret"]
    url = f"{gateway.running.url}/c/{token}/page".encode()
    for _ in range(2):
        await gateway.raw(get(token, "/x", b"Referer: %b\r\nX-Api-Key: %b\r\n" % (url, token.encode())))
    assert token not in b"".join(gateway.provider.heads).decode()
    assert len(gateway.provider.heads) == 2


async def test_capability_is_bound_to_its_connection(gateway: TwoConnectionGateway) -> None:
    token = (await capability(gateway))["secret"]
    for more in (
        b"Connection-Id: c2\r\n",
        b"Provider-Config-Key: other\r\n",
        b"Connection-Id: c1\r\nConnection_Id: c2\r\n",
    ):
        before = len(gateway.provider.heads)
        response = await gateway.raw(get(token, more=more))
        if response.status == 200:
            assert "authorization: Bearer key-of-c1" in gateway.provider.lines()
        else:
            assert (response.status, len(gateway.provider.heads)) == (400, before)
    assert (await gateway.raw(get(token, more=b"Connection-Id: c1\r\nProvider-Config-Key: acme\r\n"))).status == 200


async def test_capability_of_another_environment_uses_that_environments_connection(
    gateway: TwoConnectionGateway,
) -> None:
    result = await gateway.key("cap", key=OTHER_KEY, kind="capability", limits={"connections": ["acme/c1"]})
    assert (await gateway.raw(get(result["secret"]))).status == 200
    gateway.running.runtime.live.forget(ConnectionRef("other", "acme", "c1"))
    status, _, _ = await gateway.call_api("DELETE", "/connections/c1?provider_config_key=acme", OTHER_KEY)
    assert status == 200
    response = await gateway.raw(get(result["secret"]))
    assert (response.status, response.code) == (404, "unknown_connection")


async def test_keys_and_capability_urls_are_not_interchangeable(gateway: TwoConnectionGateway) -> None:
    token = (await capability(gateway))["secret"]
    key = (await gateway.key("k"))["secret"]
    headers = b"Provider-Config-Key: acme\r\nConnection-Id: c1\r\n"
    for message in (
        get(key),
        get("gw_cap_" + "A" * 49),
        get("sk-test-0123456789abcdef"),
        get(token[:-1] + ("a" if token[-1] != "a" else "b")),
        b"GET /proxy/x HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer %b\r\n%b\r\n" % (token.encode(), headers),
    ):
        response = await gateway.raw(message)
        assert (response.status, response.code) == (401, "unknown_account")
    encoded = token.replace("_", "%5f", 1)
    assert (await gateway.raw(get(encoded))).status == 400
    status, _, _ = await gateway.call_api("GET", "/connections", token)
    assert status == 401
    assert gateway.provider.heads == []


async def test_rules_of_a_capability_are_enforced(gateway: TwoConnectionGateway) -> None:
    token = (await capability(gateway, limits={"rules": ["GET /v1/**"]}))["secret"]
    for _ in range(2):
        assert (await gateway.raw(get(token, "/v1/a/b"))).status == 200
        assert (await gateway.raw(get(token, "/v2"))).status == 403
        assert (await gateway.raw(get(token, "/v1/%2e%2e/v2"))).status == 400
        assert (await gateway.raw(get(token, "/v1/a", method=b"DELETE"))).status == 403
    assert len(gateway.provider.heads) == 2


async def test_revoked_capability_is_invalid_immediately(gateway: TwoConnectionGateway) -> None:
    result = await capability(gateway)
    for _ in range(2):
        assert (await gateway.raw(get(result["secret"]))).status == 200
    await gateway.running.json("DELETE", f"/environment/api-keys/{result['id']}", expect=200)
    response = await gateway.raw(get(result["secret"]))
    assert (response.status, response.code) == (401, "unknown_account")


async def test_no_log_and_no_error_contains_a_capability(gateway: TwoConnectionGateway) -> None:
    token = (await capability(gateway))["secret"]
    notes: list[Any] = []
    gateway.running.runtime.call_queue.record = notes.append  # type: ignore[method-assign]
    responses = [
        await gateway.raw(get(token)),
        await gateway.raw(get(token)),
        await gateway.raw(get(token, "/..")),
        await gateway.raw(get(token, more=b"Connection-Id: c2\r\n")),
        await gateway.raw(get("gw_cap_" + "A" * 49)),
        await gateway.raw(get(token).replace(b"/c/", b"/%63/", 1)),
        await gateway.raw(get(token).replace(b"/c/gw_cap_", b"/%63/%67w_cap_", 1)),
        await gateway.raw(get(token).replace(b"/c/", b"/C/", 1)),
        await gateway.raw(get(token).replace(b"/c/", b"//c/", 1)),
        await gateway.raw(get(token).replace(b"/c/", b"/", 1)),
        await gateway.raw(get(token, more=b"Host: gw\r\n")),
        await gateway.raw(get(token, more=b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n")),
        await gateway.raw(get(token, more=b"X: " + b"x" * 40_000 + b"\r\n")),
        *[await gateway.raw(get(token, f"/{token}/x")) for _ in range(3)],
        await gateway.raw(get(token, f"/{token.replace('w', '%77')}")),
        await gateway.raw(get(token, more=b"Connection-Id: %b\r\n" % token.encode())),
        await gateway.raw(get(token, more=b"Provider-Config-Key: %b\r\n" % token.encode())),
    ]
    seen = [*(repr(note) for note in notes), *(str(response.head.raw + response.body.data) for response in responses)]
    assert len(notes) == len(responses)
    for text in seen:
        assert token not in text
        assert token[7:] not in text
        assert "A" * 49 not in text
    assert notes[4].path.startswith("/c/")
    for response in responses[2:4]:
        assert response.head.one("referrer-policy") == b"no-referrer"


def test_log_contains_eight_characters_of_the_capabilitys_digest() -> None:
    token = "gw_cap_" + "A" * 49
    short = digest(token)[:8]
    assert mask_secrets_in_path(f"/c/{token}/x") == f"/c/{short}/x"
    assert mask_secrets_in_path(f"/host/c/{token}?x") == f"/host/c/{short}?x"
    assert mask_secrets_in_path("/c/typo") != "/c/typo"
    assert mask_secrets_in_path(f"/%63/%67{token[1:]}/a%2Fb?x=1") == f"/c/{short}/a/b?x=1"
    assert mask_secrets_in_path(f"/C/{token}/%0a") == f"/C/{short}/%0A"
    assert mask_secrets_in_path("/connections/a%2Fb") == "/connections/a%2Fb"
    assert mask_secrets_in_path("/connections/a/c/b") == "/connections/a/c/b"
    assert mask_keys(f"/c/typo/{token}") == f"/c/typo/{short}"
    assert mask_keys("/c/caf%C3%A9/gw_x") == "/c/caf%C3%A9/gw_x"


@pytest.mark.parametrize("fast_path", [True, False])
async def test_links_of_the_provider_are_rewritten_to_the_capability_url(tmp_path: Path, fast_path: bool) -> None:
    async def respond_with_links(reader: Any, writer: Any) -> None:
        while True:
            head, _ = await read_message(reader)
            says = b"HTTP/1.1 302 Found\r\nLocation: /y?z=1\r\nLink: </p?page=2>; rel=next\r\n"
            says += b"Referrer-Policy: unsafe-url\r\nContent-Length: 0\r\n\r\n"
            writer.write(OK if b"/warm" in head else says)

    async with two_connection_gateway(tmp_path, fast_path=fast_path, responded=respond_with_links) as gateway:
        await gateway.warm()
        token = (await capability(gateway))["secret"]
        for _ in range(2):
            response = await gateway.raw(get(token))
            url = f"{gateway.running.url}/c/{token}".encode()
            assert response.head.one("location") == url + b"/y?z=1"
            assert response.head.one("link") == b"<" + url + b"/p?page=2>; rel=next"
            assert response.head.one("referrer-policy") == b"no-referrer"
        assert gateway.running.on_fast_path is fast_path


async def test_credential_in_the_query_replaces_the_sdks_value(tmp_path: Path) -> None:
    async with two_connection_gateway(tmp_path, query={"key": "${apiKey}"}) as gateway:
        await gateway.warm()
        token = (await capability(gateway))["secret"]
        for _ in range(2):
            assert (await gateway.raw(get(token, "/x?key=dummy&a=1"))).status == 200
            assert gateway.provider.request_line() == "GET /x?a=1&key=key-of-c1 HTTP/1.1"


async def test_capability_passes_a_websocket(tmp_path: Path) -> None:
    async def accept_upgrade(reader: Any, writer: Any) -> None:
        head, _ = await read_message(reader)
        assert b"authorization: Bearer key-of-c1" in head
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
        writer.write(await reader.readexactly(3))
        await writer.drain()

    asks = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
    async with two_connection_gateway(tmp_path, responded=accept_upgrade) as gateway:
        allowed = (await capability(gateway, limits={"rules": ["WEBSOCKET /socket"]}))["secret"]
        async with dial(gateway.port) as client:
            await client.send(get(allowed, "/socket", asks))
            assert b" 101 " in await client.reader.readuntil(b"\r\n\r\n")
            await client.send(b"abc")
            assert await client.rest() == b"helloabc"
        narrow = await gateway.key("n", kind="capability", limits={"connections": ["acme/c1"], "rules": ["GET /**"]})
        assert (await gateway.raw(get(narrow["secret"], "/socket", asks))).status == 403


async def test_capability_url_contains_the_host_applications_prefix(tmp_path: Path) -> None:
    from aiohttp import web

    import gateway as package
    from tests.fakes.gateways import SECRET_KEY

    async with two_connection_gateway(tmp_path) as gateway:
        token = (await capability(gateway))["secret"]
        config = gateway.running.runtime.generation.config
        host = web.Application()
        host.add_subapp("/gateway", package.create_app(config))
        runner = web.AppRunner(host, auto_decompress=False, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            base = f"http://127.0.0.1:{site.port}/gateway"
            async with gateway.running.http.get(f"{base}/c/{token}/x") as response:
                assert (response.status, await response.text()) == (200, "ok")
            headers = {"Authorization": f"Bearer {SECRET_KEY}"}
            async with gateway.running.http.get(f"{base}/environment/api-keys", headers=headers) as response:
                assert [item["kind"] for item in json.loads(await response.text())["data"]] == ["capability"]
        finally:
            await runner.cleanup()
