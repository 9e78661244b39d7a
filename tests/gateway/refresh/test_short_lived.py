"""Access tokens that are valid for a few seconds, from a provider that rounds their expiry down to a whole second."""

from collections import Counter
from typing import Any

import pytest

from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker

CALLS = 300
STEP_S = 0.2


async def call_status(running: RunningGateway, method: str = "GET") -> int:
    async with running.call_proxy("c1", method=method) as response:
        await response.read()
        status: int = response.status
        return status


@pytest.mark.parametrize("refusal", [401, 403])
@pytest.mark.parametrize("ttl_s", [3, 4, 5, 7])
async def test_no_call_is_refused_with_tokens_of_a_few_seconds(
    ttl_s: int, refusal: int, running: RunningGateway, tracker: Tracker, advance_stopped_clock: Any
) -> None:
    tracker.ttl_s, tracker.expires, tracker.refusal = ttl_s, True, refusal
    await running.import_connection(tracker.grant())
    statuses: Counter[int] = Counter()
    before = tracker.calls["api"]
    for _ in range(CALLS):
        advance_stopped_clock(STEP_S)
        statuses[await call_status(running)] += 1
    assert statuses == {200: CALLS}
    lives = CALLS * STEP_S / ttl_s
    assert lives <= tracker.calls["refresh_token"] <= 3 * lives
    assert tracker.calls["api"] - before == CALLS, "no call met a dead token, so none was sent twice"


async def test_401_refreshes_a_token_that_was_just_refreshed(
    running: RunningGateway, tracker: Tracker, advance_stopped_clock: Any
) -> None:
    tracker.refusal = 401
    await running.import_connection(tracker.grant())
    advance_stopped_clock(3601)
    assert await call_status(running) == 200
    tracker.grants[0].access_tokens = set()
    assert await call_status(running) == 200
    assert tracker.calls["refresh_token"] == 2


async def test_401_refreshes_a_short_lived_token_once_per_lifetime(
    running: RunningGateway, tracker: Tracker, advance_stopped_clock: Any
) -> None:
    tracker.ttl_s, tracker.refusal = 5, 401
    await running.import_connection(tracker.grant())
    for _ in range(4):
        advance_stopped_clock(5)
        assert await call_status(running) == 200
        for expected in (200, 401):
            tracker.grants[0].access_tokens = set()
            assert await call_status(running) == expected
