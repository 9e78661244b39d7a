"""A revoked key is refused everywhere within seconds, also by other workers and by other applications on the store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway import clock
from tests.fakes.gateways import RunningGateway, document, tracker_entry, write_entry
from tests.fakes.keyed import TwoConnectionGateway, dial, two_connection_gateway
from tests.fakes.nodes import nodes
from tests.fakes.patience import PATIENCE_S
from tests.fakes.raw_provider import OK, read_message
from tests.fakes.tracker import Tracker
from tests.wire.bench import Caller

LONG_S = 3600
AROUND = 12  # number of calls on separate connections; with two workers, practically never all reach the same worker


async def mint_key(http: aiohttp.ClientSession, url: str, headers: dict[str, str], **fields: Any) -> dict[str, Any]:
    body = {"display_name": "agent", **fields}
    async with http.post(f"{url}/environment/api-keys", json=body, headers=headers) as response:
        assert response.status == 200, await response.text()
        reply: dict[str, Any] = (await response.json())["data"]
        return reply


async def statuses(url: str, key: str, count: int) -> list[int]:
    """Return the statuses of `count` calls with this key, each on a new connection."""
    names = {"Authorization": f"Bearer {key}", "Provider-Config-Key": "tracker", "Connection-Id": "c1"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True, limit=0)) as http:

        async def send_call() -> int:
            async with http.get(f"{url}/proxy/x", headers=names) as response:
                return response.status

        return list(await asyncio.gather(*(send_call() for _ in range(count))))


async def wait_until_refused(url: str, key: str, count: int = 1) -> None:
    """Return when `count` calls in a row return 401."""
    async with asyncio.timeout(PATIENCE_S):
        while set(await statuses(url, key, count)) != {401}:
            pass


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return "sqlite:///gateway.db"
    made: str = request.getfixturevalue("database")
    return made


async def test_another_application_on_the_store_accepts_a_key_until_it_is_revoked(
    tracker: Tracker, tmp_path: Path, store_url: str
) -> None:
    write_entry(tmp_path, "tracker", tracker_entry(tracker.url))
    config_text = document([f"127.0.0.1/32:{tracker.url.rpartition(':')[2]}"])
    config_text["store"]["url"] = store_url
    first, second = (RunningGateway(tmp_path, {**config_text, "server": {"host": "127.0.0.1"}}) for _ in range(2))
    await first.start()
    await second.start()
    try:
        await first.import_connection(tracker.grant())
        key = await mint_key(first.http, first.url, first.headers)
        for node in (first, second):
            assert await statuses(node.url, key["secret"], 2) == [200, 200]
        await first.json("DELETE", f"/environment/api-keys/{key['id']}", expect=200)
        assert await statuses(first.url, key["secret"], 1) == [401], (
            "the application that revoked the key refuses it immediately"
        )
        await wait_until_refused(second.url, key["secret"])
        early = await mint_key(first.http, first.url, first.headers, display_name="next")
        assert await statuses(second.url, early["secret"], 1) == [200]
    finally:
        await first.stop()
        await second.stop()


async def test_every_worker_refuses_a_revoked_key(tracker: Tracker, tmp_path: Path) -> None:
    async with nodes(tmp_path, tracker.url, "sqlite:///gateway.db", workers=2) as running:
        url = running.urls[0]
        credentials = {"type": "OAUTH2", **{k: v for k, v in tracker.grant().items() if k != "token_type"}}
        body = {"provider_config_key": "tracker", "connection_id": "c1", "credentials": credentials}
        async with running.http.post(f"{url}/connections", json=body) as response:
            assert response.status == 201, await response.text()
        key = await mint_key(running.http, url, {})
        assert set(await statuses(url, key["secret"], AROUND)) == {200}
        async with running.http.delete(f"{url}/environment/api-keys/{key['id']}") as response:
            assert response.status == 200
        await wait_until_refused(url, key["secret"], AROUND)


@pytest.mark.parametrize("fast_path", [True, False])
@pytest.mark.parametrize("how", ["revoked", "expired", "revoked after all were forgotten", "replaced"])
async def test_open_stream_ends_with_its_key(
    tmp_path: Path, fast_path: bool, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def events(reader: Any, writer: Any) -> None:
        while True:
            head, _ = await read_message(reader)
            if b"/warm" in head:
                writer.write(OK)
                continue
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                writer.write(b"3\r\n: x\r\n")
                await writer.drain()
                await asyncio.sleep(0.05)

    async with two_connection_gateway(tmp_path, fast_path=fast_path, responded=events) as gateway:
        await gateway.warm()
        result = await gateway.key(**({"expires_in_s": LONG_S} if how == "expired" else {}))
        headers = f"Authorization: Bearer {result['secret']}\r\nProvider-Config-Key: acme\r\nConnection-Id: c1\r\n"
        ask = "GET /proxy/{} HTTP/1.1\r\nHost: gw\r\n" + headers + "\r\n"
        async with open_stream(gateway, ask, on_fast_path=fast_path) as client:
            if "forgotten" in how:
                gateway.running.runtime.minted.handle_missed_changes()
            if "revoked" in how:
                await gateway.running.json("DELETE", f"/environment/api-keys/{result['id']}", expect=200)
            if how == "replaced":
                await gateway.key(replaces=result["id"], overlap_s=1)
            if how == "expired":
                now = clock.now
                monkeypatch.setattr(clock, "now", lambda: now() + timedelta(seconds=LONG_S))
            assert not (await client.rest()).endswith(b"0\r\n\r\n"), (
                "the stream is cut off, not ended as if it were complete"
            )


@asynccontextmanager
async def open_stream(gateway: TwoConnectionGateway, ask: str, *, on_fast_path: bool) -> AsyncIterator[Caller]:
    """Yield a client with an open stream. `on_fast_path`: the stream uses the fast path, which needs data from earlier
    requests.
    """
    fast_path = gateway.running.fast_path if on_fast_path else None
    while True:
        async with dial(gateway.port) as client:
            await client.send(ask.format("warm").encode())
            assert (await client.response()).status == 200
            taken = fast_path.taken if fast_path else 0
            await client.send(ask.format("events").encode())
            assert b" 200 " in await client.reader.readuntil(b"\r\n\r\n")
            if fast_path and fast_path.taken == taken:
                continue
            yield client
            return
