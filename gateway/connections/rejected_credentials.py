"""Handles a credential that a provider's API rejects: an early refresh, and after enough rejections a report.

This module counts the consecutive rejections of a connection's newest credential. `backoff.api_verdict` decides what
the count means. The verdict is stored when it changes. A 2xx response ends the count.

Each process counts the responses that it receives, in memory. All processes share the stored verdict. While a
connection is counted, its calls take the middleware chain, which checks each response. Therefore the fast path needs no
checks for connections that work.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import structlog

from gateway import clock
from gateway.catalog.provider import Provider
from gateway.connections.opened import OpenedConnection
from gateway.errors import GatewayError
from gateway.observe.metrics import REJECTED_CREDENTIALS, Metrics
from gateway.records.connection import Connection, ConnectionRef, RefreshFailure, log_fields
from gateway.records.states import REJECTED
from gateway.refresh.auth_exchange import mode_for
from gateway.refresh.backoff import API_DEGRADED, api_verdict
from gateway.refresh.refresher import Refresher
from gateway.refresh.schedule import lifetime
from gateway.store import Store
from gateway.text import counted

# ── When a provider returns 401, the credential is refreshed early, once for all calls that got the 401.
#
# A 401 causes one refresh, even if the token is new. If the provider also refuses the new token, callers get the 401,
# and no other refresh starts until `refresh_interval` has passed.

REFRESH_INTERVAL: Final = timedelta(seconds=60)  # time between two refreshes caused by a 401
MIN_REFRESH_INTERVAL: Final = timedelta(seconds=1)  # minimum of the interval, for tokens that live a few seconds
MAX_REMEMBERED: Final = 10_000  # maximum number of connections whose last early refresh is remembered

log = structlog.get_logger(__name__)


class ConnectionRows(Protocol):
    """The cache of connections (`connections.cache`)."""

    async def read_row(self, ref: ConnectionRef) -> Connection:
        """Return the row from memory or, if it is not there, from the store. Raises NotFound if the connection does not
        exist."""

    def replace(self, connection: Connection) -> None:
        """Replace the cached row by a row that was just written."""

    async def open_connection(self, environment: str, integration_id: str, connection_id: str) -> OpenedConnection:
        """Return the connection, ready for use."""

    def may_try(self, connection: Connection, now: datetime) -> bool:
        """Return whether a new refresh may be tried for this connection."""

    def provider_of(self, connection: Connection) -> Provider:
        """Return the connection's catalog entry. Raises ReconnectNeeded if its integration now uses another provider,
        and NotFound if that provider has no entry any more."""


class EarlyRefreshes:
    """Runs the refreshes that a 401 causes, one at a time for each connection."""

    def __init__(self, store: Store, refresher: Refresher, rows: ConnectionRows) -> None:
        self._store = store
        self._refresher = refresher
        self._rows = rows
        self._tasks: dict[tuple[ConnectionRef, int], asyncio.Task[OpenedConnection | None]] = {}
        self._refreshed_at: OrderedDict[ConnectionRef, float] = (
            OrderedDict()
        )  # monotonic seconds, of refreshes caused by a 401

    async def newer_than(self, opened_connection: OpenedConnection) -> OpenedConnection | None:
        """Return the connection with a newer credential than `opened_connection`, for which the provider has just returned a 401.

        The credential is refreshed now, unless this node or another node has already refreshed it. Returns None if no
        newer credential is available: the mode has no refresh, a 401 has just caused a refresh, or the token endpoint
        refuses or is unavailable.
        """
        newer_connection = await asyncio.shield(self.start(opened_connection))
        return (
            newer_connection
            if newer_connection is not None
            and newer_connection.connection.version > opened_connection.connection.version
            else None
        )

    def start(self, opened_connection: OpenedConnection) -> "asyncio.Task[OpenedConnection | None]":
        """Return the task of the refresh. All calls with the same credential share one task. The task continues if the
        calls end."""
        key = opened_connection.connection.ref, opened_connection.connection.version
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._newer_credential(opened_connection))
            task.add_done_callback(lambda done: (self._tasks.pop(key, None), done.cancelled() or done.exception()))
        return task

    async def wait_until_idle(self) -> None:
        """Wait until no refresh is in progress."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await asyncio.sleep(0)  # let the callbacks of the tasks run

    async def close(self) -> None:
        """Stop waiting for refreshes. The refreshes themselves continue in the refresher."""
        for task in list(self._tasks.values()):
            task.cancel()
        await self.wait_until_idle()

    async def _newer_credential(self, opened_connection: OpenedConnection) -> OpenedConnection | None:
        ref, version = opened_connection.connection.ref, opened_connection.connection.version
        try:
            known_row = await self._rows.read_row(ref)
            row = known_row if known_row.version > version else await self._refresh_early(known_row)
            if row is None:
                return None
            self._rows.replace(row)
            return await self._rows.open_connection(*ref)
        except GatewayError as fault:
            log.info("no_newer_credential", connection_id=ref.connection_id, integration=ref[1], detail=fault.message)
            return None

    async def _refresh_early(self, row: Connection) -> Connection | None:
        """Return `row` after an early refresh by this node or another node. Return None if a refresh is impossible or
        not allowed now."""
        now = clock.monotonic()
        last_refresh = self._refreshed_at.get(row.ref)
        if last_refresh is not None and now - last_refresh < refresh_interval(row).total_seconds():
            return None
        credential = self._store.open(row.credential)
        provider = self._rows.provider_of(row)
        refreshable = mode_for(provider, credential, row.ref).refreshable(credential, provider)
        if not refreshable or not self._rows.may_try(row, clock.now()):
            return None
        self._refreshed_at[row.ref] = now
        self._refreshed_at.move_to_end(row.ref)
        if len(self._refreshed_at) > MAX_REMEMBERED:
            self._refreshed_at.popitem(last=False)
        return await self._refresher.refresh(row)


