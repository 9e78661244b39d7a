"""The memory that paged calls share: bounded, fair to each key, and without deadlocks of waiting calls."""

import asyncio
import random

import pytest

from gateway.egress.page_memory import NoPageMemory, PageMemory

LONG_S = 60.0


async def let_tasks_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_key_reserves_at_most_half_so_another_key_gets_memory_immediately() -> None:
    memory = PageMemory(lambda: 100)
    reservation = [await memory.reserve("a", 25, LONG_S) for _ in range(2)]
    third = asyncio.create_task(memory.reserve("a", 25, LONG_S))
    await let_tasks_run()
    assert not third.done()
    await asyncio.wait_for(memory.reserve("b", 50, LONG_S), LONG_S)
    reservation[0].release()
    assert (await third).size == 25
    assert memory.peak == 100


async def test_freed_memory_is_given_to_the_key_with_the_least_memory() -> None:
    memory, order = PageMemory(lambda: 100), list[str]()
    reservation = [await memory.reserve("a", 20, LONG_S), await memory.reserve("a", 20, LONG_S)]
    reservation += [await memory.reserve("b", 40, LONG_S), await memory.reserve("c", 20, LONG_S)]

    async def reserve_and_record(key: str) -> None:
        await memory.reserve(key, 10, LONG_S)
        order.append(key)

    waiting = [asyncio.create_task(reserve_and_record(key)) for key in ("a", "a", "b", "d")]
    await let_tasks_run()
    assert order == []
    reservation[3].release()
    await let_tasks_run()
    assert order == ["d", "a"]
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert memory.waiting == 0


async def test_large_page_is_not_starved() -> None:
    memory = PageMemory(lambda: 100)
    reservation = [await memory.reserve(key, 30, LONG_S) for key in ("a", "b", "c")]
    large = asyncio.create_task(memory.reserve("d", 50, LONG_S))
    await let_tasks_run()
    small = asyncio.create_task(memory.reserve("e", 10, LONG_S))
    await let_tasks_run()
    assert not small.done()
    reservation[0].release()
    await let_tasks_run()
    reservation[1].release()
    await let_tasks_run()
    assert large.done()
    assert small.done()


async def test_a_call_that_waits_too_long_is_refused_and_reserves_no_memory() -> None:
    memory = PageMemory(lambda: 100)
    reservation = [await memory.reserve("a", 50, LONG_S), await memory.reserve("b", 50, LONG_S)]
    with pytest.raises(NoPageMemory):
        await memory.reserve("c", 50, 0)
    assert memory.waiting == 0
    for item in reservation:
        item.release()
        item.release()
    assert memory.reserved == 0


async def test_single_call_proceeds_with_a_page_above_a_lowered_limit() -> None:
    memory = PageMemory(lambda: 100)
    memory.limit_bytes = lambda: 10
    assert (await memory.reserve("a", 50, LONG_S)).size == 5


async def test_memory_limit_is_kept_in_any_order_and_all_memory_is_released() -> None:
    memory, chance = PageMemory(lambda: 1000), random.Random(7)

    async def call(key: int) -> None:
        for _ in range(20):
            try:
                reservation = await memory.reserve(
                    key, chance.randrange(1, 600), LONG_S if chance.random() < 0.8 else 0
                )
            except NoPageMemory:
                continue
            try:
                assert memory.reserved <= 1000
                await asyncio.sleep(0)
                reservation.shrink(chance.randrange(600))
                await asyncio.sleep(0)
            finally:
                reservation.release()

    tasks = [asyncio.create_task(call(number % 5)) for number in range(40)]
    await asyncio.sleep(0)
    for task in tasks[::7]:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(item is None or isinstance(item, asyncio.CancelledError) for item in ended)
    assert (memory.reserved, memory.waiting) == (0, 0)
