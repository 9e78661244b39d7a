"""How many retries a provider can be sent: at most a fifth of its requests, and a few besides.

Without it, retries multiply the load of a provider just when it fails under load.
"""

from typing import Final

SHARE: Final = 0.2
MOST: Final = 100.0  # what a busy hour saves up for a bad minute
FLOOR: Final = 10.0
FLOOR_PER_S: Final = 0.5  # so that a provider that is seldom called has its retries too


class Budget:
    """Of one origin. `requests` counts; whoever sends a first attempt adds to it."""

    __slots__ = ("_counted", "_credit", "_seen_at", "requests")

    def __init__(self, now: float) -> None:
        self.requests = 0
        self._counted = 0
        self._credit = FLOOR
        self._seen_at = now

    def take(self, now: float) -> bool:
        """Whether one more retry may be sent now (monotonic seconds); if so it is spent."""
        earned = (self.requests - self._counted) * SHARE
        trickled = max(0.0, min(FLOOR - self._credit, (now - self._seen_at) * FLOOR_PER_S))
        self._credit = min(MOST, self._credit + earned + trickled)
        self._counted, self._seen_at = self.requests, now
        if self._credit < 1:
            return False
        self._credit -= 1
        return True
