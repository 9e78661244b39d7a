"""Measures how long the event loop was blocked: the maximum of the last seconds."""

import asyncio
from collections import deque
from typing import Final

from gateway import clock

EVERY_S: Final = 0.25
REMEMBERED: Final = 60  # measurements: those of the last 15 s


class LoopLag:
    """Measures the event loop's lag. `longest_s`: 0 until the first measurement."""

    def __init__(self) -> None:
        self._late: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def longest_s(self) -> float:
        return max(self._late, default=0.0)

    async def measure(self) -> None:
        """Measure, until cancelled, how much later than planned a sleep ends."""
        while True:
            begun = clock.monotonic()
            await asyncio.sleep(EVERY_S)
            self._late.append(max(0.0, clock.monotonic() - begun - EVERY_S))
