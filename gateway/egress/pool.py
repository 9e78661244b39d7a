"""The connections to one origin, handed out last-in first-out, so that surplus connections stay idle and are closed."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from gateway.egress.egress_errors import CallNotAttempted, EgressError
from gateway.egress.provider_connection import ProviderConnection
from gateway.egress.tls import TlsSessions

IDLE_S: Final = 45.0  # shorter than the 60 s after which many providers close
MAX_WAITING: Final = 5000
WAIT_S: Final = 10.0
CHECK_EVERY_S: Final = 5.0

Dial = Callable[["Pool"], Awaitable[ProviderConnection]]


class PoolLoad(NamedTuple):
    """Numbers of connections in use, idle connections, connections being dialled, and requests that wait for one."""

    busy: int
    idle: int
    dialling: int
    waiting: int


class Pool:
    """At most `limit` connections, including those being dialled. `dial` opens a connection that this pool owns.

    `host`: value of the Host header. `forget` is called whenever the last connection is gone and no request waits.
    `sessions`: stores TLS sessions for resumption; None: no session is stored.
    """

    def __init__(
        self,
        origin: str,
        host: str,
        limit: int,
        dial: Dial,
        forget: Callable[["Pool"], None],
        sessions: TlsSessions | None = None,
    ) -> None:
        self.origin = origin
        self.host = host
        self._limit = limit
        self._dial = dial
        self._forget = forget
        self._sessions = sessions
        self._loop = asyncio.get_running_loop()
        self._open: set[ProviderConnection] = set()
        self._dialling = 0
        self._idle: list[ProviderConnection] = []
        self._waiting: deque[asyncio.Future[ProviderConnection | None]] = deque()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = self._retired = False
        self._emptied = asyncio.Event()

    @property
    def load(self) -> PoolLoad:
        """How much the pool is used, for metrics."""
        idle = len(self._idle)
        return PoolLoad(len(self._open) - idle, idle, self._dialling, len(self._waiting))

    def acquire_idle(self) -> ProviderConnection | None:
        """Return an idle connection that is still usable, or None."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and self._loop.time() < connection.idle_until:
                return connection
            connection.abort()
        return None

    def release_unused(self, connection: ProviderConnection) -> None:
        """Return a connection from `acquire_idle` to the pool, because it is not needed."""
        if self._closed or self._retired:
            connection.abort()
        elif not (self._waiting and self._give_to_waiting(connection)):
            self._keep_idle(connection)

    async def acquire(self, *, fresh: bool = False) -> ProviderConnection:
        """Return a connection for one request, a new one if `fresh`. After the request, the connection returns to this
        pool or closes.

        Raises EgressError: ``busy`` if none becomes free within `WAIT_S` or too many requests wait already, else the
        error of dialling.
        """
        connection = None if fresh else self.acquire_idle()
        if connection is None:
            if len(self._open) + self._dialling < self._limit:
                self._dialling += 1
            else:
                connection = await self._wait()
        if connection is None:
            return await self._dial_new()
        if fresh:  # the previous idle connection was closed by the provider, and the others may be too
            self._dialling += 1
            connection.abort()
            return await self._dial_new()
        return connection if connection.usable else await self.acquire()

    async def _dial_new(self) -> ProviderConnection:
        """Dial and return a new connection; `_dialling` already counts its place."""
        try:
            connection = await self._dial(self)
            if self._closed or not connection.usable:
                connection.abort()
                message = (
                    "The gateway is stopping." if self._closed else f"{self.origin} closed the connection at once."
                )
                raise EgressError("unreachable", message)
        except BaseException as fault:
            if isinstance(fault, EgressError):
                fault.sent = False
            self._dialling -= 1
            self._grant_next_place()
            raise
        self._dialling -= 1
        self._open.add(connection)
        return connection

    async def _wait(self) -> ProviderConnection | None:
        """Wait for a free connection and return it; None: a place for a new one became free, and `_dialling` counts
        it."""
        if len(self._waiting) >= MAX_WAITING:
            raise self._full_error(f"Too many requests wait for a connection to {self.origin}. Try again later.")
        waiter: asyncio.Future[ProviderConnection | None] = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(WAIT_S):
                return await waiter
        except BaseException as fault:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._take_back_grant(waiter.result())
            if isinstance(fault, TimeoutError):
                raise self._full_error(
                    f"All {self._limit} connections to {self.origin} were in use for {WAIT_S:g} s. Try again later."
                ) from fault
            raise

    @staticmethod
    def _full_error(message: str) -> CallNotAttempted:
        return CallNotAttempted(message, reason="too_many_connections", retry_after_s=1)

    def first_exchange_ended(self, connection: ProviderConnection) -> None:
        if self._sessions is not None:
            self._sessions.keep(connection.transport.get_extra_info("ssl_object"))

    def release(self, connection: ProviderConnection, keep_s: float | None) -> None:
        if self._closed or (self._retired and not self._waiting):
            connection.abort()
            return
        keep_s = IDLE_S if keep_s is None else min(IDLE_S, max(keep_s - 1.0, keep_s / 2))
        connection.idle_until = self._loop.time() + keep_s
        if self._waiting and self._give_to_waiting(connection):
            return
        self._keep_idle(connection)

    def _keep_idle(self, connection: ProviderConnection) -> None:
        self._idle.append(connection)
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(CHECK_EVERY_S, self._close_idle)

    def connection_closed(self, connection: ProviderConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._grant_next_place()

    def retire(self) -> None:
        """Close idle connections, now and whenever one becomes idle."""
        self._retired = True
        for connection in list(self._idle):
            connection.abort()

    async def close(self) -> None:
        """Close every connection, even those in use."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(EgressError("unreachable", "The gateway is stopping."))
        self._waiting.clear()
        for connection in list(self._open):
            connection.abort()
        while self._open:
            self._emptied.clear()
            await self._emptied.wait()

    def _give_to_waiting(self, connection: ProviderConnection | None) -> bool:
        """Give `connection` to the request that has waited longest; return False if none waits.

        `connection` None: grant it a place for a new connection, which is counted here.
        """
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                if connection is None:
                    self._dialling += 1
                waiter.set_result(connection)
                return True
        return False

    def _take_back_grant(self, connection: ProviderConnection | None) -> None:
        """Take back a connection, or a place (None), that was granted to a request that no longer waits."""
        if connection is None:
            self._dialling -= 1
            self._grant_next_place()
        elif connection.usable:
            self.release_unused(connection)

    def _grant_next_place(self) -> None:
        """Grant a place that may have become free to a waiting request, or forget the pool if it is empty."""
        if self._open or self._dialling or self._waiting:
            if len(self._open) + self._dialling < self._limit:
                self._give_to_waiting(None)
            return
        self._emptied.set()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._forget(self)

    def _close_idle(self) -> None:
        """Close connections that have been idle too long. One timer serves all: a timer per request would cost more."""
        self._idle_timer = None
        now = self._loop.time()
        for connection in [connection for connection in self._idle if connection.idle_until <= now]:
            self._idle.remove(connection)
            connection.abort()
        if self._idle:
            self._idle_timer = self._loop.call_later(CHECK_EVERY_S, self._close_idle)
