"""Runs CPU work on large inputs in a thread, so that the event loop continues.

There is only one thread, because each further busy thread makes the event loop wait longer for the interpreter lock.
"""

import asyncio
import gc
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

P = ParamSpec("P")
T = TypeVar("T")

INLINE_BYTES: Final = 64 * 1024
"""Work on an input of up to this size runs in the event loop, because passing it to the thread would cost more."""

_THREAD: Final = ThreadPoolExecutor(1, thread_name_prefix="off-loop")


class FairTurns:
    """A lock for one holder at a time, shared fairly between names.

    Each waiter has a name, and the names take turns. Waiters with the same name get the lock in order of arrival.
    """

    def __init__(self) -> None:
        self._busy = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the waiters by name, in the order of the turns

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Hold the lock during the block. If another caller holds the lock, wait for the turn of `name` first."""
        if self._busy:
            await self._wait_for_turn(name)
        self._busy = True
        try:
            yield
        finally:
            self._call_next()

    async def _wait_for_turn(self, name: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the turn came at the same moment: give it to the next waiter
                self._call_next()
            raise

    def _call_next(self) -> None:
        """Give the turn to the next waiter. Keep the lock busy, so that no new caller gets ahead of this waiter."""
        self._busy = False
        while self._waiting:
            name = next(iter(self._waiting))
            waiters = self._waiting.pop(name)
            turn = waiters.popleft()
            if waiters:
                self._waiting[name] = waiters  # the next turn of this name comes after all other names
            if not turn.done():
                self._busy = True
                turn.set_result(None)
                return


_TURNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, FairTurns]] = WeakKeyDictionary()


async def off_loop(share: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in the thread and return its result.

    `share`: the key, environment or sender for which the work is done. The shares take turns, so a share with much work
    delays only its own work. Work of one share runs in order of arrival.
    """
    loop = asyncio.get_running_loop()

    def run() -> T:
        with _without_collector():
            return work(*args, **kwargs)

    async with _TURNS.setdefault(loop, FairTurns()).hold(share):
        return await loop.run_in_executor(_THREAD, run)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable the garbage collector during the block.

    The collector would scan the growing result again and again, and all other threads would wait.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
