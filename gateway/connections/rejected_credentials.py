"""Handles a credential that a provider's API rejects: an early refresh, and after enough rejections a report.

Rejections on call after call, although there is no newer credential, are counted here and judged by
`backoff.api_verdict`; the store is written when the verdict changes. A 2xx ends the count.

A node counts in memory what it sees itself; what all nodes share is the verdict. While a connection is counted its calls take
the middleware chain, which looks at each answer, so a connection that works costs the fast path nothing.
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
from gateway.connections.opened import Opened
from gateway.errors import GatewayError
from gateway.observe.metrics import REJECTED_CREDENTIALS, Metrics
from gateway.records.connection import Connection, ConnectionRef, RefreshFailure
from gateway.records.states import REJECTED
from gateway.refresh.auth_exchange import mode_for
from gateway.refresh.backoff import API_DEGRADED, api_verdict
from gateway.refresh.refresher import Refresher
from gateway.refresh.save_tokens import log_fields
from gateway.refresh.schedule import lifetime
from gateway.store import Store
from gateway.text import counted

# ── What follows when a provider answers 401: the credential is refreshed early, once for all calls that
# got the 401.
#
# A 401 leads to a refresh however young the token is, but to one only: where the provider refuses the token of that
# refresh too, the 401 is passed on until `again_after` is over.

AGAIN_AFTER: Final = timedelta(seconds=60)  # from one refresh that a 401 leads to until the next
SHORTEST: Final = timedelta(seconds=1)  # the same for tokens of a few seconds
MOST_NOTED: Final = 10_000

log = structlog.get_logger(__name__)


class Rows(Protocol):
    """Where connections are kept (`connections.cache`)."""

    async def known(self, ref: ConnectionRef) -> Connection:
        """Return the row from memory or, if it is not there, from the store. Raises NotFound."""

    def replace(self, connection: Connection) -> None:
        """Take over a row that was just written."""

    async def opened(self, environment: str, integration_id: str, connection_id: str) -> Opened:
        """The connection, ready for use."""

    def may_try(self, connection: Connection, now: datetime) -> bool:
        """Return whether the token endpoint may be asked again for this connection."""

    def provider_of(self, connection: Connection) -> Provider:
        """The entry that the connection was made with. Raises ReconnectNeeded where its integration moved to another."""


class Refusals:
    """The refreshes that a refused credential has set off, one a connection."""

    def __init__(self, store: Store, refresher: Refresher, rows: Rows) -> None:
        self._store = store
        self._refresher = refresher
        self._rows = rows
        self._refused: dict[tuple[ConnectionRef, int], asyncio.Task[Opened | None]] = {}
        self._refreshed_at: OrderedDict[ConnectionRef, float] = OrderedDict()  # monotonic, of refreshes for a 401

    async def newer_than(self, sent: Opened) -> Opened | None:
        """The connection with a newer credential than `sent` has, which the provider has just answered with a 401.

        Refreshed now, unless that was done already, here or elsewhere. None where a newer one is not to be had: the mode
        knows no refresh, a 401 has just led to one, or the token endpoint refuses or is silent.
        """
        newer = await asyncio.shield(self.start(sent))
        return newer if newer is not None and newer.connection.version > sent.connection.version else None

    def start(self, sent: Opened) -> "asyncio.Task[Opened | None]":
        """The task that does that, one for all calls with this credential; it outlives the calls."""
        key = sent.connection.ref, sent.connection.version
        task = self._refused.get(key)
        if task is None:
            task = self._refused[key] = asyncio.create_task(self._after(sent))
            task.add_done_callback(lambda done: (self._refused.pop(key, None), done.cancelled() or done.exception()))
        return task

    async def idle(self) -> None:
        """Return once none of them is under way."""
        while self._refused:
            await asyncio.gather(*self._refused.values(), return_exceptions=True)
            await asyncio.sleep(0)  # their callbacks

    async def close(self) -> None:
        """Cancel what waits for a refresh; the refresh itself is the refresher's."""
        for task in list(self._refused.values()):
            task.cancel()
        await self.idle()

    async def _after(self, sent: Opened) -> Opened | None:
        ref, version = sent.connection.ref, sent.connection.version
        try:
            known = await self._rows.known(ref)
            row = known if known.version > version else await self._refreshed(known)
            if row is None:
                return None
            self._rows.replace(row)
            return await self._rows.opened(*ref)
        except GatewayError as fault:
            log.info("no_newer_credential", connection_id=ref.connection_id, integration=ref[1], detail=fault.message)
            return None

    async def _refreshed(self, row: Connection) -> Connection | None:
        """`row` refreshed ahead of its time, by this node or another; None where that cannot or shall not be."""
        now = clock.monotonic()
        last = self._refreshed_at.get(row.ref)
        if last is not None and now - last < again_after(row).total_seconds():
            return None
        held = self._store.open(row.credential)
        provider = self._rows.provider_of(row)
        refreshable = mode_for(provider, held, row.ref).refreshable(held, provider)
        if not refreshable or not self._rows.may_try(row, clock.now()):
            return None
        self._refreshed_at[row.ref] = now
        self._refreshed_at.move_to_end(row.ref)
        if len(self._refreshed_at) > MOST_NOTED:
            self._refreshed_at.popitem(last=False)
        return await self._refresher.refreshed(row)


