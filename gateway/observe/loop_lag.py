"""How long the event loop kept others waiting: the longest within the last seconds."""

import asyncio
from collections import deque
from typing import Final

from gateway import clock

EVERY_S: Final = 0.25
REMEMBERED: Final = 60  # a quarter of a minute


class LoopLag:
    """`longest_s` is 0 until it has been measured once."""

    def __init__(self) -> None:
        self._late: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def longest_s(self) -> float:
        return max(self._late, default=0.0)

    async def measure(self) -> None:
        """Measure, until cancelled, how much later than planned a pause ends."""
        while True:
            begun = clock.monotonic()
            await asyncio.sleep(EVERY_S)
            self._late.append(max(0.0, clock.monotonic() - begun - EVERY_S))
