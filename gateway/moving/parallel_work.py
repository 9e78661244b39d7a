"""Runs work in parallel with a limit, because each item needs memory and a connection to a provider; counts outcomes."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import IO, Any, TypeVar

from gateway import clock
from gateway.errors import GatewayError
from gateway.moving.moved_connection import ImportOutcome, ImportResult
from gateway.records.connection import Connection, ConnectionRef
from gateway.runtime import Runtime
from gateway.text import sentence

Item = TypeVar("Item")


async def run_bounded(items: Iterable[Item], handle: Callable[[Item], Awaitable[None]], *, at_once: int) -> None:
    """Run `handle` for each of `items`, with at most `at_once` tasks at a time.

    An item is read from `items` only when its task can start. The first exception cancels all tasks and is raised.
    """
    running: set[asyncio.Task[None]] = set()

    async def run(item: Item) -> None:
        await handle(item)

    try:
        for item in items:
            if len(running) >= at_once:
                finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in finished:
                    task.result()
            running.add(asyncio.create_task(run(item)))
        while running:
            finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class WorkPace:
    """A rate limiter: `wait_turn` returns at most `per_s` times per second, evenly spread."""

    def __init__(self, per_s: float) -> None:
        self._every_s = 1 / per_s
        self._next_turn_at = 0.0

    async def wait_turn(self) -> None:
        turn_at = max(self._next_turn_at, clock.monotonic())
        self._next_turn_at = turn_at + self._every_s
        if (remaining_s := turn_at - clock.monotonic()) > 0:
            await clock.sleep(remaining_s)


class Tally:
    """Counts the outcomes of an import.

    `report`: a file to which each outcome is immediately written as a line of JSON; None: no report.
    """

    def __init__(self, report: IO[str] | None = None) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.notes: Counter[str] = Counter()
        self.renewed: Counter[str] = Counter()
        self.examples: dict[tuple[str, str], ImportOutcome] = {}
        self._report = report

    def record(self, outcome: ImportOutcome) -> None:
        result_and_reason = (outcome.result.value, outcome.reason)
        self.counts[result_and_reason] += 1
        self.examples.setdefault(result_and_reason, outcome)
        self.notes.update(outcome.notes)
        if outcome.renewed is not None:
            self.renewed[outcome.renewed.partition(":")[0]] += 1
        if self._report is not None:
            self._report.write(json.dumps(outcome.as_json(), ensure_ascii=False) + "\n")
            self._report.flush()

    @property
    def done(self) -> int:
        return sum(self.counts.values())

    @property
    def is_ok(self) -> bool:
        """Whether the import had no refused or failed connection and no failed test refresh."""
        failed_count = sum(
            count for (result, _), count in self.counts.items() if result in (ImportResult.REFUSED, ImportResult.FAILED)
        )
        return not failed_count and not self.renewed["failed"]

    def as_json(self) -> dict[str, Any]:
        by_result: Counter[str] = Counter()
        for (result, _), count in self.counts.items():
            by_result[result] += count
        reasons = [
            {"result": result, "reason": reason, "count": count, "example": self.examples[result, reason].as_json()}
            for (result, reason), count in sorted(self.counts.items())
            if reason
        ]
        return {
            **{result.value: by_result[result] for result in ImportResult},
            "reasons": reasons,
            "renewed": dict(self.renewed),
            "notes": dict(self.notes),
        }


async def refresh_now(runtime: Runtime, ref: ConnectionRef) -> tuple[str, str | None]:
    """Refresh the connection now. Return ``renewed``, ``failed`` or ``nothing to renew``, and the reason of a failure."""
    try:
        row_before = await runtime.store.connections.get(ref)
        row_after, fault = await runtime.live.fresh_row(ref, force=True)
    except GatewayError as refusal:
        return "failed", refusal.message
    if fault is not None:
        return "failed", _failure_text(row_after, fault)
    is_same = row_before is not None and row_after.version == row_before.version
    return "nothing to renew" if is_same else "renewed", None


def _failure_text(row: Connection, fault: GatewayError) -> str:
    """Return why the refresh failed, how long the present token is valid, and when the next attempt is allowed."""
    failure = row.failure
    reason = sentence(failure.message if failure else fault.message)
    validity = "has no expiry date"
    if row.expires_at is not None:
        validity = (
            "has expired" if row.expires_at <= clock.now() else f"is valid until {row.expires_at:%Y-%m-%d %H:%M:%S} UTC"
        )
    next_attempt = (
        f"; the next attempt is after {failure.retry_at:%H:%M:%S} UTC" if failure and failure.retry_at else ""
    )
    return f"{reason} The present token {validity}{next_attempt}"
