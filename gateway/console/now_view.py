"""What needs a person now, the most urgent first, and the newest calls in figures."""

import shutil
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from gateway import clock
from gateway.api.connection_json import stamp
from gateway.console.call_views import row
from gateway.console.charts import Bar, bars
from gateway.console.connection_views import summary
from gateway.console.console_page import View
from gateway.console.event_views import delivery
from gateway.records.event import DeliveryState
from gateway.records.operation import OperationFilter, StoredOperation
from gateway.runtime import RUNTIME, Runtime
from gateway.store import EventFilter, ListFilter

ROWS: Final = 10
LOOKED_AT: Final = 500
FAILURES_WITHIN: Final = timedelta(hours=24)
ENDING_WITHIN: Final = timedelta(days=7)
BARS: Final = 48
FULL_BYTES: Final = 1 << 30
FULL_SHARE: Final = 0.05
CLOCK_OFF_S: Final = 5.0


async def now(request: web.Request, environment: str) -> View:
    runtime, at = request.app[RUNTIME], clock.now()
    store = runtime.store
    trouble = await store.connections.list(environment, ListFilter(in_trouble=True, limit=ROWS + 1))
    ending = await store.connections.list(environment, ListFilter(dies_before=at + ENDING_WITHIN, limit=ROWS + 1))
    dead = await store.event_log.list(EventFilter(environment=environment, state=DeliveryState.DEAD, limit=ROWS + 1))
    failed = await store.call_log.find(
        OperationFilter(environment, since=at - FAILURES_WITHIN, failed=True, limit=LOOKED_AT)
    )
    newest = await store.call_log.find(OperationFilter(environment, kind="call", limit=LOOKED_AT))
    waiting = [one for one in await store.deliveries.backlog() if one.environment == environment]
    data = {
        "title": "Now",
        "as_of": at.isoformat(timespec="seconds"),
        "alarms": alarms(runtime),
        "trouble": [summary(one) for one in trouble[:ROWS]],
        "more_trouble": len(trouble) > ROWS,
        "ending": [summary(one) for one in ending[:ROWS] if one.life.dies_at is not None],
        "dead": [delivery(one) for one in dead[:ROWS]],
        "more_dead": len(dead) > ROWS,
        "waiting": [{"events": one.pending, "oldest_at": stamp(one.oldest_at)} for one in waiting],
        "failures": groups(failed.operations),
        "failures_whole": not failed.more,
        "traffic": traffic(newest.operations, at),
    }
    return View("now.html", data)


def alarms(runtime: Runtime) -> list[dict[str, str]]:
    """What is wrong with this process or what it stands on, each with what helps."""
    found: list[dict[str, str]] = []

    def alarm(what: str, do: str) -> None:
        found.append({"what": what, "do": do})

    away_s = runtime.live.feed.away_s
    if away_s is not None:
        alarm(f"The database has been away for {away_s:.0f} s.", "Check that it runs and that this machine reaches it.")
    if not runtime.journal_writable:
        alarm(
            "The refresh journal cannot be written: a process that is killed now may lose a token.",
            "Check the disk and the permissions of the folder beside the database (store.url, STATE_DIRECTORY).",
        )
    offset_s = clock.offset.seconds
    if abs(offset_s) > CLOCK_OFF_S:
        alarm(f"The clock of this machine is {offset_s:+.0f} s off the database's.", "Let it follow NTP.")
    for gate in runtime.egress_limits:
        if not gate.breaker.closed:
            alarm(
                f"{gate.name} has not answered its last calls, so it is left alone for now.",
                "Ask that provider's status page.",
            )
    if runtime.call_queue.dropped:
        alarm(
            f"{runtime.call_queue.dropped:,} rows of the call log were dropped since the start.",
            "The log's disk is full or too slow: check it, or sample (call_log.sample).",
        )
    for folder in _folders(runtime):
        usage = shutil.disk_usage(folder)
        if usage.free < FULL_BYTES or usage.free < FULL_SHARE * usage.total:
            alarm(f"The disk of {folder} has {usage.free >> 20:,} MiB left.", "Free some, or lower call_log.max_bytes.")
    return found


def _folders(runtime: Runtime) -> list[Path]:
    folder = runtime.store.journal.folder
    return [] if folder is None or not folder.exists() else [folder]


def groups(found: Sequence[StoredOperation]) -> list[dict[str, Any]]:
    """Failures by what failed where, the most frequent first, each with its newest."""
    counts: Counter[tuple[str, str, str]] = Counter()
    newest: dict[tuple[str, str, str], StoredOperation] = {}
    connections: dict[tuple[str, str, str], set[str]] = {}
    for one in found:
        it = one.operation
        place = (it.kind, it.integration_id, it.error_code or str(it.status or ""))
        counts[place] += 1
        newest.setdefault(place, one)
        connections.setdefault(place, set()).add(it.connection_id)
    return [
        {
            "kind": place[0],
            "integration": place[1],
            "reason": place[2],
            "is_code": newest[place].operation.error_code is not None,
            "count": count,
            "connections": len(connections[place]),
            "newest": row(newest[place]),
        }
        for place, count in counts.most_common(ROWS)
    ]


def traffic(found: Sequence[StoredOperation], at: datetime) -> dict[str, Any] | None:
    """Of the newest calls: how many a second, how many failed, where their time went. None where there are none."""
    if not found:
        return None
    operations = [one.operation for one in found]
    first = min(one.at for one in operations)
    span_s = max((at - first).total_seconds(), 1.0)
    failed = [one.error_code is not None or one.status >= 400 for one in operations]
    buckets = [[0, 0] for _ in range(BARS)]
    for one, bad in zip(operations, failed, strict=True):
        place = min(int((one.at - first).total_seconds() / span_s * BARS), BARS - 1)
        buckets[max(place, 0)][0] += 1
        buckets[max(place, 0)][1] += bad
    chart = [
        Bar((first + timedelta(seconds=n * span_s / BARS)).strftime("%H:%M:%S"), total, bad)
        for n, (total, bad) in enumerate(buckets)
    ]
    return {
        "calls": len(operations),
        "since": stamp(first),
        "a_second": round(len(operations) / span_s, 2),
        "failed_percent": round(100 * sum(failed) / len(operations), 1),
        "milliseconds": {
            name: _quantiles([value for one in operations if (value := getattr(one, f"{part}_ms")) is not None])
            for name, part in (("gateway", "gateway"), ("token", "token"), ("provider", "upstream"))
        },
        "chart": bars(chart),
    }


def _quantiles(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    values.sort()
    return {
        name: round(values[min(int(len(values) * share), len(values) - 1)], 1)
        for name, share in (("p50", 0.5), ("p95", 0.95))
    }
