"""A bounded number of calls to one provider whose answer is outstanding, so that one that hangs holds up no other."""

import asyncio
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Calls whose answer has not begun, calls that wait for such a place, and seconds that they wait."""

    outstanding: int = 1000
    waiting: int = 5000
    wait_s: float = 10.0


class Full(Exception):
    """There is no place, and none came free in time."""


class Bulkhead:
    """Places of one origin. Whoever entered leaves once, however the call ended."""

    __slots__ = ("_limits", "_queue", "outstanding", "waiting")

    def __init__(self, limits: Limits) -> None:
        self.outstanding = 0
        self.waiting = 0
        self._limits = limits
        self._queue: deque[asyncio.Future[None]] = deque()

    def enter(self) -> bool:
        """Take a place if one is free: two comparisons, nothing to await."""
        if self.outstanding >= self._limits.outstanding:
            return False
        self.outstanding += 1
        return True

    async def wait(self) -> None:
        """Take the next place that comes free, in the order of asking. Raises Full."""
        if self.waiting >= self._limits.waiting:
            raise Full
        place = asyncio.get_running_loop().create_future()
        self._queue.append(place)
        self.waiting += 1
        try:
            async with asyncio.timeout(self._limits.wait_s):
                await place
        except BaseException as ended:
            if place.done() and not place.cancelled():
                self.leave()  # it came in the same moment
            place.cancel()
            if isinstance(ended, TimeoutError):
                raise Full from None
            raise
        finally:
            self.waiting -= 1

    def leave(self) -> None:
        """Give the place to whoever has waited longest, or back."""
        while self._queue:
            place = self._queue.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.outstanding -= 1
