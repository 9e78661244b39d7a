"""The limits of each provider: concurrency, circuit breaker, retry budget."""

import asyncio
import gc
from contextlib import suppress

import pytest

from gateway.egress.egress_errors import CallNotAttempted
from gateway.egress.limits import (
    ALLOWANCE,
    FAILURE_WINDOW_S,
    FAILURES_TO_OPEN,
    OPEN_S,
    CircuitBreaker,
    ConcurrencyLimit,
    ConcurrencySettings,
    EgressLimits,
    NoFreePlace,
    OriginLimits,
    RetryBudget,
)

ORIGIN = ("https", "api.example.com", 443)


async def run_ready_tasks() -> None:
    """Let every ready task run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_waiting_calls_proceed_in_order() -> None:
    concurrency = ConcurrencyLimit(ConcurrencySettings(1, 5, 10))
    assert concurrency.try_acquire()
    assert not concurrency.try_acquire()
    order: list[int] = []

    async def call(number: int) -> None:
        await concurrency.acquire()
        order.append(number)
        concurrency.release()

    tasks = [asyncio.create_task(call(number)) for number in range(3)]
    await run_ready_tasks()
    assert concurrency.waiting == 3
    concurrency.release()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2]
    assert (concurrency.outstanding, concurrency.waiting) == (0, 0)


async def test_cancelled_call_releases_its_place_even_if_it_was_just_granted() -> None:
    concurrency = ConcurrencyLimit(ConcurrencySettings(1, 5, 10))
    concurrency.try_acquire()
    impatient, late = (asyncio.create_task(concurrency.acquire()) for _ in range(2))
    await run_ready_tasks()
    impatient.cancel()
    await run_ready_tasks()
    concurrency.release()
    await late
    third = asyncio.create_task(concurrency.acquire())
    await run_ready_tasks()
    concurrency.release()
    third.cancel()  # the place is granted at the moment in which the waiting call is cancelled
    with suppress(asyncio.CancelledError):
        await third
    assert (concurrency.outstanding, concurrency.waiting) == (0, 0)


def futures() -> int:
    gc.collect()
    return sum(type(item) is asyncio.Future for item in gc.get_objects())


async def test_cancelled_calls_leave_no_objects_in_the_queue() -> None:
    concurrency = ConcurrencyLimit(ConcurrencySettings(1, 60, 10))
    concurrency.try_acquire()
    first = asyncio.create_task(concurrency.acquire())
    await run_ready_tasks()
    before = futures()
    impatient = [asyncio.create_task(concurrency.acquire()) for _ in range(50)]
    await run_ready_tasks()
    last = asyncio.create_task(concurrency.acquire())
    await run_ready_tasks()
    for _ in range(50):
        impatient.pop().cancel()
    await run_ready_tasks()
    assert (concurrency.waiting, futures() - before) == (2, 1)
    concurrency.release()
    await first
    concurrency.release()
    await last
    assert (concurrency.outstanding, concurrency.waiting) == (1, 0)


async def test_the_queue_is_bounded_in_length_and_in_time() -> None:
    concurrency = ConcurrencyLimit(ConcurrencySettings(1, 1, 0))
    concurrency.try_acquire()
    with pytest.raises(NoFreePlace):
        await concurrency.acquire()
    full = ConcurrencyLimit(ConcurrencySettings(1, 0, 10))
    full.try_acquire()
    with pytest.raises(NoFreePlace):
        await full.acquire()
    assert (concurrency.outstanding, concurrency.waiting, full.outstanding) == (1, 0, 1)


async def test_new_limits_apply_to_waiting_and_outstanding_calls() -> None:
    egress_limits = EgressLimits(ConcurrencySettings(1, 5, 10))
    concurrency = egress_limits.for_origin(ORIGIN).concurrency
    assert concurrency.try_acquire()
    waiting = [asyncio.create_task(concurrency.acquire()) for _ in range(3)]
    await run_ready_tasks()
    egress_limits.apply_settings(ConcurrencySettings(3, 5, 10))
    await run_ready_tasks()
    assert (concurrency.outstanding, concurrency.waiting) == (3, 1)
    egress_limits.apply_settings(ConcurrencySettings(1, 5, 10))
    concurrency.release()
    concurrency.release()
    await run_ready_tasks()
    assert (concurrency.outstanding, concurrency.waiting) == (1, 1), (
        "above the new, lower limit, a released place goes to no waiting call"
    )
    concurrency.release()
    await asyncio.gather(*waiting)
    assert (concurrency.outstanding, concurrency.waiting) == (1, 0)
    assert egress_limits.for_origin(("https", "other.example", 443)).concurrency.limits == ConcurrencySettings(1, 5, 10)


async def test_refused_call_gets_a_retry_time() -> None:
    gate = OriginLimits(ORIGIN, ConcurrencySettings(1, 0, 0))
    await gate.acquire()
    with pytest.raises(CallNotAttempted, match=r"api\.example\.com") as refused:
        await gate.acquire()
    assert (refused.value.reason, refused.value.sent) == ("too_many_outstanding", False)
    assert refused.value.retry_after_s > 0


def test_the_breaker_opens_after_20_failures_in_10_s() -> None:
    slow, fast = CircuitBreaker(), CircuitBreaker()
    for number in range(FAILURES_TO_OPEN * 3):
        assert not slow.record_failure(number * FAILURE_WINDOW_S / (FAILURES_TO_OPEN - 2), probe=False)
    opened = [fast.record_failure(number * 0.01, probe=False) for number in range(FAILURES_TO_OPEN)]
    assert opened == [False] * (FAILURES_TO_OPEN - 1) + [True]
    assert slow.is_closed
    assert not fast.is_closed


def test_one_failing_resource_of_a_working_provider_does_not_open_the_circuit() -> None:
    breaker = CircuitBreaker()
    for number in range(FAILURES_TO_OPEN * 5):
        breaker.responses += 2
        assert not breaker.record_failure(number * 0.01, probe=False)


def test_half_open_circuit_lets_one_call_try_and_others_wait() -> None:
    breaker = CircuitBreaker()
    for _ in range(FAILURES_TO_OPEN):
        breaker.record_failure(100.0, probe=False)
    assert breaker.try_probe_s(110.0) == OPEN_S - 10
    assert breaker.try_probe_s(100 + OPEN_S) == 0
    assert breaker.try_probe_s(100 + OPEN_S) > 0
    breaker.end_probe_without_result()
    assert breaker.try_probe_s(100 + OPEN_S) == 0
    assert breaker.record_failure(100 + OPEN_S, probe=True)
    assert breaker.try_probe_s(101 + OPEN_S) == OPEN_S - 1
    assert breaker.try_probe_s(100 + 2 * OPEN_S) == 0
    breaker.record_recovery()
    assert breaker.is_closed


async def test_an_open_circuit_refuses_calls_and_a_response_to_the_probe_closes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("gateway.clock.monotonic", lambda: now)
    gate = OriginLimits(ORIGIN, ConcurrencySettings())
    for _ in range(FAILURES_TO_OPEN):
        gate.release("failed", probe=await gate.acquire())
    with pytest.raises(CallNotAttempted) as refused:
        await gate.acquire()
    assert (refused.value.reason, refused.value.retry_after_s) == ("provider_unreachable", OPEN_S)
    now += OPEN_S
    assert await gate.acquire()
    with pytest.raises(CallNotAttempted):
        await gate.acquire()
    gate.release("responded", probe=True)
    assert not await gate.acquire()
    gate.release("unknown", probe=False)
    assert gate.concurrency.outstanding == 0


def test_retries_are_limited_to_a_fifth_of_the_requests_plus_an_allowance() -> None:
    budget = RetryBudget(0.0)
    assert [budget.try_spend(0.0) for _ in range(int(ALLOWANCE) + 2)] == [True] * int(ALLOWANCE) + [False] * 2
    budget.requests += 50
    assert [budget.try_spend(0.0) for _ in range(11)] == [True] * 10 + [False]
    assert [budget.try_spend(4.0) for _ in range(3)] == [True, True, False]


def test_limits_without_state_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.egress.limits.MAX_ORIGINS", 3)
    egress_limits = EgressLimits()
    busy = egress_limits.for_origin(("https", "busy.example", 443))
    busy.concurrency.try_acquire()
    for number in range(20):
        egress_limits.for_origin(("https", f"{number}.example", 443))
    assert egress_limits.for_origin(("https", "busy.example", 443)) is busy
    assert len(list(egress_limits)) <= 4
