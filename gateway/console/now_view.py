"""The console's page Now: what an operator must act on, the most urgent first, and numbers of the calls in 24 hours."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.api.connection_json import timestamp_with_offset
from gateway.console.alarms import alarms, store_healthy
from gateway.console.authorization_counts import advice_for, authorization_counts
from gateway.console.charts import Bar, areas, bars
from gateway.console.connection_views import summary
from gateway.console.console_page import WITHIN, LivePart, View, console_path
from gateway.console.event_views import delivery_fields
from gateway.console.failure_causes import failures
from gateway.errors import Unavailable
from gateway.records.event import DeliveryState
from gateway.records.traffic import SLOT_S, SlotTotal, Traffic, quantile_ms
from gateway.runtime import RUNTIME, Runtime
from gateway.store import EventFilter, ListFilter

ROWS_PER_TABLE: Final = 10
LIVE_S: Final = 15
ENDING_WITHIN: Final = timedelta(days=7)
SLOTS_A_BAR: Final = 2
BARS: Final = int(WITHIN.total_seconds()) // SLOT_S // SLOTS_A_BAR
PARTS: Final = {"gateway": "gateway_ms", "token": "token_ms", "provider": "upstream_ms"}


async def now(request: web.Request, environment: str) -> View:
    runtime, moment = request.app[RUNTIME], clock.now()
    store = runtime.store
    problems = alarms(runtime)
    connections_in_trouble, ending_connections, dead_deliveries, backlog, counts, totals = await asyncio.gather(
        store.connections.list(environment, ListFilter(in_trouble=True, limit=ROWS_PER_TABLE + 1)),
        store.connections.list(
            environment, ListFilter(dies_after=moment, dies_before=moment + ENDING_WITHIN, limit=ROWS_PER_TABLE)
        ),
        store.event_log.list(EventFilter(environment=environment, state=DeliveryState.DEAD, limit=ROWS_PER_TABLE + 1)),
        store.deliveries.backlog(),
        authorization_counts(runtime, environment),
        _day(runtime, environment, moment, problems),
    )
    waiting_queues = [queue for queue in backlog if queue.environment == environment]
    failed = failures(totals.places, moment, store_healthy=store_healthy(runtime))
    data = {
        "title": "Now",
        "as_of": moment.isoformat(timespec="seconds"),
        "alarms": problems,
        "left_alone": sorted(gate.name for gate in runtime.egress_limits if not gate.breaker.is_closed),
        "unauthorized": [
            {
                "integration": hour.integration_id,
                "what": hour.sentence(),
                "do": advice_for(runtime.generation, hour, environment),
            }
            for hour in counts.values()
            if hour.too_few
        ],
        "trouble": [summary(connection) for connection in connections_in_trouble[:ROWS_PER_TABLE]],
        "more_trouble": len(connections_in_trouble) > ROWS_PER_TABLE,
        "ending": [summary(connection) for connection in ending_connections],
        "dead": [delivery_fields(delivery) for delivery in dead_deliveries[:ROWS_PER_TABLE]],
        "more_dead": len(dead_deliveries) > ROWS_PER_TABLE,
        "waiting": [
            {"events": queue.pending, "oldest_at": timestamp_with_offset(queue.oldest_at)} for queue in waiting_queues
        ],
        "failures": [
            {**row, "known": runtime.generation.integrations.has(environment, row["integration"])}
            for row in failed[:ROWS_PER_TABLE]
        ],
        "more_failures": max(len(failed) - ROWS_PER_TABLE, 0),
        "traffic": traffic(totals, moment),
    }
    live_part = (
        None if request.query.get("still") else LivePart("now_live.html", console_path(request, environment), LIVE_S)
    )
    return View("now.html", data, live=live_part)


async def _day(runtime: Runtime, environment: str, moment: datetime, problems: list[dict[str, str]]) -> Traffic:
    """Return the totals of the last 24 hours.

    If the call log cannot be read, return empty totals and add an alarm to `problems`.
    """
    try:
        return await runtime.store.call_log.totals(environment, moment - WITHIN)
    except Unavailable as fault:
        problems.append({"what": fault.message, "do": "Check its disk. Calls meanwhile are not logged."})
        return Traffic()


def traffic(totals: Traffic, moment: datetime) -> dict[str, Any] | None:
    """Return the numbers of the last 24 hours' calls: total, failed, and the mean time in each part of a call.

    Return None if there were no calls.
    """
    if not totals.slots:
        return None
    calls, failed, timed = (sum(getattr(slot, name) for slot in totals.slots) for name in ("calls", "failed", "timed"))
    now_slot = max(totals.slots)
    recent_s = min(max((moment - now_slot.at).total_seconds(), 1.0), SLOT_S)
    steps = _steps(totals, moment)
    times = [
        sum(bucket_counts)
        for bucket_counts in zip(*(place.times for place in totals.places if place.kind == "call"), strict=True)
    ]
    split = {name: [_mean(step, name) for step in steps] for name in PARTS}
    return {
        "calls": calls,
        "failed": failed,
        "failed_percent": round(100 * failed / calls, 1),
        "a_second": round(now_slot.calls / recent_s, 2) if (moment - now_slot.at).total_seconds() < 2 * SLOT_S else 0.0,
        "milliseconds": {
            name: round(sum(getattr(slot, field) for slot in totals.slots) / timed, 1)
            for name, field in PARTS.items()
            if timed
        },
        "provider_calls": sum(times),
        "provider_ms": {name: quantile_ms(times, share) for name, share in (("p50", 0.5), ("p95", 0.95))},
        "chart": bars(
            [
                Bar(_clock(moment, n), sum(slot.calls for slot in step), sum(slot.failed for slot in step))
                for n, step in enumerate(steps)
            ]
        ),
        "split": areas(split),
    }


def _steps(totals: Traffic, moment: datetime) -> list[list[SlotTotal]]:
    """Return the slots of each bar, the oldest bar first.

    Each bar has `SLOTS_A_BAR` slots of `SLOT_S` seconds. The last bar ends with the slot that contains `moment`.
    """
    last_slot = int(moment.timestamp()) // SLOT_S
    steps: list[list[SlotTotal]] = [[] for _ in range(BARS)]
    for slot in totals.slots:
        place = BARS - 1 - (last_slot - int(slot.at.timestamp()) // SLOT_S) // SLOTS_A_BAR
        if 0 <= place < BARS:
            steps[place].append(slot)
    return steps


def _clock(moment: datetime, place: int) -> str:
    """Return the time at which a bar begins, as hours and minutes in UTC. `place`: the number of the bar, from 0."""
    slot_start = (int(moment.timestamp()) // SLOT_S + 1 - (BARS - place) * SLOTS_A_BAR) * SLOT_S
    return datetime.fromtimestamp(slot_start, UTC).strftime("%H:%M")


def _mean(step: Sequence[SlotTotal], name: str) -> float:
    timed = sum(slot.timed for slot in step)
    return sum(getattr(slot, PARTS[name]) for slot in step) / timed if timed else 0.0
