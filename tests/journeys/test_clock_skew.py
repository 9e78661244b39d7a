"""Nodes on one PostgreSQL with clocks that differ by minutes: each token is refreshed once, and no call fails.

The provider revokes a grant when it receives a refresh token twice. The lifetime of its tokens is shorter than the
difference of the clocks. So a node that relied only on its own clock would use expired tokens, or refresh valid ones.
"""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.fakes.nodes import Nodes, nodes
from tests.fakes.tracker import Tracker

CONNECTIONS = 40
ROUNDS = 3
SLOW_S = 1.5  # the token endpoint responds late, so that other nodes try to claim the refresh at the same time


def ids_of() -> list[str]:
    return [f"c{n}" for n in range(CONNECTIONS)]


async def call_all(gateways: Nodes, tracker: Tracker) -> Counter[int]:
    ids = ids_of()
    for connection_id in ids:
        await gateways.import_connection(tracker.grant(), connection_id)
    statuses = Counter[int]()

    async def call(node: int, connection_id: str) -> None:
        status, _ = await gateways.call(node, connection_id)
        statuses[status] += 1

    for n in range(ROUNDS):  # all nodes need each token
        for node in range(len(gateways.urls)):
            await asyncio.gather(*(call(node + n, name) for name in ids), *(call(node + n + 1, name) for name in ids))
    return statuses


async def release_in_batches(tracker: Tracker, ended: asyncio.Event) -> None:
    """Release the responses of the token endpoint in batches, one batch every SLOW_S seconds."""
    while not ended.is_set():
        tracker.hold_response.clear()
        await asyncio.sleep(SLOW_S)
        tracker.hold_response.set()
        await asyncio.sleep(0)


@pytest.mark.heavy
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("skews_s", "ttl_s"), [((0, 35), 30), ((0, -35), 30), ((300, -300), 500)], ids=str)
async def test_nodes_with_different_clocks_lose_no_token_and_fail_no_call(
    skews_s: tuple[float, ...], ttl_s: float, tracker: Tracker, tmp_path: Path, database: str
) -> None:
    tracker.ttl_s, tracker.refusal = ttl_s, 401
    async with nodes(tmp_path, tracker.url, database, skews_s=skews_s) as gateways:
        ended = asyncio.Event()
        slowing = asyncio.create_task(release_in_batches(tracker, ended))
        statuses = await call_all(gateways, tracker)
        ended.set()
        tracker.hold_response.set()
        await slowing
        assert statuses == {200: CONNECTIONS * ROUNDS * 4}
        assert not any(grant.revoked for grant in tracker.grants)
        if ttl_s > 100:  # long enough that no token is refreshed again on a slow machine
            assert tracker.calls["refresh_token"] == CONNECTIONS, (
                "a node refreshed a token that another node had just received"
            )
            for connection_id in ids_of():
                ends = await gateways.expires_at(connection_id)
                assert abs((ends - datetime.now(UTC)).total_seconds() - ttl_s) < 100, (
                    "the expiry is not by the database's clock"
                )
        for node, skew_s in zip(gateways.running, skews_s, strict=True):
            async with gateways.http.get(f"http://127.0.0.1:{node.port}/ready") as response:
                body = await response.json()
                assert response.status == 200
            if skew_s:
                assert body["clock"] == "off"
                assert abs(body["clock_offset_seconds"] + skew_s) < 1
                assert (await node.logged("clock_offset"))[0]["offset_s"] == pytest.approx(-skew_s, abs=1)
            else:
                assert body == {"result": "ok"}


@pytest.mark.heavy
@pytest.mark.timeout(300)
async def test_a_node_whose_clock_is_an_hour_wrong_refreshes_nothing_and_reports_it(
    tracker: Tracker, tmp_path: Path, database: str
) -> None:
    async with nodes(tmp_path, tracker.url, database, skews_s=(0, 3600)) as gateways:
        await gateways.import_connection(tracker.grant(), "c1")
        status, body = await gateways.call(1, "c1")
        assert (status, body["error"]["code"]) == (503, "store_unavailable")
        assert body["error"]["payload"]["reason"] == "clock_offset"
        assert tracker.calls["refresh_token"] == 0
        for query, status in (("", 200), ("?store=required", 503)):
            async with gateways.http.get(f"{gateways.urls[1]}/ready{query}") as response:
                assert response.status == status
                assert (await response.json())["clock"] == "refused"
        assert "does not refresh tokens" in json.dumps(await gateways.running[1].logged("clock_offset"))
        assert (await gateways.call(0, "c1"))[0] == 200
