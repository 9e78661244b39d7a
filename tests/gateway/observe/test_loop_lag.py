"""Measures how long the event loop was blocked."""

import asyncio

import pytest

from gateway import clock
from gateway.observe.loop_lag import INTERVAL_S, MEASUREMENTS, LoopLag


async def test_the_longest_delay_is_reported_until_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    now, delays, lag = [0.0], [0.7, *[0.0] * (MEASUREMENTS - 1), 0.1], LoopLag()
    assert lag.longest_s == 0.0
    seen: list[float] = []

    async def sleep(seconds: float) -> None:
        assert seconds == INTERVAL_S
        if not delays:
            raise asyncio.CancelledError
        seen.append(lag.longest_s)
        now[0] += seconds + delays.pop(0)

    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    monkeypatch.setattr("gateway.observe.loop_lag.asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await lag.measure()
    assert seen[0] == 0.0
    assert seen[-1] == pytest.approx(0.7)
    assert lag.longest_s == pytest.approx(0.1)  # the long delay is too old to be counted
