"""CPU work on large inputs runs in a thread, so that the event loop goes on.

One thread, since each further one that computes makes the event loop wait longer for its turn at the interpreter.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

INLINE_BYTES: Final = 64 * 1024
"""Work on an input of up to this size is done at once: handing it over would cost more."""

_THREAD: Final = ThreadPoolExecutor(1, thread_name_prefix="off-loop")


async def off_loop(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns. Calls run one after the other, in the order in which they came."""

    def run() -> T:
        with _without_collector():
            return work(*args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(_THREAD, run)


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
