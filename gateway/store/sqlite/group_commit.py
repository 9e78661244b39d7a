"""Group commit, for a database with one writer: all waiting writes run in one transaction with one commit.

A commit waits for the disk and needs trips to the driver's thread. So many small commits cost several times as much as
their statements. Each write has a savepoint of its own. If a write fails, only this write is undone, and the other
writes are not affected. No caller gets a result before the commit has ended.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import Unavailable
from gateway.store.database_faults import DatabaseDamage, DatabaseUnavailable, raised_as_unavailable
from gateway.store.sqlite.sqlite_driver import OneTripConnection
from gateway.store.transactions import (
    QUEUE_FULL,
    Before,
    FenceFailed,
    InOneTrip,
    OneTrip,
    T,
    Transactions,
    Work,
    with_fence,
)

MAX_WRITES_PER_COMMIT: Final = 64
# After this time the batch commits, because other processes wait for the lock. The remaining writes wait for the next
# batch.
HOLDS_S: Final = 0.05
SAVEPOINT_NAME: Final = "one_of_several"


@dataclass(eq=False, slots=True)
class WaitingWrite:
    """A write in the queue.

    `queued_at`, `times_out_at`: when the write was queued and when it times out, on the event loop's clock. `runs_alone`: the
    write's batch failed, so the write runs in a transaction of its own.
    """

    work: Work[Any]
    before: Before | None
    in_one_trip: InOneTrip[Any]
    outcome: "asyncio.Future[Any]"
    queued_at: float
    times_out_at: float
    name: str
    runs_alone: bool = False

    def finish(self, result: object) -> None:
        """Finish the write with its result, or with the exception that it raised."""
        if self.outcome.done():
            return
        if isinstance(result, asyncio.CancelledError):
            self.outcome.cancel()
        elif isinstance(result, BaseException):
            self.outcome.set_exception(result)
        else:
            self.outcome.set_result(result)


class BatchLost(Exception):
    """The failure of one write ended the whole transaction, not only the savepoint of that write.

    `first`: whether the failed write was the first of its batch. Then no other write of the batch can be the cause. For
    example, another process had the lock.
    """

    def __init__(self, failed_write: WaitingWrite, *, first: bool) -> None:
        super().__init__("SQLite has ended the transaction, or could not begin it")
        self.failed_write = failed_write
        self.first = first


class GroupCommit(Transactions):
    """Transactions with group commit. A write gets a transaction of its own if no other write waits."""

    _batch_task: "asyncio.Task[None] | None" = None
    _waiting: deque[WaitingWrite]

    async def _in_turn(self, work: Work[T], before: Before | None, in_one_trip: InOneTrip[T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        queued_at = loop.time()
        times_out_at = queued_at + self._queue_s
        name = task.get_name() if task else ""
        write = WaitingWrite(work, before, in_one_trip, loop.create_future(), queued_at, times_out_at, name)
        if self._batch_task is None:
            self._waiting = deque()
            self._batch_task = asyncio.create_task(self._run_waiting())
        self._waiting.append(write)
        timer = loop.call_at(times_out_at, self._refuse_late, write)
        try:
            result: T = await write.outcome
            return result
        finally:
            timer.cancel()

    async def _run_waiting(self) -> None:
        """Run the waiting writes until none is left."""
        batch: Sequence[WaitingWrite] = ()
        try:
            while self._waiting:
                batch = self._take_batch()
                if len(batch) > 1:
                    await self._run_together(batch)
                else:
                    await self._run_single(batch[0])
        finally:
            for write in (*batch, *self._waiting):  # all have ended, unless this task was cancelled
                write.outcome.cancel()
            self._batch_task = None

    def _take_batch(self) -> list[WaitingWrite]:
        batch = [self._waiting.popleft()]
        while (
            self._waiting
            and len(batch) < MAX_WRITES_PER_COMMIT
            and not (batch[0].runs_alone or self._waiting[0].runs_alone)
        ):
            batch.append(self._waiting.popleft())
        now = asyncio.get_running_loop().time()
        for write in batch:
            self.waits.record("write", now - write.queued_at)
        return batch

    async def _run_single(self, write: WaitingWrite) -> None:
        _set_task_name(write.name)
        try:
            result = await self._run_alone(write.work, write.before, write.in_one_trip)
        except (Exception, asyncio.CancelledError) as fault:  # noqa: BLE001 (raised to the write's own caller)
            _raise_if_cancelled(fault)
            write.finish(fault)
        else:
            write.finish(result)

    async def _run_together(self, writes: Sequence[WaitingWrite]) -> None:
        """Run the writes in one transaction. Afterwards, each write has its outcome or is in the queue again."""
        ended: dict[WaitingWrite, object] = {}
        to_retry: list[WaitingWrite] = []
        failed: frozenset[WaitingWrite] = frozenset()
        try:
            self.check()
            works = [(write, work) for write in writes if (work := await self._prepare_write(write, ended)) is not None]
            failed = frozenset(ended)
            with raised_as_unavailable(self.damage):
                async with self._engines.writer.begin() as db, _share_connection(db) as driver:
                    await self._run_in_savepoints(db, driver, works, ended, to_retry)
            if not any(isinstance(result, Unavailable) for result in ended.values()):
                self.damage.record_commit()
        except Exception as fault:  # noqa: BLE001 (nothing was written; each write runs alone to find the cause)
            settled = {*failed, fault.failed_write} if isinstance(fault, BatchLost) else failed
            to_retry = [write for write in writes if write not in settled]
            ended = {write: result for write, result in ended.items() if write in settled}
            for write in to_retry:
                write.runs_alone = not (isinstance(fault, BatchLost) and fault.first)
        for write, result in ended.items():
            write.finish(result)
        self._wait_again(to_retry)

    async def _prepare_write(self, write: WaitingWrite, ended: dict[WaitingWrite, object]) -> Work[Any] | None:
        """Run the write's `before`. Return the work for the transaction, or None if `before` failed."""
        try:
            fence = await write.before() if write.before is not None else None
        except (Exception, asyncio.CancelledError) as fault:  # noqa: BLE001 (raised to the write's own caller)
            _raise_if_cancelled(fault)
            ended[write] = fault
            return None
        work = write.work if fence is None else with_fence(fence, write.work)
        return work if write.in_one_trip is None else self._in_one_trip_or(write.in_one_trip, work)

    def _in_one_trip_or(self, in_one_trip: Callable[[], OneTrip[Any] | None], work: Work[Any]) -> Work[Any]:
        """Return a function that runs the statements of `in_one_trip` or, if they return no row, `work`."""

        async def run(db: AsyncConnection) -> Any:
            one_trip = in_one_trip()
            if one_trip is not None:
                row = await self._engines.run_in_one_trip(db, one_trip.statements)
                if row is not None:
                    return one_trip.result(row)
            return await work(db)

        return run

    async def _run_in_savepoints(
        self,
        db: AsyncConnection,
        driver: OneTripConnection,
        works: Sequence[tuple[WaitingWrite, Work[Any]]],
        ended: dict[WaitingWrite, object],
        to_retry: list[WaitingWrite],
    ) -> None:
        """Run each write in its savepoint and store its result in `ended`. Raises BatchLost."""
        loop = asyncio.get_running_loop()
        batch_ends_at = math.inf
        for number, (write, work) in enumerate(works):
            if number == 1:
                # Measured from the second write, because the first write possibly waited long for the lock.
                batch_ends_at = loop.time() + HOLDS_S
            elif loop.time() > batch_ends_at:
                to_retry.append(write)
                continue
            _set_task_name(write.name)
            try:
                ended[write] = await _run_in_savepoint(db, driver, work, self.damage)
            except (Exception, asyncio.CancelledError) as fault:
                _raise_if_cancelled(fault)
                if isinstance(fault, FenceFailed):
                    write.runs_alone = True
                    to_retry.append(write)
                else:
                    ended[write] = fault
                undo_fault = await _undo(db, driver)
                if undo_fault is not None:
                    ended.setdefault(write, undo_fault)
                    raise BatchLost(write, first=number == 0) from fault

    def _wait_again(self, writes: Sequence[WaitingWrite]) -> None:
        """Put the writes back at their former places in the queue. A write that has timed out fails."""
        now = asyncio.get_running_loop().time()
        for write in reversed(writes):
            if now < write.times_out_at:
                self._waiting.appendleft(write)
            else:
                write.finish(DatabaseUnavailable(QUEUE_FULL))

    def _refuse_late(self, write: WaitingWrite) -> None:
        if write in self._waiting:  # a write that already runs is no longer in the queue
            self._waiting.remove(write)
            write.finish(DatabaseUnavailable(QUEUE_FULL))


