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
from gateway.console.console_page import TOTALS_SPAN, LivePart, View, console_path
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
SLOTS_PER_BAR: Final = 2
BARS: Final = int(TOTALS_SPAN.total_seconds()) // SLOT_S // SLOTS_PER_BAR
PARTS: Final = {"gateway": "gateway_ms", "token": "token_ms", "provider": "upstream_ms"}


async def now(request: web.Request, environment: str) -> View:
    runtime, moment = request.app[RUNTIME], clock.now()
    store = runtime.store
    problems = alarms(runtime)
    (
        connections_in_trouble,
        ending_connections,
        dead_deliveries,
        backlog,
        counts_by_integration,
        totals,
    ) = await asyncio.gather(
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
                "integration": counts.integration_id,
                "what": counts.sentence(),
                "do": advice_for(runtime.generation, counts, environment),
            }
            for counts in counts_by_integration.values()
            if counts.too_few_succeeded
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
        return await runtime.store.call_log.totals(environment, moment - TOTALS_SPAN)
    except Unavailable as fault:
        problems.append({"what": fault.message, "do": "Check its disk. Calls meanwhile are not logged."})
        return Traffic()


def traffic(totals: Traffic, moment: datetime) -> dict[str, Any] | None:
    """Return the numbers of the last 24 hours' calls: total, failed, and the mean time in each part of a call.

    Return None if there were no calls.
    """
    if not totals.slots:
        return None
    calls, failed, timed_calls = (
        sum(getattr(slot, name) for slot in totals.slots) for name in ("calls", "failed", "timed")
    )
    newest_slot = max(totals.slots)
    recent_s = min(max((moment - newest_slot.at).total_seconds(), 1.0), SLOT_S)
    slots_by_bar = _slots_by_bar(totals, moment)
    calls_by_bucket = [
        sum(bucket_counts)
        for bucket_counts in zip(*(place.times for place in totals.places if place.kind == "call"), strict=True)
    ]
    means_by_part = {name: [_mean(bar_slots, name) for bar_slots in slots_by_bar] for name in PARTS}
    return {
        "calls": calls,
        "failed": failed,
        "failed_percent": round(100 * failed / calls, 1),
        "a_second": round(newest_slot.calls / recent_s, 2)
        if (moment - newest_slot.at).total_seconds() < 2 * SLOT_S
        else 0.0,
        "milliseconds": {
            name: round(sum(getattr(slot, field) for slot in totals.slots) / timed_calls, 1)
            for name, field in PARTS.items()
            if timed_calls
        },
        "provider_calls": sum(calls_by_bucket),
        "provider_ms": {name: quantile_ms(calls_by_bucket, share) for name, share in (("p50", 0.5), ("p95", 0.95))},
        "chart": bars(
            [
                Bar(
                    _bar_start(moment, bar_index),
                    sum(slot.calls for slot in bar_slots),
                    sum(slot.failed for slot in bar_slots),
                )
                for bar_index, bar_slots in enumerate(slots_by_bar)
            ]
        ),
        "split": areas(means_by_part),
    }


def _slots_by_bar(totals: Traffic, moment: datetime) -> list[list[SlotTotal]]:
    """Return the slots of each bar, the oldest bar first.

    Each bar has `SLOTS_PER_BAR` slots of `SLOT_S` seconds. The last bar ends with the slot that contains `moment`.
    """
    last_slot = int(moment.timestamp()) // SLOT_S
    slots_by_bar: list[list[SlotTotal]] = [[] for _ in range(BARS)]
    for slot in totals.slots:
        bar_index = BARS - 1 - (last_slot - int(slot.at.timestamp()) // SLOT_S) // SLOTS_PER_BAR
        if 0 <= bar_index < BARS:
            slots_by_bar[bar_index].append(slot)
    return slots_by_bar


def _bar_start(moment: datetime, bar_index: int) -> str:
    """Return the time at which a bar begins, as hours and minutes in UTC. `bar_index`: the index of the bar, from 0."""
    slot_start = (int(moment.timestamp()) // SLOT_S + 1 - (BARS - bar_index) * SLOTS_PER_BAR) * SLOT_S
    return datetime.fromtimestamp(slot_start, UTC).strftime("%H:%M")


def _mean(bar_slots: Sequence[SlotTotal], name: str) -> float:
    timed_calls = sum(slot.timed for slot in bar_slots)
    return sum(getattr(slot, PARTS[name]) for slot in bar_slots) / timed_calls if timed_calls else 0.0
