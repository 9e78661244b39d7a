"""Growing pauses between attempts to find something, for example a missing master key."""

from collections.abc import Collection
from typing import Final

from gateway import clock

FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 60.0


class Pauses:
    """Remembers, for each missing master key by its id, when to look for it again."""

    def __init__(self, *, first_s: float = FIRST_PAUSE_S, longest_s: float = LONGEST_PAUSE_S) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._next: dict[str, tuple[float, float]] = {}  # earliest next time (monotonic), pause after that

    def due(self, ids: Collection[str]) -> list[str]:
        """Return those of `ids` that are due now, sorted; the next pause of each is twice as long as its last one."""
        now = clock.monotonic()
        due = sorted(key_id for key_id in ids if now >= self._next.get(key_id, (0.0, 0.0))[0])
        for key_id in due:
            pause_s = self._next.get(key_id, (0.0, self._first_s))[1]
            self._next[key_id] = now + pause_s, min(2 * pause_s, self._longest_s)
        return due
