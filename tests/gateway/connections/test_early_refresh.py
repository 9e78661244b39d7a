"""The provider rejects a token before its expiry: one refresh serves all waiting calls, and refreshes never loop."""

import asyncio
from typing import Any

from gateway.connections import rejected_credentials
from tests.fakes.gateways import RunningGateway
from tests.fakes.tracker import Tracker


async def statuses(running: RunningGateway, count: int = 1, method: str = "GET") -> list[int]:
    async def call_once() -> int:
        async with running.call_proxy("c1", method=method) as response:
            await response.read()
            status: int = response.status
            return status

    return list(await asyncio.gather(*(call_once() for _ in range(count))))


async def connect_and_withdraw_token(running: RunningGateway, tracker: Tracker) -> None:
    """Import a connection, use it, and withdraw its access token at the provider."""
    tracker.refusal = 401
    await running.import_connection(tracker.grant())
    assert await statuses(running) == [200]
    tracker.grants[0].access_tokens = set()


async def test_fifty_calls_with_a_withdrawn_token_cause_one_refresh_and_all_succeed(
    running: RunningGateway, tracker: Tracker
) -> None:
    await connect_and_withdraw_token(running, tracker)
    assert await statuses(running, 50) == [200] * 50
    assert tracker.calls["refresh_token"] == 1


async def test_post_gets_the_401_and_the_next_call_uses_the_new_token(
    running: RunningGateway, tracker: Tracker
) -> None:
    await connect_and_withdraw_token(running, tracker)
    assert await statuses(running, method="POST") == [401]
    await running.runtime.live.early_refreshes.wait_until_idle()
    assert await statuses(running, method="POST") == [200]
    assert tracker.calls["refresh_token"] == 1


async def test_second_401_shortly_after_an_early_refresh_causes_no_refresh(
    running: RunningGateway, tracker: Tracker, advance_clock: Any
) -> None:
    await connect_and_withdraw_token(running, tracker)
    assert await statuses(running) == [200]
    tracker.grants[0].access_tokens = set()
    for _ in range(5):
        assert await statuses(running) == [401]
    assert tracker.calls["refresh_token"] == 1
    advance_clock(rejected_credentials.REFRESH_INTERVAL.total_seconds() + 1)
    assert await statuses(running) == [200]
    assert tracker.calls["refresh_token"] == 2


async def test_revoked_grant_is_refreshed_once_and_the_401_is_returned(
    running: RunningGateway, tracker: Tracker
) -> None:
    await connect_and_withdraw_token(running, tracker)
    tracker.grants[0].revoked = True
    assert await statuses(running, 10) == [401] * 10
    assert await statuses(running) == [401]
    assert tracker.calls["refresh_token"] == 1


async def test_401_is_returned_if_there_is_no_refresh_token(running: RunningGateway, tracker: Tracker) -> None:
    grant = tracker.grant()
    del grant["refresh_token"]
    await running.import_connection(grant)
    tracker.grants[0].access_tokens = set()
    tracker.refusal = 401
    assert await statuses(running, 5) == [401] * 5
    assert tracker.calls["refresh_token"] == 0
