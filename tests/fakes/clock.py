"""A monotonic clock that a test can set forward."""

import time


class Clock:
    """A clock for tests. `ahead_s`: how many seconds this clock is ahead of the real clock."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s
