"""Many callers on several nodes and workers need the same expired token. The provider gets one token request.

Every caller gets a response. `make refresh-crowd` runs this test 20 times.
"""

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.fakes.nodes import Nodes, nodes
from tests.fakes.patience import PATIENCE_S
from tests.fakes.tracker import Tracker

ROUNDS = int(os.environ.get("REFRESH_ROUNDS", "2"))
CROWD = 500


async def token_requests_of_a_crowd(gateways: Nodes, tracker: Tracker, connection_id: str) -> int:
    """Return the number of token requests.

    The token endpoint responds only after all callers have started and the first token request has arrived.
    """
    before = tracker.calls["refresh_token"]
    await gateways.import_connection(tracker.grant(), connection_id)
    tracker.hold.clear()
    calls = [asyncio.create_task(gateways.call(n, connection_id)) for n in range(CROWD)]
    async with asyncio.timeout(PATIENCE_S):
        while tracker.calls["refresh_token"] == before:
            await asyncio.sleep(0.01)
    tracker.hold.set()
    responses = await asyncio.gather(*calls)
    assert Counter(status for status, _ in responses) == {200: CROWD}
    assert len({body["token"] for _, body in responses}) == 1
    assert not any(grant.revoked for grant in tracker.grants)
    return tracker.calls["refresh_token"] - before


@pytest.mark.heavy
@pytest.mark.timeout(600)
async def test_three_nodes_on_postgresql_make_one_token_request(
    tracker: Tracker, tmp_path: Path, database: str
) -> None:
    async with nodes(tmp_path, tracker.url, database, count=3) as gateways:
        for n in range(ROUNDS):
            assert await token_requests_of_a_crowd(gateways, tracker, f"c{n}") == 1


@pytest.mark.heavy
@pytest.mark.timeout(600)
async def test_four_workers_on_sqlite_make_one_token_request(tracker: Tracker, tmp_path: Path) -> None:
    async with nodes(tmp_path, tracker.url, "sqlite:///gateway.db", workers=4) as gateways:
        for n in range(ROUNDS):
            assert await token_requests_of_a_crowd(gateways, tracker, f"c{n}") == 1
