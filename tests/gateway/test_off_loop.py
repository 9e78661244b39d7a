"""Work off the event loop, in rotation by share, so that a caller with much work delays only its own."""

import asyncio
import threading

import pytest

from gateway.off_loop import FairTurns, off_loop


async def test_names_take_turns_in_the_thread() -> None:
    begin, order = threading.Event(), list[str]()
    first = asyncio.create_task(off_loop("busy", begin.wait, 30))
    many = [asyncio.create_task(off_loop("busy", order.append, f"busy {n}")) for n in range(3)]
    others = [asyncio.create_task(off_loop(name, order.append, name)) for name in ("b", "c")]
    await asyncio.sleep(0)
    begin.set()
    await asyncio.gather(first, *many, *others)
    assert order == ["busy 0", "b", "c", "busy 1", "busy 2"]


async def test_exception_is_raised_and_the_next_work_runs() -> None:
    with pytest.raises(ZeroDivisionError):
        await off_loop("a", lambda: 1 // 0)
    assert await off_loop("a", lambda: 1) == 1


async def test_cancelled_waiter_never_gets_the_lock() -> None:
    """The waiter may be cancelled before its turn, or at the moment of its turn."""
    turns, order = FairTurns(), list[str]()

    async def take(name: str) -> None:
        async with turns.hold(name):
            order.append(name)
            await asyncio.sleep(0)

    async with turns.hold("x"):
        tasks = {name: asyncio.create_task(take(name)) for name in "abcd"}
        await asyncio.sleep(0)
        tasks["b"].cancel()
    tasks["a"].cancel()  # its turn has been granted, but it has not run yet
    await asyncio.wait(tasks.values())
    assert order == ["c", "d"]
    await take("again")
    assert order[-1] == "again"
