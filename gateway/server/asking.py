"""How a worker tells its parent which master keys it misses: the ids through a pipe, and a signal that says so.

The parent looks for a key ever more rarely while it does not come, however many workers ask.
"""

import contextlib
import os
import weakref
from collections.abc import Collection
from typing import Final

from gateway.server.workers import ASKED
from gateway.store.missing_keys import FIRST_PAUSE_S, LONGEST_PAUSE_S, Pauses

SHORTER: Final = 0.8  # than a worker's own pauses, so that one worker's wish never comes just before its time
AT_ONCE: Final = 100  # ids of 16 characters: what is written at once arrives whole (PIPE_BUF)
PIPE_BYTES: Final = 2**16


class Asking:
    """Made before workers are forked. A pipe that is full loses a wish, which is repeated."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        for end in (self._reading, self._writing):
            os.set_blocking(end, False)
            weakref.finalize(self, os.close, end)
        self._pauses = Pauses(first_s=SHORTER * FIRST_PAUSE_S, longest_s=SHORTER * LONGEST_PAUSE_S)

    def ask(self, parent: int, ids: Collection[str]) -> None:
        """In a worker: have the process `parent` look for these."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._writing, " ".join([*sorted(ids)[:AT_ONCE], ""]).encode())
        os.kill(parent, ASKED)

    def due(self) -> list[str]:
        """In the parent: which of those that were asked for since the last call are worth looking for."""
        try:
            told = os.read(self._reading, PIPE_BYTES).decode()
        except BlockingIOError:
            return []
        return self._pauses.due(set(told.split()))
