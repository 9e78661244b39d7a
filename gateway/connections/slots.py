"""When renewals that are due together are begun: one after the other, the last of them when it is due.

A token may be renewed somewhat earlier than it is due, never later. So each renewal gets the latest moment, up to when it is
due, that no other has yet: few keep their own moments, and of 10,000 that are due within a minute the first begin a quarter of
an hour ahead of it.
"""

from typing import Final

WIDTH_S: Final = 0.1
SPARE: Final = 1024


class Slots:
    """Moments on the monotonic clock, in seconds, `WIDTH_S` apart. What was taken is not given back; it passes."""

    def __init__(self, width_s: float = WIDTH_S) -> None:
        self._width_s = width_s
        self._before: dict[int, int] = {}  # a slot that is taken ▸ one before it with none that is free in between
        self._most = SPARE

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._before)

    def take(self, due: float, *, earliest: float, now: float) -> float:
        """The latest free moment in `earliest` … `due`; `due` itself where there is none."""
        if len(self._before) >= self._most:
            self._forget(now)
        last = int(due / self._width_s)
        free = self._free(last)
        moment = due if free == last else free * self._width_s
        if moment < max(earliest, now):
            return due
        self._before[free] = free - 1
        return moment

    def _forget(self, now: float) -> None:
        """Those that have passed; seldom, since all are gone through."""
        passed = int(now / self._width_s)
        self._before = {slot: before for slot, before in self._before.items() if slot >= passed}
        self._most = 2 * len(self._before) + SPARE

    def _free(self, last: int) -> int:
        """The latest at `last` or before; the way there is the shorter for who comes next."""
        free, way = last, list[int]()
        while (before := self._before.get(free)) is not None:
            way.append(free)
            free = before
        for slot in way:
            self._before[slot] = free
        return free
