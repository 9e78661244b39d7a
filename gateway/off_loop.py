"""CPU work on large inputs runs in a thread, so that the event loop goes on.

One thread, since each further one that computes makes the event loop wait longer for its turn at the interpreter.
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
"""Work on an input of up to this size is done at once: handing it over would cost more."""

_THREAD: Final = ThreadPoolExecutor(1, thread_name_prefix="off-loop")


class FairTurns:
    """A lock for one holder at a time; waiters take turns by their name, and those of one name in the order they came."""

    def __init__(self) -> None:
        self._busy = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # in the order in which their names have a turn

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        if self._busy:
            await self._called_up(name)
        self._busy = True
        try:
            yield
        finally:
            self._call_next()

    async def _called_up(self, name: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # called up in the same moment: the next one's then
                self._call_next()
            raise

    def _call_next(self) -> None:
        """Keeps the turn busy for the one that is called, so that nobody slips in between."""
        self._busy = False
        while self._waiting:
            name = next(iter(self._waiting))
            line = self._waiting.pop(name)
            turn = line.popleft()
            if line:
                self._waiting[name] = line  # behind all other names
            if not turn.done():
                self._busy = True
                turn.set_result(None)
                return


_TURNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, FairTurns]] = WeakKeyDictionary()


async def off_loop(share: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in the thread for slow work, and return its result.

    `share`: the key, environment or sender it is done for; one with much work delays its own. Work of one share is done
    in the order in which it came; several shares take turns.

    Work of one share is done in the order in which it came; several shares have their turns in rotation.
    """
    loop = asyncio.get_running_loop()

    def run() -> T:
        with _without_collector():
            return work(*args, **kwargs)

    async with _TURNS.setdefault(loop, FairTurns()).turn(share):
        return await loop.run_in_executor(_THREAD, run)


@contextmanager
def _without_collector() -> Iterator[None]:
    """The garbage collector would walk all that is being built, again and again, while all other threads stand still."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