@asynccontextmanager
async def _share_connection(db: AsyncConnection) -> AsyncIterator[OneTripConnection]:
    """Yield the driver's connection. Until this context ends, no write on the connection can commit by itself."""
    driver: Any = (await db.get_raw_connection()).driver_connection
    driver.shared = True
    try:
        yield driver
    finally:
        driver.shared = False


async def _run_in_savepoint(
    db: AsyncConnection, driver: OneTripConnection, work: Work[Any], damage: DatabaseDamage
) -> object:
    """Run `work` in a savepoint and return its result."""
    driver.run_with_next(f"SAVEPOINT {SAVEPOINT_NAME}")
    with raised_as_unavailable(damage):
        result: object = await work(db)
    driver.run_with_next(f"RELEASE {SAVEPOINT_NAME}")
    return result


async def _undo(db: AsyncConnection, driver: OneTripConnection) -> Exception | None:
    """Undo the failed write. Return None, or the reason why the write cannot be undone.

    It cannot be undone if SQLite has ended the transaction itself, because the disk is full or fails, or could not
    begin it.
    """
    try:
        with raised_as_unavailable():
            await db.exec_driver_sql(f"ROLLBACK TO {SAVEPOINT_NAME}")
    except (DBAPIError, Unavailable) as undo_fault:
        return undo_fault
    driver.run_with_next(f"RELEASE {SAVEPOINT_NAME}")
    return None


def _raise_if_cancelled(fault: BaseException) -> None:
    """Raise `fault` if it cancels the task that runs the writes. Otherwise `fault` concerns a single write only."""
    task = asyncio.current_task()
    if isinstance(fault, asyncio.CancelledError) and task is not None and task.cancelling():
        raise fault


def _set_task_name(name: str) -> None:
    """Give the task that runs the writes the name of the task that requested this write."""
    task = asyncio.current_task()
    if task is not None:
        task.set_name(name)
