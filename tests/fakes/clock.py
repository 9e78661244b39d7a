"""A monotonic clock that a test puts forward."""

import time


class Clock:
    """`ahead_s`: how far it is ahead of the real one, for tests in which time has passed."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s
