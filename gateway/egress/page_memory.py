"""Limits the memory for the pages of paged calls. All calls of this process share the limit, fairly for each key.

A call reserves memory before it reads a large page, and waits until enough memory is free. A waiting call has no
memory, so calls cannot deadlock. Free memory goes to the key that has the least. The calls of one key get memory in
the order of their arrival.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from gateway import clock
from gateway.errors import Unavailable

KEY_SHARE: Final = 0.5  # the part of the limit that one key may reserve, so that no key can use the whole limit
RETRY_AFTER_S: Final = 5


class NoPageMemory(Exception):
    """Not enough memory became free in time. `no_page_memory` returns the error for the caller."""


def no_page_memory() -> Unavailable:
    """Return the error 503 ``busy``, with the reason and `retry_at` in its payload."""
    retry_at = clock.now() + timedelta(seconds=RETRY_AFTER_S)
    return Unavailable(
        "busy",
        "All memory for paged and shaped calls is in use (egress.page_memory_bytes). Send fewer at a time, or retry in "
        f"{RETRY_AFTER_S} s.",
        payload={"reason": "too_many_pages", "retry_at": retry_at.isoformat(timespec="milliseconds")},
        retry_after_s=RETRY_AFTER_S,
    )


@dataclass(eq=False, slots=True)
class WaitingPage:
    """A call that waits for memory. `size`: in bytes. `number`: the position in the order of arrival."""

    size: int
    number: int
    admitted: "asyncio.Future[None]" = field(repr=False)


class Reservation:
    """A number of bytes that is reserved for one key until it is released."""

    __slots__ = ("_key", "_memory", "size")

    def __init__(self, memory: "PageMemory", key: Hashable, size: int) -> None:
        self._memory = memory
        self._key = key
        self.size = size

    def shrink(self, size: int) -> None:
        """Release the bytes above `size`."""
        if size < self.size:
            self._memory._release(self._key, self.size - size)
            self.size = size

    def release(self) -> None:
        self.shrink(0)


class PageMemory:
    """The shared memory limit.

    `limit_bytes`: returns the current limit. If the limit changes, existing reservations stay. `reserved`: number of
    bytes reserved now. `peak`: the highest value of `reserved` so far.
    """

    def __init__(self, limit_bytes: Callable[[], int]) -> None:
        self.limit_bytes = limit_bytes
        self.reserved = 0
        self.peak = 0
        self._bytes_by_key: dict[Hashable, int] = {}
        self._queues: dict[Hashable, deque[WaitingPage]] = {}
        self._arrivals = 0

    async def reserve(self, key: Hashable, size: int, wait_s: float) -> Reservation:
        """Reserve `size` bytes for `key`, and wait until they are free. Raises NoPageMemory after `wait_s` seconds.

        If `size` exceeds the key's share, only the share is reserved, so that a single call can always proceed.
        """
        size = min(size, self._share)
        self._arrivals += 1
        waiting_page = WaitingPage(size, self._arrivals, asyncio.get_running_loop().create_future())
        self._queues.setdefault(key, deque()).append(waiting_page)
        self._admit()
        try:
            async with asyncio.timeout(wait_s):
                await waiting_page.admitted
        except BaseException as fault:
            if waiting_page.admitted.done() and not waiting_page.admitted.cancelled():
                self._release(key, size)  # the memory was reserved at the same moment
            else:
                self._stop_waiting(key, waiting_page)
            if isinstance(fault, TimeoutError):
                raise NoPageMemory from None
            raise
        return Reservation(self, key, size)

    @property
    def waiting(self) -> int:
        """Number of calls that wait for memory."""
        return sum(map(len, self._queues.values()))

    @property
    def _share(self) -> int:
        return int(self.limit_bytes() * KEY_SHARE)

    def _release(self, key: Hashable, size: int) -> None:
        self.reserved -= size
        bytes_left = self._bytes_by_key[key] - size
        if bytes_left:
            self._bytes_by_key[key] = bytes_left
        else:
            del self._bytes_by_key[key]
        self._admit()

    def _stop_waiting(self, key: Hashable, waiting_page: WaitingPage) -> None:
        queue = self._queues.get(key, ())
        if waiting_page in queue:
            self._unqueue(key, waiting_page)
        self._admit()  # the call that gave up might have blocked other calls

    def _unqueue(self, key: Hashable, waiting_page: WaitingPage) -> None:
        queue = self._queues[key]
        queue.remove(waiting_page)
        if not queue:
            del self._queues[key]

    def _admit(self) -> None:
        """Reserve memory for the next calls, until too little memory is free.

        If there is not enough memory for the next call, later calls wait too, even if they need less memory.
        """
        while True:
            key = self._next_key()
            if key is None:
                return
            next_call = self._queues[key][0]
            if next_call.admitted.done():  # the call has just been cancelled
                self._unqueue(key, next_call)
                continue
            if self.reserved + next_call.size > self.limit_bytes():
                return
            self._unqueue(key, next_call)
            self.reserved += next_call.size
            self.peak = max(self.peak, self.reserved)
            self._bytes_by_key[key] = self._bytes_by_key.get(key, 0) + next_call.size
            next_call.admitted.set_result(None)

    def _next_key(self) -> Hashable | None:
        """Return the key that gets memory next, or None.

        The result is the key with the least memory, among the keys with a waiting call that fits into their share.
        """
        ranks = [
            (self._bytes_by_key.get(key, 0), queue[0].number, key)
            for key, queue in self._queues.items()
            if self._bytes_by_key.get(key, 0) + queue[0].size <= self._share
        ]
        return min(ranks, key=lambda rank: rank[:2])[2] if ranks else None
