"""The budget of a key: a worker reserves a part of the budget in the store, and subtracts each call from its part."""

import asyncio

import pytest

from gateway.access.caller import MAX_RESERVED, Meter
from gateway.errors import Forbidden, Unavailable


class Budget:
    """A fake store with `left` calls. Like `store.keys.reserve_calls`, it returns a twentieth of the calls at a time."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.asked: list[int] = []
        self.away = False
        self.open = asyncio.Event()
        self.open.set()

    async def reserve_calls(self, limit: int) -> int:
        self.asked.append(limit)
        await self.open.wait()
        if self.away:
            raise Unavailable("store_unavailable", "The store is away.")
        taken = limit if limit < 0 else min(limit, max(1, self.left // 20), self.left)
        self.left -= taken
        return taken

    def meter(self) -> Meter:
        return Meter(None, self.left, self.reserve_calls)


async def run_loop(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_no_call_of_a_large_budget_waits_for_the_store_after_the_first() -> None:
    budget = Budget(100_000)
    meter = budget.meter()
    assert meter.count() == (False, None)
    await meter.count_against_budget()
    for _ in range(5000):
        assert meter.count() == (True, None)
        await run_loop()
    await meter.return_unspent()
    assert budget.left == 100_000 - 5001


async def test_budget_that_a_cancelled_call_has_reserved_is_not_lost() -> None:
    budget = Budget(2000)
    # A write of the store continues if its caller is cancelled.
    meter = Meter(None, 2000, lambda limit: asyncio.shield(budget.reserve_calls(limit)))
    budget.open.clear()
    call = asyncio.create_task(meter.count_against_budget())
    await run_loop()
    call.cancel()
    await asyncio.wait({call})
    budget.open.set()
    await meter.count_against_budget()
    await meter.return_unspent()
    assert budget.left == 1999


async def test_small_budget_is_reserved_only_when_needed() -> None:
    budget = Budget(30)
    meter = budget.meter()
    for _ in range(30):
        await meter.count_against_budget()
        await run_loop()
    assert (budget.left, len(budget.asked)) == (0, 30)
    with pytest.raises(Forbidden):
        await meter.count_against_budget()


async def test_reservation_during_a_stop_is_returned() -> None:
    budget = Budget(100_000)
    meter = budget.meter()
    await meter.count_against_budget()
    budget.open.clear()
    for _ in range(MAX_RESERVED // 2):
        assert meter.count()[0]
    await run_loop()
    assert len(budget.asked) == 2
    giving = asyncio.create_task(meter.return_unspent())
    await run_loop()
    budget.open.set()
    await giving
    assert budget.left == 100_000 - 1 - MAX_RESERVED // 2


async def test_call_without_reserved_budget_gets_an_error_when_the_store_is_down() -> None:
    budget = Budget(100_000)
    meter = budget.meter()
    await meter.count_against_budget()
    budget.away = True
    for _ in range(MAX_RESERVED - 1):
        assert meter.count()[0]
        await run_loop()
    assert len(budget.asked) == 2
    assert meter.count() == (False, None)
    with pytest.raises(Unavailable):
        await meter.count_against_budget()
    budget.away = False
    await meter.count_against_budget()
    assert meter.count()[0]