def again_after(row: Connection) -> timedelta:
    """How long after a refresh for a 401 the next 401 leads to another: a minute, or the token's lifetime if shorter."""
    if row.expires_at is None:
        return AGAIN_AFTER
    return min(AGAIN_AFTER, max(SHORTEST, lifetime(row, row.expires_at)))


MOST: Final = 10_000  # connections that are counted at a time; beyond that the one counted longest is forgotten
NOTHING_TO_REJECT: Final = "NONE"  # the auth mode without a credential


@dataclass(slots=True)
class Run:
    """Answers of one status in a row. `paths`: 2 where there was more than one."""

    since: datetime
    path: str
    count: int = 0
    paths: int = 1


@dataclass(slots=True)
class Suspicion:
    """`seen`: the row with the rejected credential. `final`: the verdict in the store, None where there is none.

    `writing`: a verdict that is being stored.
    """

    seen: Connection
    runs: dict[int, Run] = field(default_factory=dict)
    final: bool | None = None
    writing: "asyncio.Task[None] | None" = None


class Rejections:
    """`replace` takes over a row that was written. `leave_fast_path` has the next call of a connection take the chain."""

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

    def learn(self, row: Connection) -> None:
        """Take over the stored verdict when a connection is opened: another node may have stored one, or withdrawn it."""
        one = self.suspected.get(row.ref)
        stored = row.failure if row.failure is not None and row.failure.code == REJECTED else None
        if stored is not None:
            if one is None or not _same_grant(one.seen, row):
                one = self._suspect(row)
            one.seen, one.final = row, stored.final
        elif one is not None and one.writing is None and (one.final is not None or not _same_grant(one.seen, row)):
            del self.suspected[row.ref]

    def refused(self, opened: Opened, status: int, path: str) -> None:
        """The API answered `status`, 401 or 403, to a call with the newest credential there is. `path`: without the query."""
        row = opened.connection
        other = row.failure is not None and row.failure.code != REJECTED  # which says more about it
        if status not in API_DEGRADED or other or opened.provider.auth_mode == NOTHING_TO_REJECT:
            return
        one = self.suspected.get(row.ref)
        if one is None or not _same_grant(one.seen, row):
            if one is not None and one.seen.version > row.version:
                return  # a late answer to what was replaced
            one = self._suspect(row)
        run = one.runs.get(status)
        if run is None:
            since = row.state_since if one.final is not None and row.state_since is not None else clock.now()
            run = one.runs[status] = Run(since, path)
        run.count += 1
        if path != run.path:
            run.paths = 2
        final = api_verdict(status, run.count, clock.now() - run.since, run.paths)
        if final is not None and one.writing is None and (one.final is None or (final and not one.final)):
            message = (
                f"the API answered {status} to {counted(run.count, 'call')} in a row since "
                f"{run.since:%Y-%m-%d %H:%M:%S} UTC and accepted none"
            )
            noted = RefreshFailure(REJECTED, message, final, clock.now(), run.count)
            self._write(one, self._noted(one, noted))

    def accepted(self, ref: ConnectionRef) -> None:
        """The API answered 2xx to a call of a connection that is counted."""
        one = self.suspected[ref]
        if one.final is None and one.writing is None:
            del self.suspected[ref]
            return
        one.runs.clear()
        if one.writing is None:
            self._write(one, self._withdrawn(one))

    async def close(self) -> None:
        """Wait for what is being stored."""
        await asyncio.gather(*self.writing(), return_exceptions=True)

    def writing(self) -> "Iterator[asyncio.Task[None]]":
        """Verdicts that are being stored."""
        return iter([one.writing for one in self.suspected.values() if one.writing is not None])

    def _suspect(self, row: Connection) -> Suspicion:
        if row.ref not in self.suspected and len(self.suspected) >= MOST:
            del self.suspected[next(iter(self.suspected))]
        one = self.suspected[row.ref] = Suspicion(row)
        self._leave_fast_path(row.ref)
        return one

    def _write(self, one: Suspicion, work: Coroutine[Any, Any, None]) -> None:
        def ended(task: "asyncio.Task[None]") -> None:
            one.writing = None
            if not task.cancelled() and (fault := task.exception()) is not None:
                # Nothing is lost: the next answer leads to the same.
                detail = fault.message if isinstance(fault, GatewayError) else repr(fault)
                log.warning("credential_verdict_not_stored", **log_fields(one.seen.ref), detail=detail)

        one.writing = asyncio.create_task(work)
        one.writing.add_done_callback(ended)

    async def _noted(self, one: Suspicion, noted: RefreshFailure) -> None:
        row = await self._store.rejections.record(one.seen, noted)
        if row is None:  # another node was quicker, or the credential is another by now
            return
        one.final = noted.final
        self._report("credential_rejected", row, noted.message)

    async def _withdrawn(self, one: Suspicion) -> None:
        row = await self._store.rejections.withdraw(one.seen, now=clock.now())
        if self.suspected.get(one.seen.ref) is one:
            del self.suspected[one.seen.ref]
        if row is not None:
            self._report("credential_accepted", row, None)

    def _report(self, event: str, row: Connection, detail: str | None) -> None:
        self._replace(row)
        self._metrics.add(REJECTED_CREDENTIALS, *row.ref[:2], row.state.value)
        why = {"detail": detail} if detail else {}
        log.warning(event, **log_fields(row.ref), connection_state=row.state.value, **why)


def _same_grant(one: Connection, other: Connection) -> bool:
    """Return whether nobody has authorized or imported the connection again in between."""
    return (one.uid, one.granted_at) == (other.uid, other.granted_at)
