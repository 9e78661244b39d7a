"""Counts events by key within a time window, in this process."""

import math
from collections.abc import Hashable
from typing import Generic, TypeVar

from gateway import clock

Key = TypeVar("Key", bound=Hashable)


class WindowCounter(Generic[Key]):
    """Counts by key within a window of `window_s` seconds.

    All counts restart together: `restart_if_over` starts a new window if the old window is over.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._counts: dict[Key, int] = {}
        self._began_at = -math.inf

    def restart_if_over(self) -> None:
        """Start a new window without counts, if the current window is over.

        Call this before a decision about a count.
        """
        now = clock.monotonic()
        if now - self._began_at >= self._window_s:
            self._began_at = now
            self._counts.clear()

    @property
    def left_s(self) -> int:
        """Seconds until the window ends, rounded up, at least 1."""
        return max(1, math.ceil(self._began_at + self._window_s - clock.monotonic()))

    def __len__(self) -> int:
        return len(self._counts)

    def __contains__(self, key: Key) -> bool:
        return key in self._counts

    def __getitem__(self, key: Key) -> int:
        return self._counts.get(key, 0)

    def add(self, key: Key) -> int:
        """Count one event of `key`; return its new count."""
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return count

    def subtract(self, key: Key) -> None:
        """Take back one event of `key`.

        Does nothing if the count is zero, for example because a new window has started.
        """
        if self._counts.get(key):
            self._counts[key] -= 1
