"""Keeps the connections to one origin.

The connection that became idle last is used first, so that surplus connections stay idle and are closed.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.egress.egress_errors import CallNotAttempted, EgressError
from gateway.egress.provider_connection import ProviderConnection
from gateway.egress.tls import TlsSessions

IDLE_S: Final = 45.0  # shorter than the 60 s after which many providers close an idle connection
CHECK_EVERY_S: Final = 5.0

Dial = Callable[["Pool"], Awaitable[ProviderConnection]]


class PoolLoad(NamedTuple):
    """The load of a pool, as numbers.

    `busy`: connections in use. `idle`: idle connections. `dialling`: connections that are being opened. `waiting`:
    requests that wait for a connection.
    """

    busy: int
    idle: int
    dialling: int
    waiting: int


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The limits of the connections to one origin.

    `connections`: maximum number of connections, including connections that are being opened. `waiting`: maximum number
    of requests that wait for a connection. `wait_s`: maximum wait of such a request, in seconds.
    """

    connections: int
    waiting: int
    wait_s: float


class Pool:
    """The connections to one origin.

    `host`: value of the Host header. `dial`: opens a connection that this pool owns. `forget`: called when the last
    connection has closed and no request waits. `sessions`: stores TLS sessions for resumption; None: no session is
    stored.
    """

    def __init__(
        self,
        origin: str,
        host: str,
        limits: PoolLimits,
        dial: Dial,
        forget: Callable[["Pool"], None],
        sessions: TlsSessions | None = None,
    ) -> None:
        self.origin = origin
        self.host = host
        self._limits = limits
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
        """The current load of the pool, for metrics."""
        idle = len(self._idle)
        return PoolLoad(len(self._open) - idle, idle, self._dialling, len(self._waiting))

    def acquire_idle(self) -> ProviderConnection | None:
        """Return an idle connection that is still usable; None if there is no such connection."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and self._loop.time() < connection.idle_until:
                return connection
            connection.abort()
        return None

    def release_unused(self, connection: ProviderConnection) -> None:
        """Give a connection from `acquire_idle` back to the pool, because it was not needed."""
        if self._closed or self._retired:
            connection.abort()
        elif not (self._waiting and self._give_to_waiting(connection)):
            self._keep_idle(connection)

    async def acquire(self, *, must_be_new: bool = False) -> ProviderConnection:
        """Return a connection for one request. After the request, the connection returns to this pool or closes.

        `must_be_new`: return a new connection. Raises EgressError ``busy`` if no connection becomes free in time, or
        if too many requests wait. Raises the error of `dial` if no connection can be opened.
        """
        connection = None if must_be_new else self.acquire_idle()
        if connection is None:
            if len(self._open) + self._dialling < self._limits.connections:
                self._dialling += 1
            else:
                connection = await self._wait()
        if connection is None:
            return await self._dial_new()
        if must_be_new:  # the provider has closed one idle connection, and might have closed this one too
            self._dialling += 1
            connection.abort()
            return await self._dial_new()
        return connection if connection.usable else await self.acquire()

    async def _dial_new(self) -> ProviderConnection:
        """Open and return a new connection. The caller has already counted it in `_dialling`."""
        try:
            connection = await self._dial(self)
            if self._closed or not connection.usable:
                connection.abort()
                message = (
                    "The gateway is stopping." if self._closed else f"{self.origin} closed the connection immediately."
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
        """Wait for a free connection and return it.

        Return None if there is a place for a new connection instead. The place is then counted in `_dialling`.
        """
        if len(self._waiting) >= self._limits.waiting:
            raise self._full_error(f"Too many requests wait for a connection to {self.origin}. Try again later.")
        waiter: asyncio.Future[ProviderConnection | None] = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(self._limits.wait_s):
                return await waiter
        except BaseException as fault:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._take_back_grant(waiter.result())
            if isinstance(fault, TimeoutError):
                limits = self._limits
                raise self._full_error(
                    f"All {limits.connections} connections to {self.origin} were in use for {limits.wait_s:g} s. Try "
                    "again later."
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
        """Close all idle connections, and from now on each connection that becomes idle."""
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
        """Give `connection` to the request that has waited longest; return False if no request waits.

        If `connection` is None, give the request a place for a new connection, and count the place in `_dialling`.
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
        """Take back a connection, or a place (None), from a request that no longer waits."""
        if connection is None:
            self._dialling -= 1
            self._grant_next_place()
        elif connection.usable:
            self.release_unused(connection)

    def _grant_next_place(self) -> None:
        """Give a free place to a waiting request, if a place is free. Forget the pool if it is empty."""
        if self._open or self._dialling or self._waiting:
            if len(self._open) + self._dialling < self._limits.connections:
                self._give_to_waiting(None)
            return
        self._emptied.set()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._forget(self)

    def _close_idle(self) -> None:
        """Close connections that have been idle too long.

        One timer serves all connections, because a timer for each request would cost more.
        """
        self._idle_timer = None
        now = self._loop.time()
        for connection in [connection for connection in self._idle if connection.idle_until <= now]:
            self._idle.remove(connection)
            connection.abort()
        if self._idle:
            self._idle_timer = self._loop.call_later(CHECK_EVERY_S, self._close_idle)
