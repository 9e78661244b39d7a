"""Measures how long the event loop was blocked, and keeps the longest time of the last 15 seconds."""

import asyncio
from collections import deque
from typing import Final

from gateway import clock

INTERVAL_S: Final = 0.25
MEASUREMENTS: Final = 60  # number of measurements in the last 15 s


class LoopLag:
    """Measures the event loop's lag: how late the loop runs a task that is due.

    `longest_s`: the longest lag of the last 15 seconds; 0 until the first measurement.
    """

    def __init__(self) -> None:
        self._lags_s: deque[float] = deque(maxlen=MEASUREMENTS)

    @property
    def longest_s(self) -> float:
        return max(self._lags_s, default=0.0)

    async def measure(self) -> None:
        """Measure, again and again until cancelled, how much later than planned a sleep ends."""
        while True:
            started_at = clock.monotonic()
            await asyncio.sleep(INTERVAL_S)
            self._lags_s.append(max(0.0, clock.monotonic() - started_at - INTERVAL_S))
