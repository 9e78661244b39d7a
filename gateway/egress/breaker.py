"""Stops asking a provider that is down, so that nobody waits for what cannot come.

It opens when a provider cannot be reached, resets or stays silent 20 times within 10 s, and when that happened more
often than it answered: one bad resource of a provider that works does not shut it for all who use it. What a provider
answers, a 500 too, proves that it is there.
"""

from collections import deque
from typing import Final

FAILURES: Final = 20
WITHIN_S: Final = 10.0
OPEN_S: Final = 30.0
PROBE_S: Final = 1  # while one call tries, the others are told to come back in so many seconds


class Breaker:
    """Of one origin. Times are monotonic seconds.

    `answers` counts; whoever reads a call's answer adds to it. `open_until` is 0.0 while calls pass without a question.
    """

    __slots__ = ("_failures", "_probing", "answers", "open_until")

    def __init__(self) -> None:
        self.answers = 0
        self._failures: deque[tuple[float, int]] = deque(maxlen=FAILURES)
        self.open_until = 0.0
        self._probing = False

    @property
    def closed(self) -> bool:
        """Whether calls pass without a question."""
        return self.open_until == 0.0

    def refusal_s(self, now: float) -> float:
        """0: this call is the one that tries whether the provider is back. Else the seconds until the next may."""
        if now < self.open_until:
            return self.open_until - now
        if self._probing:
            return PROBE_S
        self._probing = True
        return 0.0

    def failed(self, now: float, *, probe: bool) -> bool:
        """Note a call that got no answer. True: this one opened it."""
        if probe:
            self.open_until, self._probing = now + OPEN_S, False
            return True
        if not self.closed:
            return False
        failures = self._failures
        failures.append((now, self.answers))
        first_at, answers_then = failures[0]
        if len(failures) < FAILURES or now - first_at > WITHIN_S or self.answers - answers_then >= FAILURES:
            return False
        failures.clear()
        self.open_until = now + OPEN_S
        return True

    def recovered(self) -> None:
        """The call that tried got an answer."""
        self.open_until, self._probing = 0.0, False
        self._failures.clear()

    def untold(self) -> None:
        """The call that tried ended without telling anything, as when its caller left: the next one tries."""
        self._probing = False

    def idle(self, now: float) -> bool:
        """Whether it holds nothing worth remembering."""
        return self.closed and (not self._failures or now - self._failures[-1][0] > WITHIN_S)
