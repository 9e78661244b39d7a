"""Through the shipped nginx and HAProxy configurations, bytes, events, sockets and large bodies arrive unchanged."""

import asyncio
import hashlib
import json
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from tests.deploy.cluster import Cluster
from tests.fakes.balancer_provider import DATE, MIB, SERVER, BalancerTestProvider, piece
from tests.fakes.fronts import HOST, Balancer
from tests.fakes.gateways import SECRET_KEY
from tests.fakes.load import SHORT
from tests.fakes.patience import PATIENCE_S
from tests.fakes.processes import CONNECTION
from tests.fakes.raw import RawClient, RawResponse

pytestmark = pytest.mark.asyncio(loop_scope="session")

US = {"Authorization": f"Bearer {SECRET_KEY}", **CONNECTION}
LARGE = 64


@asynccontextmanager
async def http(balancer: Balancer) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that resolves the test's host name to the balancer and trusts the balancer's certificate."""
    connector = aiohttp.TCPConnector(ssl=balancer.tls, resolver=LoopbackResolver())
    async with aiohttp.ClientSession(
        f"https://{HOST}:{balancer.ports.https}", headers=US, connector=connector, auto_decompress=False
    ) as session:
        yield session


class LoopbackResolver(aiohttp.abc.AbstractResolver):
    """Resolves every host name to 127.0.0.1."""

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[Any]:
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": 2, "proto": 0, "flags": 0}]

    async def close(self) -> None: ...


@asynccontextmanager
async def raw_connection(balancer: Balancer) -> AsyncIterator[RawClient]:
    """A raw TLS connection to the balancer, for exact bytes."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", balancer.ports.https, ssl=balancer.tls, server_hostname=HOST
    )
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


def request_head(target: str, *extra: str, method: str = "GET") -> bytes:
    fields = [f"{name}: {text}" for name, text in US.items()]
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {HOST}", *fields, *extra, "", ""]).encode()


async def response_to(balancer: Balancer, target: str, *extra: str) -> RawResponse:
    async with raw_connection(balancer) as client:
        client.send(request_head(target, *extra))
        return await client.response()


TARGETS = [
    "/a//b///c",
    "/a%2Fb%2fc",
    "/%41%62?x=%2F+%20;y&y&=&&",
    "/caf%C3%A9/%e4",
    "/a;b=c;d/e,f@g:h$i!j*k'l(m)",
    "/x?",
    "/x?a=/../b&c=//d",
    "/~user/.hidden/...",
    '/a|b"c<d>e[f]{g}^h`?q={"a":[1]}|',
    "/" + "long/" * 3000,
]


@pytest.mark.parametrize("target", TARGETS, ids=[target[:24] for target in TARGETS])
async def test_a_path_arrives_as_it_was_sent(
    balancer: Balancer, balancer_provider: BalancerTestProvider, target: str
) -> None:
    balancer_provider.requests.clear()
    response = await response_to(balancer, f"/proxy{target}")
    assert (response.status, list(balancer_provider.requests)) == (200, [target])


async def test_unusual_header_fields_arrive(balancer: Balancer, balancer_provider: BalancerTestProvider) -> None:
    response = await response_to(balancer, "/proxy/x", "X_Under: 1", "x.dot: 2", "X-Long: " + "v" * 15_000, "X-Empty:")
    assert response.status == 200
    headers = balancer_provider.headers
    assert (headers["x_under"], headers["x.dot"], headers["x-empty"]) == ("1", "2", "")
    assert len(headers["x-long"]) == 15_000


async def test_paths_that_the_gateway_refuses_are_also_refused_through_a_balancer(
    balancer: Balancer, balancer_provider: BalancerTestProvider
) -> None:
    balancer_provider.requests.clear()
    for target in ("/proxy/a/../b", "/proxy/a/%2e%2e/b", "/%70roxy/x"):
        response = await response_to(balancer, target)
        assert response.status in (400, 404), target
        assert "gateway-error" in response.headers, target
    assert not balancer_provider.requests


async def test_events_arrive_when_they_are_sent(balancer: Balancer, balancer_provider: BalancerTestProvider) -> None:
    """The provider sends each event only after the previous one has arrived, so the balancer must not buffer any."""
    arrived = []
    async with http(balancer) as session, session.get("/proxy/dialogue/50") as response, asyncio.timeout(PATIENCE_S):
        assert response.status == 200
        async for line in response.content:
            if line.startswith(b"id: "):
                arrived.append(int(line[4:]))
                balancer_provider.arrived.release()
    assert arrived == list(range(50))


