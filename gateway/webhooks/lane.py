"""How much is sent to one target at a time: less to one that fails, so that it costs the others nothing."""

from dataclasses import dataclass
from typing import Final

from gateway.webhooks.backoff import Answer

AT_ONCE: Final = 8
DOWN_AFTER: Final = 3  # failures in a row, of whatever events
PROBE_S: Final = 2.0
LONGEST_PROBE_S: Final = 60.0


@dataclass(slots=True)
class Pace:
    """Of one lane, in this process. `resting_until`: monotonic seconds."""

    running: int = 0
    failures: int = 0
    resting_until: float = 0.0

    def free(self, now: float) -> int:
        """How many more may be sent."""
        if now < self.resting_until:
            return 0
        return (1 if self.down else AT_ONCE) - self.running

    @property
    def down(self) -> bool:
        return self.failures >= DOWN_AFTER

    def note(self, answer: Answer, now: float) -> bool:
        """Take note of what came of one. True: it was down, and is back."""
        was_down = self.down
        if answer.taken:
            self.failures, self.resting_until = 0, 0.0
            return was_down
        self.failures += 1
        if answer.wait_s is not None:
            self.resting_until = max(self.resting_until, now + min(answer.wait_s, 3600.0))
        elif self.down:
            self.resting_until = now + min(PROBE_S * 2.0 ** min(self.failures - DOWN_AFTER, 10), LONGEST_PROBE_S)
        return False

    def idle(self, now: float) -> bool:
        """Whether there is nothing to remember any more."""
        return not self.running and (not self.failures or now > self.resting_until + LONGEST_PROBE_S)
