"""Growing pauses between attempts to find something, for example a missing master key."""

from collections.abc import Collection
from typing import Final

from gateway import clock

FIRST_PAUSE_S: Final = 5.0
MAX_PAUSE_S: Final = 60.0


class Pauses:
    """Remembers, for the id of each missing master key, when to look for the key again."""

    def __init__(self, *, first_s: float = FIRST_PAUSE_S, max_pause_s: float = MAX_PAUSE_S) -> None:
        self._first_s, self._max_pause_s = first_s, max_pause_s
        self._next_attempts: dict[
            str, tuple[float, float]
        ] = {}  # by id: time of the next attempt, pause after it (seconds)

    def due(self, ids: Collection[str]) -> list[str]:
        """Return the ids in `ids` that are due now, sorted. Each returned id starts a pause.

        Each pause of an id is twice as long as its previous pause, up to the longest pause.
        """
        now = clock.monotonic()
        due_ids = sorted(key_id for key_id in ids if now >= self._next_attempts.get(key_id, (0.0, 0.0))[0])
        for key_id in due_ids:
            pause_s = self._next_attempts.get(key_id, (0.0, self._first_s))[1]
            self._next_attempts[key_id] = now + pause_s, min(2 * pause_s, self._max_pause_s)
        return due_ids
