"""Group commit, for a database with one writer: all waiting writes run in one transaction with one commit.

A commit waits for the disk and needs trips to the driver's thread, so many small commits cost several times as much as
their statements. Each write has its own savepoint: a write that fails is undone alone and does not affect the others.
No caller gets a result before the commit has ended.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import Unavailable
from gateway.store.database_faults import DatabaseDamage, raised_as_unavailable, unavailable
from gateway.store.sqlite.sqlite_driver import OneTripConnection
from gateway.store.transactions import CROWDED, AtOnce, Before, FenceFailed, T, Transactions, Work, with_fence

AT_ONCE: Final = 64
HOLDS_S: Final = 0.05  # then the batch commits: other processes wait for the lock; the rest goes into the next batch
PART: Final = "one_of_several"


@dataclass(eq=False, slots=True)
class WaitingWrite:
    """A write in the queue. `asked_at`, `late_at`: when it was queued and when it times out, on the loop's clock.

    `alone`: its batch failed, so it runs in a transaction of its own.
    """

    work: Work[Any]
    before: Before | None
    outcome: "asyncio.Future[Any]"
    asked_at: float
    late_at: float
    name: str
    alone: bool = False

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
    """The failure of one write ended the whole transaction, not only that write's savepoint.

    `first`: the failed write was the first to run (another process held the lock, say), so no other write can be the
    cause.
    """

    def __init__(self, by: WaitingWrite, *, first: bool) -> None:
        super().__init__("SQLite has ended the transaction, or could not begin it")
        self.by = by
        self.first = first


class GroupCommit(Transactions):
    """Transactions with group commit. A write that finds no other waiting is a transaction of its own."""

    _leading: "asyncio.Task[None] | None" = None
    _waiting: deque[WaitingWrite]

    async def _in_turn(self, work: Work[T], before: Before | None, at_once: AtOnce[T] = None) -> T:  # noqa: ARG002 (PostgreSQL's)
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        asked_at = loop.time()
        late_at = asked_at + self._queue_s
        write = WaitingWrite(work, before, loop.create_future(), asked_at, late_at, task.get_name() if task else "")
        if self._leading is None:
            self._waiting = deque()
            self._leading = asyncio.create_task(self._lead())
        self._waiting.append(write)
        late = loop.call_at(late_at, self._late, write)
        try:
            result: T = await write.outcome
            return result
        finally:
            late.cancel()

    async def _lead(self) -> None:
        """Run the waiting writes until none is left."""
        batch: Sequence[WaitingWrite] = ()
        try:
            while self._waiting:
                batch = self._next()
                if len(batch) > 1:
                    await self._together(batch)
                else:
                    await self._by_itself(batch[0])
        finally:
            for write in (*batch, *self._waiting):  # none, unless this task was cancelled
                write.outcome.cancel()
            self._leading = None

    def _next(self) -> list[WaitingWrite]:
        batch = [self._waiting.popleft()]
        while self._waiting and len(batch) < AT_ONCE and not (batch[0].alone or self._waiting[0].alone):
            batch.append(self._waiting.popleft())
        now = asyncio.get_running_loop().time()
        for write in batch:
            self.waits.record("write", now - write.asked_at)
        return batch

    async def _by_itself(self, write: WaitingWrite) -> None:
        _set_task_name(write.name)
        try:
            result = await self._alone(write.work, write.before)
        except (Exception, asyncio.CancelledError) as fault:  # noqa: BLE001 (its own caller's)
            _unless_cancelled(fault)
            write.finish(fault)
        else:
            write.finish(result)

    async def _together(self, writes: Sequence[WaitingWrite]) -> None:
        """Run the writes in one transaction. Afterwards each has its outcome or waits again."""
        ended: dict[WaitingWrite, object] = {}
        again: list[WaitingWrite] = []
        failed: frozenset[WaitingWrite] = frozenset()
        try:
            self.check()
            works = [(write, work) for write in writes if (work := await _prepared(write, ended)) is not None]
            failed = frozenset(ended)
            with raised_as_unavailable(self.damage):
                async with self._engines.writer.begin() as db, _shared(db) as driver:
                    await self._parts(db, driver, works, ended, again)
            if not any(isinstance(result, Unavailable) for result in ended.values()):
                self.damage.record_commit()
        except Exception as fault:  # noqa: BLE001 (nothing was written; each finds out by itself whether it is to blame)
            settled = {*failed, fault.by} if isinstance(fault, BatchLost) else failed
            again = [write for write in writes if write not in settled]
            ended = {write: result for write, result in ended.items() if write in settled}
            for write in again:
                write.alone = not (isinstance(fault, BatchLost) and fault.first)
        for write, result in ended.items():
            write.finish(result)
        self._wait_again(again)

    async def _parts(
        self,
        db: AsyncConnection,
        driver: OneTripConnection,
        works: Sequence[tuple[WaitingWrite, Work[Any]]],
        ended: dict[WaitingWrite, object],
        again: list[WaitingWrite],
    ) -> None:
        """Run each write in its savepoint and store its result in `ended`. Raises BatchLost."""
        loop = asyncio.get_running_loop()
        enough_at = math.inf
        for number, (write, work) in enumerate(works):
            if number == 1:
                enough_at = loop.time() + HOLDS_S  # not from the first: it may have waited long for the lock
            elif loop.time() > enough_at:
                again.append(write)
                continue
            _set_task_name(write.name)
            try:
                ended[write] = await _part(db, driver, work, self.damage)
            except (Exception, asyncio.CancelledError) as fault:
                _unless_cancelled(fault)
                if isinstance(fault, FenceFailed):
                    write.alone = True
                    again.append(write)
                else:
                    ended[write] = fault
                stuck = await _undo(db, driver)
                if stuck is not None:
                    ended.setdefault(write, stuck)
                    raise BatchLost(write, first=number == 0) from fault

    def _wait_again(self, writes: Sequence[WaitingWrite]) -> None:
        """Put the writes back at their old places in the queue. Writes that have timed out fail."""
        now = asyncio.get_running_loop().time()
        for write in reversed(writes):
            if now < write.late_at:
                self._waiting.appendleft(write)
            else:
                write.finish(unavailable(CROWDED))

    def _late(self, write: WaitingWrite) -> None:
        if write in self._waiting:  # a write that runs is not in the queue
            self._waiting.remove(write)
            write.finish(unavailable(CROWDED))


async def _prepared(write: WaitingWrite, ended: dict[WaitingWrite, object]) -> Work[Any] | None:
    """Run the write's `before`, then return the work for the transaction; None if `before` failed."""
    try:
        fence = await write.before() if write.before is not None else None
    except (Exception, asyncio.CancelledError) as fault:  # noqa: BLE001 (its own caller's)
        _unless_cancelled(fault)
        ended[write] = fault
        return None
    return write.work if fence is None else with_fence(fence, write.work)


