"""A failover of the database: a standby takes over, possibly without the primary's last commits and their tokens.

After a failover, each process writes back the tokens that it has in memory (`ConnectionStore.write_back`) and the
claims of its running refreshes (`gateway.refresh.recovery`). Until all processes have written back, no process may
claim a lease, because the refresh token in the database is possibly used up. Two rules ensure this (ADR 42, ADR 64).
First, a claim names the timeline that its process knows, and fails if the database has another timeline. Second, no
process claims a lease before all running processes have confirmed the new timeline in the table `processes`.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from sqlalchemy import Text, delete, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway import clock
from gateway.errors import GatewayError
from gateway.records.connection import Connection
from gateway.refresh import decision
from gateway.refresh.decision import Member, is_awaited, may_refresh_again
from gateway.store.backend import ChangeWatch
from gateway.store.tables import processes, timelines
from gateway.store.transactions import Transactions, insert_if_absent

HEARTBEAT_S: Final = 5.0
FREQUENT_HEARTBEAT_S: Final = 1.0  # the heartbeat's interval during a reconciliation, or after a failed heartbeat
CHECK_AGAIN_S: Final = 0.2
OUTAGE_S: Final = 30.0  # a shorter outage ends before a lease runs out that its holder renews every 10 s
KEEP_FOR: Final = timedelta(minutes=10)
SELECT_TIMELINES: Final = select(timelines).order_by(timelines.c.since)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Claim:
    """A refresh under way in this process.

    `row`: the connection at the time of the claim. `lease_from`: a time (monotonic seconds) before the lease was last
    claimed or extended.
    """

    row: Connection
    lease_from: float


class Failover:
    """Notices failovers of the database, and coordinates the processes after a failover.

    `timeline`: the timeline that this process knows; None if the database has no timelines (SQLite). `sql`: the SQL
    expression that returns the timeline; the same as long as this process runs. `claims`: this process's running
    refreshes, by lease owner.
    """

    def __init__(self, transactions: Transactions, watch: ChangeWatch) -> None:
        self._transactions = transactions
        self._watch = watch
        self.timeline: str | None = None
        self.sql: str | None = None
        self.claims: dict[str, Claim] = {}
        self.has_failed_over = False
        """Whether the database has ever failed over."""
        self._heartbeat_at: float | None = None  # when the last heartbeat was written (monotonic seconds)
        self._outage_ended_at: datetime | None = None
        self._process = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._has_joined = False
        self._confirmed_timeline: str | None = None
        self._must_write_back = False
        self._failover_noticed = asyncio.Event()
        self._since: datetime | None = None  # when the failover was noticed; None if all processes have confirmed it
        self._wait_until = 0.0  # when the wait ends after commits were lost without a new timeline (monotonic seconds)
        self._began_at = 0.0
        self._check_lock = asyncio.Lock()
        self._checked_at = 0.0
        self._awaited_names = frozenset[str]()

    @property
    def pending(self) -> bool:
        """Whether tokens in the database are possibly older than the tokens of a running process. Runs no query.

        True from a failover until all processes have written back their tokens, as far as this process knows.
        """
        return self._must_write_back or self._since is not None or clock.monotonic() < self._wait_until

    @property
    def pending_s(self) -> float:
        """How long the reconciliation has been pending, in seconds; 0 if none is pending."""
        return clock.monotonic() - self._began_at if self.pending else 0.0

    async def reconciling(self) -> bool:
        """Return whether a reconciliation is pending. If it has possibly ended, query the database first."""
        if self._must_write_back or clock.monotonic() < self._wait_until:
            return True
        if self._since is None:
            return False
        async with self._check_lock:  # all waiting calls share one query
            if self._since is not None and clock.monotonic() - self._checked_at >= CHECK_AGAIN_S:
                await self._check_confirmations(self._since)
                self._checked_at = clock.monotonic()
        return self.pending

    def begin(self) -> None:
        """Start a reconciliation, because the database has possibly lost commits."""
        if not self.pending:
            self._began_at = clock.monotonic()
        self._must_write_back = True
        self._failover_noticed.set()

    async def adopt_timeline(self) -> None:
        """Adopt the database's present timeline.

        Called at the start, and after a failover, when this process has written its newer tokens back.
        """
        timeline = self._watch.timeline
        if timeline is not None:
            timelines = await self._read_timelines()
            if timeline not in timelines:
                await self._add(timeline)
                timelines = await self._read_timelines()
            if self.timeline is None:
                self.sql = self._watch.timeline_sql
            begun_at, first_seen = timelines[timeline], min(timelines.values())
            self.has_failed_over = begun_at > first_seen
            is_recent = (clock.now() - begun_at).total_seconds() < decision.MAX_WAIT_S
            if self.has_failed_over and is_recent and not self.pending:
                self._began_at = clock.monotonic()
            self._since = begun_at if self.has_failed_over and is_recent else None
        self.timeline = timeline

    async def confirm(self) -> None:
        """Confirm to other processes that this process has written back all its tokens and claims."""
        self._confirmed_timeline = self.timeline
        if self._has_joined:
            await self._write_heartbeat()
        if self._must_write_back:
            self._wait_until = clock.monotonic() + decision.MIN_WAIT_S
        self._must_write_back = False

    async def join(self) -> None:
        """Register this process. After a failover, other processes wait for its confirmation.

        Other processes stop waiting for this process if its heartbeat ends (`write_heartbeats`).
        """
        if self.sql is not None:
            self._has_joined = True
            self._confirmed_timeline = None if self.has_failed_over else self.timeline
            await self._write_heartbeat()

    async def write_heartbeats(self) -> None:
        """Write the heartbeat of this process until `leave` is called."""
        while self._has_joined:
            self._failover_noticed.clear()
            pause_s = HEARTBEAT_S
            try:
                await self._write_heartbeat()
                self._record_heartbeat()
                if await self.reconciling():
                    pause_s = FREQUENT_HEARTBEAT_S
            except GatewayError:  # the change feed logs that the database is unavailable
                pause_s = FREQUENT_HEARTBEAT_S
            except Exception as fault:  # without the heartbeat, other processes stop waiting for this process
                log.warning("heartbeat_not_written", detail=str(fault), exc_info=fault)
                pause_s = FREQUENT_HEARTBEAT_S
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._failover_noticed.wait()

    def outage_end(self, now: datetime) -> datetime | None:
        """Return when this process could write to the database again after the last outage of at least `OUTAGE_S`
        seconds; `now` during such an outage; None if there was none.

        Other processes were possibly cut off too: they could neither renew their leases nor store replies.
        """
        return now if self._is_cut_off() else self._outage_ended_at

    def _is_cut_off(self) -> bool:
        return self._heartbeat_at is not None and clock.monotonic() - self._heartbeat_at >= OUTAGE_S

    def _record_heartbeat(self) -> None:
        if self._is_cut_off():
            self._outage_ended_at = clock.now()
        self._heartbeat_at = clock.monotonic()

    async def leave(self) -> None:
        """Remove this process from those for which the other processes wait."""
        if self._has_joined:
            self._has_joined = False
            process_delete = delete(processes).where(processes.c.process == self._process)
            with suppress(GatewayError):
                await self._transactions.write(lambda db: db.execute(process_delete))

    async def is_unchanged(self) -> bool:
        """Return whether the rows read so far are still current.

        False if the rows are possibly older than this process's tokens, because of a failover.
        """
        if self.sql is None:
            return not self.pending
        async with self._transactions.read() as db:
            current_timeline = (await db.execute(select(literal_column(self.sql, Text)))).scalar()
        return current_timeline == self.timeline and not self.pending

    async def failover_times(self) -> Sequence[datetime]:
        """Return when each failover was first noticed, the oldest first."""
        return sorted((await self._read_timelines()).values())[1:]

    async def _check_confirmations(self, since: datetime) -> None:
        """End the wait if all running processes have confirmed, or after `MAX_WAIT_S`. Otherwise log those that have not."""
        async with self._transactions.read() as db:
            rows = (await db.execute(select(processes))).all()
        now = clock.now()
        since_s = (now - since).total_seconds()
        members = {
            row.process: Member(row.timeline == self.timeline, (now - max(row.beat_at, since)).total_seconds())
            for row in rows
        }
        awaited_names = frozenset(name for name, member in members.items() if is_awaited(member))
        if may_refresh_again(since_s, members.values()):
            self._since = None
            self._log_result(since_s, awaited_names, [name for name, member in members.items() if not member.confirmed])
        elif since_s >= decision.MIN_WAIT_S and awaited_names != self._awaited_names:
            effect = "token refresh waits until these processes have written their newer tokens back"
            log.warning("failover_waits_for_processes", processes=sorted(awaited_names), effect=effect)
            self._awaited_names = awaited_names

    def _log_result(self, since_s: float, awaited_names: frozenset[str], unconfirmed_names: Sequence[str]) -> None:
        after_s, self._awaited_names = round(since_s, 1), frozenset()
        if awaited_names:
            effect = "newer tokens that only they have are lost"
            log.error("failover_not_confirmed", processes=sorted(awaited_names), after_s=after_s, effect=effect)
        else:
            log.info("failover_reconciled", after_s=after_s, silent=sorted(unconfirmed_names))

    async def _read_timelines(self) -> dict[str, datetime]:
        async with self._transactions.read() as db:
            return {row.timeline: row.since for row in (await db.execute(SELECT_TIMELINES)).all()}

    async def _add(self, timeline: str) -> None:
        async def write(db: AsyncConnection) -> None:
            row = {"timeline": timeline, "since": clock.now()}
            await insert_if_absent(db, timelines, row, key=["timeline"])

        await self._transactions.write(write)

    async def _write_heartbeat(self) -> None:
        async def write(db: AsyncConnection) -> None:
            row: dict[str, Any] = {"beat_at": clock.now(), "timeline": self._confirmed_timeline}
            process_update = update(processes).where(processes.c.process == self._process)
            if not (await db.execute(process_update.values(row))).rowcount:
                await insert_if_absent(db, processes, {"process": self._process, **row}, key=["process"])
            if not self.pending:
                await db.execute(delete(processes).where(processes.c.beat_at < clock.now() - KEEP_FOR))

        await self._transactions.write(write)