async def test_a_websocket_passes_messages_in_both_directions(balancer: Balancer) -> None:
    async with http(balancer) as session, session.ws_connect("/proxy/socket", max_msg_size=0) as socket:
        for text in ("hello", "x" * 100_000):
            await socket.send_str(text)
            assert await socket.receive_str() == text
        await socket.send_bytes(bytes(range(256)) * 4096)
        assert await socket.receive_bytes() == bytes(range(256)) * 4096
        await socket.close()
        assert socket.close_code == 1000


async def large_body() -> AsyncIterator[bytes]:
    for number in range(LARGE):
        yield piece(number)


def digest_of_large() -> str:
    digest = hashlib.sha256()
    for number in range(LARGE):
        digest.update(piece(number))
    return digest.hexdigest()


@pytest.mark.parametrize("length", [str(LARGE * MIB), None], ids=["with its length", "in chunks"])
async def test_large_upload_arrives_unchanged(balancer: Balancer, length: str | None) -> None:
    headers = {"Content-Length": length} if length else {}
    async with http(balancer) as session, session.post("/proxy/upload", data=large_body(), headers=headers) as response:
        assert await response.json() == {"sha256": digest_of_large(), "bytes": LARGE * MIB}


async def test_large_download_arrives_unchanged(balancer: Balancer) -> None:
    digest = hashlib.sha256()
    async with http(balancer) as session, session.get(f"/proxy/download/{LARGE}") as response:
        async for content in response.content.iter_any():
            digest.update(content)
    assert digest.hexdigest() == digest_of_large()


async def test_provider_fields_that_balancers_often_replace_arrive(balancer: Balancer) -> None:
    through, direct = await response_to(balancer, "/proxy/x"), await response_to(balancer, "/health")
    assert (through.headers["server"], through.headers["date"]) == (SERVER, DATE)
    assert direct.headers["server"] == "gateway"


async def test_the_gateways_own_responses_arrive(balancer: Balancer) -> None:
    async with http(balancer) as session, session.get("/ready") as response:
        assert (response.status, await response.json()) == (200, {"result": "ok"})
    async with http(balancer) as session, session.get("/nowhere") as response:
        assert response.status == 404
        assert (await response.json())["error"]["code"]


async def test_plain_http_is_refused_and_not_redirected(balancer: Balancer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", balancer.ports.plain)
    client = RawClient(reader, writer)
    client.send(request_head("/proxy/x"))
    response = await client.response()
    assert (response.status, "location" in response.headers) == (421, False)
    writer.close()


async def test_old_tls_is_refused(balancer: Balancer) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, OSError)):
        await asyncio.open_connection("127.0.0.1", balancer.ports.https, ssl=context, server_hostname=HOST)


async def test_no_code_token_or_capability_is_logged(balancer: Balancer) -> None:
    await response_to(balancer, "/oauth/callback?state=secret-state&code=secret-code")
    await response_to(balancer, "/c/secret-capability/rest/x?token=secret-token")
    await response_to(balancer, "/c/secret-alone")
    await response_to(balancer, "/proxy/seen")
    async with asyncio.timeout(PATIENCE_S):
        while "/proxy/seen" not in balancer.log:
            await asyncio.sleep(0.01)
    assert "secret-" not in balancer.log
    assert SECRET_KEY not in balancer.log
    assert "/c/-/rest/x" in balancer.log


async def test_a_post_that_was_lost_with_its_node_is_not_sent_again(
    balancer: Balancer, cluster: Cluster, balancer_provider: BalancerTestProvider
) -> None:
    balancer_provider.requests.clear()
    balancer_provider.hold.clear()
    posts = [asyncio.create_task(post_held(balancer)) for _ in range(6)]
    async with asyncio.timeout(PATIENCE_S):
        while balancer_provider.requests["/held"] < 6:
            await asyncio.sleep(0.01)
    assert await cluster.stop(0, signal.SIGKILL) == -signal.SIGKILL
    try:
        await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
        balancer_provider.hold.set()
        statuses = await asyncio.gather(*posts)
        assert balancer_provider.requests["/held"] == 6
        assert {status for status in statuses if status != 200} <= {502}
        assert 0 < statuses.count(502) < 6, "some requests were on the killed node, the others were not"
        # the balancer has noticed the dead node
        async with http(balancer) as session, session.get("/proxy/x") as response:
            assert (response.status, await response.read()) == (200, SHORT)
    finally:
        await cluster.start(0)


async def post_held(balancer: Balancer) -> int:
    async with http(balancer) as session, session.post("/proxy/held", data=json.dumps({"once": True})) as response:
        await response.read()
        return response.status
