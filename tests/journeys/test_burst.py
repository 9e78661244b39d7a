"""Many tokens that expire at the same time are refreshed one after the other. Other calls become hardly slower.

In the test suite, this test is short: it checks that every token is refreshed once and that nothing fails. `make burst`
has 10,000 connections. It compares the 99th percentile of unrelated calls before and during the refreshes.
"""

import asyncio
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

import pytest

from tests.fakes.nodes import Nodes, nodes
from tests.fakes.patience import PATIENCE_S

COUNT = int(os.environ.get("BURST", "60"))
MEASURED = "BURST" in os.environ
LIFETIME_S = 600.0 if MEASURED else 6.0
# When all connections are called. It is the earliest time at which many tokens are refreshed, and too late for a slot
# for each token.
AHEAD_S = LIFETIME_S * 0.45
WINDOW_S = 20 if MEASURED else 0.2
PROVIDER = """
import asyncio, json, secrets
from aiohttp import web

async def token(request):
    form = await request.post()
    calls.append(form["refresh_token"])
    tokens = {"access_token": secrets.token_hex(8), "refresh_token": secrets.token_hex(8)}
    return web.json_response({**tokens, "expires_in": 3600})

async def sites(request):
    return web.json_response([{"id": "s", "url": "https://acme.atlassian.net", "name": "acme", "scopes": []}])

async def count(request):
    return web.json_response({"calls": len(calls), "distinct": len(set(calls))})

async def respond(request):
    return web.json_response({"path": request.path})

async def main():
    app = web.Application()
    app.router.add_post("/token", token)
    app.router.add_get("/count", count)
    app.router.add_get("/oauth/token/accessible-resources", sites)
    app.router.add_route("*", "/{rest:.*}", respond)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

calls = []
asyncio.run(main())
"""


@asynccontextmanager
async def provider() -> AsyncIterator[str]:
    """Run a provider in its own process, so that only the work of the gateway is measured.

    One provider issues the tokens. Another provider serves the API of the unrelated connection.
    """
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROVIDER, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.heavy
@pytest.mark.timeout(3600)  # expired tokens that nobody uses are refreshed at ten per second
async def test_tokens_that_expire_together_are_each_refreshed_once(tmp_path: Path) -> None:
    async with (
        provider() as tokens,
        provider() as api,
        nodes(tmp_path, api, "sqlite:///gateway.db", token_url=tokens) as gateway,
    ):
        ends = await import_connection(gateway)
        before = [await percentile_99_ms(gateway, WINDOW_S) for _ in range(3)]
        await asyncio.sleep(max(0.0, (ends - datetime.now(UTC)).total_seconds() - AHEAD_S))
        assert await call_all(gateway) == {200}
        during: list[float] = []
        async with asyncio.timeout(LIFETIME_S + PATIENCE_S + COUNT / 10):  # expired tokens: ten refreshes a second
            while (response := await token_requests(gateway, tokens))["calls"] < COUNT:
                during.append(await percentile_99_ms(gateway, WINDOW_S))
        assert response == {"calls": COUNT, "distinct": COUNT}
        if MEASURED:
            usual, meanwhile = fmean(before), fmean(during)
            print(
                f"\n{COUNT} refreshes: p99 of unrelated calls {usual:.2f} ms before, {meanwhile / usual:.2f} times that"
            )
            print(f"meanwhile; in windows of {WINDOW_S} s: {latencies(before)} before, {latencies(during)} meanwhile")


async def import_connection(gateway: Nodes) -> datetime:
    """Import the connections with tokens that expire together, and one unrelated connection. Return the time of the
    expiry.
    """
    ends = datetime.now(UTC) + timedelta(seconds=LIFETIME_S)
    waiting = iter(range(COUNT))

    async def import_one(connection_id: str, expires_at: datetime) -> None:
        credentials = {"type": "OAUTH2", "access_token": secrets.token_hex(8), "refresh_token": secrets.token_hex(8)}
        body = {
            "provider_config_key": "tracker",
            "connection_id": connection_id,
            "credentials": {**credentials, "expires_at": expires_at.isoformat()},
        }
        async with gateway.http.post(f"{gateway.urls[0]}/connections", json=body) as response:
            assert response.status == 201, await response.text()

    async def import_some() -> None:
        for n in waiting:
            await import_one(f"c{n}", ends)

    await import_one("unrelated", ends + timedelta(days=1))
    await asyncio.gather(*(import_some() for _ in range(8)))
    return ends


async def call_all(gateway: Nodes) -> set[int]:
    """Call each connection and return the statuses."""
    gate, seen = asyncio.Semaphore(16), set[int]()

    async def call(n: int) -> None:
        async with gate:
            seen.add((await gateway.call(0, f"c{n}"))[0])

    await asyncio.gather(*(call(n) for n in range(COUNT)))
    return seen


async def percentile_99_ms(gateway: Nodes, for_s: float) -> float:
    """Make a hundred unrelated calls per second. Return the 99th percentile of their duration in milliseconds."""
    took, until = [], time.monotonic() + for_s
    while time.monotonic() < until:
        began = time.perf_counter()
        assert (await gateway.call(0, "unrelated"))[0] == 200
        took.append(time.perf_counter() - began)
        await asyncio.sleep(max(0.0, 0.01 - took[-1]))
    return sorted(took)[int(len(took) * 0.99)] * 1000


def latencies(windows_ms: list[float]) -> str:
    return ", ".join(f"{value_ms:.2f}" for value_ms in windows_ms)


async def token_requests(gateway: Nodes, url: str) -> dict[str, int]:
    async with gateway.http.get(f"{url}/count") as response:
        body: dict[str, int] = await response.json()
        return body
