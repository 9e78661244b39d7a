"""Credentials that a provider's API rejects on call after call although no newer one is to be had: counted here, judged by
`refusal_rules`, and noted in the store once a verdict changes. A 2xx ends the count.

A node counts in memory what it sees itself; what all nodes share is the verdict. While a connection is counted its calls take
the middleware chain, which looks at each answer, so a connection that works costs the fast path nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import structlog

from gateway import clock
from gateway.connections.commit import who
from gateway.connections.opened import Opened
from gateway.connections.refusal_rules import API_DEGRADED, api_verdict
from gateway.errors import GatewayError
from gateway.metrics import Metrics
from gateway.metrics.families import REJECTED_CREDENTIALS
from gateway.records.connection import Connection, ConnectionRef, RefreshFailure
from gateway.records.states import REJECTED
from gateway.store import Store
from gateway.wording import counted

MOST: Final = 10_000  # connections that are counted at a time; beyond that the one counted longest is forgotten
NOTHING_TO_REJECT: Final = "NONE"  # the auth mode without a credential

log = structlog.get_logger(__name__)


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
        """To be called when a connection is opened: another node may have stored a verdict, or withdrawn one."""
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
                log.warning("credential_verdict_not_stored", **who(one.seen.ref), detail=detail)

        one.writing = asyncio.create_task(work)
        one.writing.add_done_callback(ended)

    async def _noted(self, one: Suspicion, noted: RefreshFailure) -> None:
        row = await self._store.rejections.note(one.seen, noted)
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
        log.warning(event, **who(row.ref), connection_state=row.state.value, **why)


def _same_grant(one: Connection, other: Connection) -> bool:
    """Whether nobody has authorized or imported it again in between."""
    return (one.uid, one.granted_at) == (other.uid, other.granted_at)
