"""A monotonic clock that a test can set forward."""

import time


class Clock:
    """`ahead_s`: how many seconds the clock is ahead of the real one."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s