def refresh_interval(row: Connection) -> timedelta:
    """Return the time between two refreshes caused by a 401: a minute, or the token's lifetime if that is shorter, but
    at least a second."""
    if row.expires_at is None:
        return REFRESH_INTERVAL
    return min(REFRESH_INTERVAL, max(MIN_REFRESH_INTERVAL, lifetime(row, row.expires_at)))


MAX_COUNTED: Final = 10_000  # maximum number of counted connections; above it, the oldest count is dropped
NOTHING_TO_REJECT: Final = "NONE"  # the auth mode without a credential


@dataclass(slots=True)
class ResponseRun:
    """Consecutive responses with the same status. `path`: path of the first call. `paths`: number of different paths,
    where 2 means two or more."""

    since: datetime
    path: str
    count: int = 0
    paths: int = 1


@dataclass(slots=True)
class Suspicion:
    """The count of one connection. `row`: the row with the rejected credential. `final`: whether the stored verdict is
    final, None if no verdict is stored.

    `write_task`: the task that stores a verdict, None if no verdict is being stored.
    """

    row: Connection
    runs: dict[int, ResponseRun] = field(default_factory=dict)
    final: bool | None = None
    write_task: "asyncio.Task[None] | None" = None


class Rejections:
    """Counts rejected credentials and stores verdicts. `replace`: puts a written row into the cache. `leave_fast_path`:
    sends the next call of a connection through the middleware chain."""

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        replace: Callable[[Connection], None],
        leave_fast_path: Callable[[ConnectionRef], None],
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._replace = replace
        self._leave_fast_path = leave_fast_path
        self.suspected: dict[ConnectionRef, Suspicion] = {}

    def apply_stored_verdict(self, row: Connection) -> None:
        """Apply the stored verdict when a connection is opened, because another node can store or withdraw a
        verdict."""
        suspicion = self.suspected.get(row.ref)
        verdict = row.failure if row.failure is not None and row.failure.code == REJECTED else None
        if verdict is not None:
            if suspicion is None or not _has_same_grant(suspicion.row, row):
                suspicion = self._suspect(row)
            suspicion.row, suspicion.final = row, verdict.final
        elif (
            suspicion is not None
            and suspicion.write_task is None
            and (suspicion.final is not None or not _has_same_grant(suspicion.row, row))
        ):
            del self.suspected[row.ref]

    def record_refusal(self, opened_connection: OpenedConnection, status: int, path: str) -> None:
        """Count a 401 or 403 to a call with the newest credential. `path`: path of the call, without the query."""
        row = opened_connection.connection
        has_other_failure = (
            row.failure is not None and row.failure.code != REJECTED
        )  # a failed refresh says more about the cause
        if status not in API_DEGRADED or has_other_failure or opened_connection.provider.auth_mode == NOTHING_TO_REJECT:
            return
        suspicion = self.suspected.get(row.ref)
        if suspicion is None or not _has_same_grant(suspicion.row, row):
            if suspicion is not None and suspicion.row.version > row.version:
                return  # a late response to a credential that was replaced
            suspicion = self._suspect(row)
        run = suspicion.runs.get(status)
        if run is None:
            first_at = row.state_since if suspicion.final is not None and row.state_since is not None else clock.now()
            run = suspicion.runs[status] = ResponseRun(first_at, path)
        run.count += 1
        if path != run.path:
            run.paths = 2
        final = api_verdict(status, run.count, clock.now() - run.since, run.paths)
        if (
            final is not None
            and suspicion.write_task is None
            and (suspicion.final is None or (final and not suspicion.final))
        ):
            message = (
                f"the API returned {status} for {counted(run.count, 'call')} in a row since "
                f"{run.since:%Y-%m-%d %H:%M:%S} UTC and accepted none"
            )
            verdict = RefreshFailure(REJECTED, message, final, clock.now(), run.count)
            self._start_write(suspicion, self._store_verdict(suspicion, verdict))

    def record_acceptance(self, ref: ConnectionRef) -> None:
        """Stop counting the rejections of a connection, because a call returned 2xx.

        If the store has a verdict that the provider rejects the credential, withdraw it.
        """
        suspicion = self.suspected[ref]
        if suspicion.final is None and suspicion.write_task is None:
            del self.suspected[ref]
            return
        suspicion.runs.clear()
        if suspicion.write_task is None:
            self._start_write(suspicion, self._withdraw_verdict(suspicion))

    async def close(self) -> None:
        """Wait for verdicts that are being stored."""
        await asyncio.gather(*self.write_tasks(), return_exceptions=True)

    def write_tasks(self) -> "Iterator[asyncio.Task[None]]":
        """Return the tasks that are storing verdicts."""
        return iter([suspicion.write_task for suspicion in self.suspected.values() if suspicion.write_task is not None])

    def _suspect(self, row: Connection) -> Suspicion:
        if row.ref not in self.suspected and len(self.suspected) >= MAX_COUNTED:
            del self.suspected[next(iter(self.suspected))]
        suspicion = self.suspected[row.ref] = Suspicion(row)
        self._leave_fast_path(row.ref)
        return suspicion

    def _start_write(self, suspicion: Suspicion, work: Coroutine[Any, Any, None]) -> None:
        def on_done(task: "asyncio.Task[None]") -> None:
            suspicion.write_task = None
            if not task.cancelled() and (fault := task.exception()) is not None:
                # Nothing is lost: the next response stores the verdict.
                detail = fault.message if isinstance(fault, GatewayError) else repr(fault)
                log.warning("credential_verdict_not_stored", **log_fields(suspicion.row.ref), detail=detail)

        suspicion.write_task = asyncio.create_task(work)
        suspicion.write_task.add_done_callback(on_done)

    async def _store_verdict(self, suspicion: Suspicion, verdict: RefreshFailure) -> None:
        row = await self._store.rejections.record(suspicion.row, verdict)
        if row is None:  # another node stored the verdict first, or the credential has changed
            return
        suspicion.final = verdict.final
        self._report("credential_rejected", row, verdict.message)

    async def _withdraw_verdict(self, suspicion: Suspicion) -> None:
        row = await self._store.rejections.withdraw(suspicion.row, now=clock.now())
        if self.suspected.get(suspicion.row.ref) is suspicion:
            del self.suspected[suspicion.row.ref]
        if row is not None:
            self._report("credential_accepted", row, None)

    def _report(self, event: str, row: Connection, detail: str | None) -> None:
        self._replace(row)
        self._metrics.add(REJECTED_CREDENTIALS, *row.ref[:2], row.state.value)
        detail_fields = {"detail": detail} if detail else {}
        log.warning(event, **log_fields(row.ref), connection_state=row.state.value, **detail_fields)


def _has_same_grant(row: Connection, other_row: Connection) -> bool:
    """Return whether both rows have the same grant: the connection was not authorized or imported again in between."""
    return (row.uid, row.granted_at) == (other_row.uid, other_row.granted_at)
