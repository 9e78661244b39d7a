"""Totals of the call log equal the sum of its rows, in both databases and with several writers.

Totals and rows are pruned together.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway import clock
from gateway.records.operation import Operation
from gateway.records.traffic import SLOT_S, TIMES_MS, quantile_ms
from gateway.store import Store
from gateway.store.call_log.call_log_store import CallLogBounds

START = datetime(2026, 1, 2, 3, 0, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def fix_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: START + timedelta(hours=6))


def operation(number: int = 0, **fields: Any) -> Operation:
    at = START + timedelta(seconds=number)
    plain = Operation("call", at, f"r{number}", "dev", "jira", "u1", "GET", status=200, gateway_ms=0.5, token_ms=1.0)
    return plain._replace(**{"upstream_ms": 40.0, **fields})


async def test_operations_are_summed_by_slot_and_by_result(store: Store) -> None:
    assert await store.call_log.totals("dev", START) == type(await store.call_log.totals("dev", START))()
    rows = [operation(n) for n in range(0, 3 * SLOT_S, 60)]
    rows += [operation(5, status=429), operation(6, status=502, error_code="upstream_timeout", upstream_ms=9000.0)]
    rows += [operation(7, kind="refresh", error_code="invalid_grant", status=0, upstream_ms=None)]
    rows += [operation(8, environment="prod")]
    await store.call_log.add_many(rows[:20])
    await store.call_log.add_many(rows[20:])
    found = await store.call_log.totals("dev", START)
    assert [(slot.at, slot.calls, slot.failed) for slot in found.slots] == [
        (START, 17, 2),
        (START + timedelta(seconds=SLOT_S), 15, 0),
        (START + timedelta(seconds=2 * SLOT_S), 15, 0),
    ]
    assert (found.slots[1].timed, found.slots[1].token_ms, found.slots[1].upstream_ms) == (15, 15.0, 600.0)
    places = {(place.kind, place.integration_id, place.reason): place for place in found.places}
    assert {key: place.calls for key, place in places.items()} == {
        ("call", "jira", ""): 45,
        ("call", "jira", "429"): 1,
        ("call", "jira", "upstream_timeout"): 1,
        ("refresh", "jira", "invalid_grant"): 1,
    }
    well = places["call", "jira", ""]
    assert (well.last_at, well.times[TIMES_MS.index(50)]) == (rows[44].at, 45)
    later = await store.call_log.totals("dev", START + timedelta(seconds=SLOT_S))
    assert [slot.at for slot in later.slots] == [slot.at for slot in found.slots[1:]]


async def test_several_writers_add_to_the_same_sums(store: Store) -> None:
    await asyncio.gather(*(store.call_log.add_many([operation(n), operation(n + 900)]) for n in range(20)))
    assert [slot.calls for slot in (await store.call_log.totals("dev", START)).slots] == [20, 20]


async def test_sums_end_with_the_rows_of_their_time(store: Store) -> None:
    await store.call_log.add_many([operation(0), operation(3 * 3600)])
    store.call_log.bounds = CallLogBounds(keep_days=4 / 24)
    await store.call_log.prune(clock.now())
    assert [slot.calls for slot in (await store.call_log.totals("dev", START)).slots] == [1]


def test_a_quantile_is_the_end_of_its_class() -> None:
    times = [0] * (len(TIMES_MS) + 1)
    assert quantile_ms(times, 0.95) is None
    times[3], times[5], times[-1] = 94, 5, 1
    assert [quantile_ms(times, share) for share in (0.5, 0.95, 1.0)] == [50, 250, None]
