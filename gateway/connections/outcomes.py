"""Tells what came of an attempt to connect: to the window that waits here for it, and through the store to all other nodes.

The browser's WebSocket may hang on another node, or in another worker, than the one that its callback comes to. So an
outcome is stored first; whoever waits is woken by the change feed and reads it there (ADR 25).
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import structlog

from gateway import clock
from gateway.access.refusals import told
from gateway.errors import GatewayError, TooManyRequests
from gateway.records.connecting import Outcome
from gateway.secret import digest
from gateway.store import Store
from gateway.wording import counted

SOCKET_WAIT_S: Final = 10
OVERLAP: Final = timedelta(seconds=60)  # nodes' clocks differ, and a commit may come late

log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class Waiting:
    """Somebody waits: for the outcome of one window (`key` is its client's digest) or of a whole session."""

    key: str
    outcome: "asyncio.Future[Outcome | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def told(self, outcome: Outcome | None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class Outcomes:
    """Nothing is asked of the store while nobody waits here."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, set[Waiting]] = {}
        self._count = 0
        self._sockets: Counter[str] = Counter()  # by client
        self._looked_at: datetime | None = None

    @staticmethod
    def new_client() -> str:
        """A `ws_client_id`: whoever has it hears the outcome of the window that names it."""
        return str(uuid.uuid4())

    def crowded(self, most: int) -> bool:
        """Whether `most` windows and pages wait already in this worker."""
        return self._count >= most

    @contextmanager
    def socket_of(self, client: str, most: int) -> Iterator[None]:
        """Hold one of the WebSockets that `client`, an address, may have open. Raises TooManyRequests."""
        if self._sockets[client] >= most:
            fix = f"Close others, or try again in {SOCKET_WAIT_S} s."
            raise TooManyRequests(
                "too_many_request",
                f"{counted(most, 'WebSocket')} of this client's address wait for a result, the most that "
                f"connect.result_sockets_per_address allows. {fix}",
                payload={"limit": most, **told("result_sockets_per_address", fix, "the gateway's operator")},
                retry_after_s=SOCKET_WAIT_S,
            )
        self._sockets[client] += 1
        try:
            yield
        finally:
            self._sockets[client] -= 1
            if not self._sockets[client]:
                del self._sockets[client]

    @contextmanager
    def waiting(self, key: str) -> Iterator[Waiting]:
        """Hear of the next outcome for `key`: the digest of a `ws_client_id`, or of a session's token."""
        one = Waiting(key)
        self._waiting.setdefault(key, set()).add(one)
        self._count += 1
        if self._looked_at is None:
            self._looked_at = clock.now()
        try:
            yield one
        finally:
            self._count -= 1
            others = self._waiting[key]
            others.discard(one)
            if not others:
                del self._waiting[key]
            if not self._waiting:
                self._looked_at = None

    async def tell(self, outcome: Outcome) -> None:
        """Store it and wake whoever waits. A store that fails costs the other nodes the news, never the connection."""
        try:
            await self._store.flow_results.add(outcome)
        except GatewayError as fault:
            log.warning("outcome_unsaved", integration=outcome.integration_id, detail=fault.message)
        self._deliver(outcome)

    async def look(self, serving: bool = True) -> None:
        """Called after each change in the store, and now and then besides. `serving` false: nobody shall wait any longer."""
        if not self._waiting:
            return
        if not serving:
            for waiting in list(self._waiting.values()):
                for one in list(waiting):
                    one.told(None)
            return
        now = clock.now()
        since = (self._looked_at or now) - OVERLAP
        for outcome in reversed(await self._store.flow_results.since(since)):
            self._deliver(outcome)
        self._looked_at = now if self._waiting else None

    def _deliver(self, outcome: Outcome) -> None:
        for key in (outcome.client_digest, outcome.session_digest):
            for one in list(self._waiting.get(key, ()) if key else ()):
                one.told(outcome)


def client_digest(ws_client_id: str | None) -> str | None:
    """Under which a window's outcome is stored; None for a window that waits for nothing."""
    return digest(ws_client_id) if ws_client_id else None
