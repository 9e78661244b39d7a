"""Measures how long the event loop was blocked: the maximum of the last seconds."""

import asyncio
from collections import deque
from typing import Final

from gateway import clock

INTERVAL_S: Final = 0.25
MEASUREMENTS: Final = 60  # measurements: those of the last 15 s


class LoopLag:
    """Measures the event loop's lag. `longest_s`: 0 until the first measurement."""

    def __init__(self) -> None:
        self._lags_s: deque[float] = deque(maxlen=MEASUREMENTS)

    @property
    def longest_s(self) -> float:
        return max(self._lags_s, default=0.0)

    async def measure(self) -> None:
        """Measure, until cancelled, how much later than planned a sleep ends."""
        while True:
            started = clock.monotonic()
            await asyncio.sleep(INTERVAL_S)
            self._lags_s.append(max(0.0, clock.monotonic() - started - INTERVAL_S))