@asynccontextmanager
async def _shared(db: AsyncConnection) -> AsyncIterator[OneTripConnection]:
    """Yield the driver's connection. Meanwhile no write on it can commit for itself."""
    driver: Any = (await db.get_raw_connection()).driver_connection
    driver.shared = True
    try:
        yield driver
    finally:
        driver.shared = False


async def _part(db: AsyncConnection, driver: OneTripConnection, work: Work[Any], damage: DatabaseDamage) -> object:
    """Run `work` in a savepoint and return its result."""
    driver.ahead(f"SAVEPOINT {PART}")
    with raised_as_unavailable(damage):
        result: object = await work(db)
    driver.ahead(f"RELEASE {PART}")
    return result


async def _undo(db: AsyncConnection, driver: OneTripConnection) -> Exception | None:
    """Undo the failed write. Returns None, or why it cannot be undone.

    SQLite ends a transaction by itself if the disk is full or fails. Or SQLite could not begin the transaction at all.
    """
    try:
        with raised_as_unavailable():
            await db.exec_driver_sql(f"ROLLBACK TO {PART}")
    except (DBAPIError, Unavailable) as stuck:
        return stuck
    driver.ahead(f"RELEASE {PART}")
    return None


def _unless_cancelled(fault: BaseException) -> None:
    """Raise `fault` if the task that writes is itself cancelled. Any other CancelledError concerns a single write
    only."""
    task = asyncio.current_task()
    if isinstance(fault, asyncio.CancelledError) and task is not None and task.cancelling():
        raise fault


def _set_task_name(name: str) -> None:
    """Give the task that writes the name of the task that asked for the write."""
    task = asyncio.current_task()
    if task is not None:
        task.set_name(name)
