"""Sends requests to providers. The response is streamed for the proxy, and read whole for token endpoints and scripts.

Requests with https can reach the public internet and the networks that the operator allowed. Requests with http can
reach only those networks. If there is an outbound proxy, https requests use a tunnel (CONNECT) to the checked address.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from aiohttp import hdrs
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from gateway import clock
from gateway.egress.dial import Dialler, NameResolver
from gateway.egress.egress_errors import EgressError
from gateway.egress.guard import Guard, Scheme
from gateway.egress.pool import Pool, PoolLimits, PoolLoad
from gateway.egress.provider_connection import ProviderConnection
from gateway.egress.provider_exchange import Body, ConnectionLost, ProviderExchange
from gateway.egress.tls import ClientTlsContexts, TlsSessions, prepare_context
from gateway.http.content_coding import CodingError, Decoder
from gateway.http.request_head import request_head
from gateway.origin import DEFAULT_PORTS, bracketed, parse_url
from gateway.records.provider_call import ClientIdentity, ProviderCall, Reply
from gateway.records.proxied_call import UpstreamRequest

# ── Makes the first bytes of a request to a provider: the head with the gateway's framing, and a small body.

_FRAMING_FIELDS: Final = (
    hdrs.HOST,
    hdrs.CONTENT_LENGTH,
    hdrs.TRANSFER_ENCODING,
    hdrs.CONNECTION,
    hdrs.UPGRADE,
    hdrs.EXPECT,
)


def request_message(request: UpstreamRequest, pool: Pool, body: Body | None, upgrade: str | None) -> bytes:
    """Return the request's head, and also its body if the whole body has already arrived. Raises EgressError."""
    fields = request.headers
    if any(name in fields for name in _FRAMING_FIELDS):  # two framings in one message allow request smuggling
        fields = CIMultiDict(fields)
        for name in _FRAMING_FIELDS:
            fields.popall(name, None)
    framing = ""
    if body is not None:
        framing = "Transfer-Encoding: chunked\r\n" if body.length is None else f"Content-Length: {body.length}\r\n"
    if upgrade is not None:
        framing += f"Connection: Upgrade\r\nUpgrade: {upgrade}\r\n"
    try:
        head = request_head(request.method, request.target, pool.host, fields.items(), framing)
    except ValueError as fault:
        raise EgressError("refused", f"The request to {pool.origin} was not sent: {fault}.") from fault
    whole_body = body.whole if body is not None else None
    if whole_body is None:
        return head
    if body is not None and body.length is None:
        return head + (b"%x\r\n%b\r\n0\r\n\r\n" % (len(whole_body), whole_body) if whole_body else b"0\r\n\r\n")
    if body is None or body.length != len(whole_body):
        raise EgressError("protocol", f"The request to {pool.origin} was not sent: its body has another length.")
    return head + whole_body


# ── Reads small responses whole, for token endpoints, scripts and verifications.


@dataclass(frozen=True, slots=True)
class WholeResponse:
    """A small response, read whole and decoded."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


async def read_whole(exchange: ProviderExchange, origin: str, limit_bytes: int) -> bytes:
    """Return the decoded body; return it unchanged if its content coding is not supported.

    Raises EgressError: ``too_large`` if the decoded body exceeds `limit_bytes`, ``protocol`` if it cannot be decoded.
    """
    decoder = Decoder()
    is_decoded = decoder.start(
        ",".join(value for name, value in exchange.headers if name.lower() == "content-encoding")
    )
    content = bytearray()
    try:
        while piece := await exchange.read():
            for part in decoder.feed(piece) if is_decoded else (piece,):
                content += part
                if len(content) > limit_bytes:
                    raise EgressError("too_large", f"The response of {origin} has more than {limit_bytes} bytes.")
        decoder.finish()
    except CodingError as fault:
        raise EgressError("protocol", f"The response of {origin} could not be read: {fault}.") from fault
    return bytes(content)


_REPLAYABLE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
PoolKey = tuple[str, str, int, ClientIdentity | None]
# Added to the time limit for a response, in seconds. If this process was blocked, a response that arrived in time can
# still be unread.
UNREAD_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits in seconds.

    `connect_s`: maximum time from the name look-up to the end of the TLS handshake; this package enforces only this
    limit, and `gateway/proxy` enforces the other limits. `first_byte_s`: maximum time until the response begins.
    `idle_s`: maximum time without a byte. `total_s`: maximum time for the whole exchange; None for no limit.
    `max_first_byte_s`: the maximum that a caller may set for `first_byte_s`.
    """

    connect_s: float = 10.0
    first_byte_s: float = 60.0
    idle_s: float = 60.0
    total_s: float | None = None
    max_first_byte_s: float = 600.0


class Egress:
    """Sends requests to providers.

    `proxy`: URL of the outbound proxy for https; None: no proxy. `connections_per_host`: maximum number of connections
    to one origin. `waiting`, `wait_s`: maximum number of requests that wait for such a connection, and how long, in
    seconds. `tls`: the context that verifies servers; None: a context with the system's certificate authorities. The
    pool of an origin is made at the first request to the origin.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        proxy: str | None = None,
        timeouts: Timeouts | None = None,
        connections_per_host: int = 1000,
        waiting: int = 5000,
        wait_s: float = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.guard = guard
        self.timeouts = timeouts or Timeouts()
        self._limits = PoolLimits(connections_per_host, waiting, wait_s)
        self._trust = tls
        self._tls: ssl.SSLContext | None = None
        self._sessions = TlsSessions()
        self._identities = ClientTlsContexts(tls)
        self._names = NameResolver()
        self._dialler = Dialler(guard, self._names, self.timeouts.connect_s, URL(proxy) if proxy else None)
        self._pools: dict[PoolKey, Pool] = {}
        self._on_unused: Callable[[], None] | None = None  # None until this egress is retired

    def load(self) -> Iterator[tuple[str, PoolLoad]]:
        """Yield each origin to which there are connections, with the load of its pool."""
        for pool in self._pools.values():
            yield pool.origin, pool.load

    def retire(self, on_unused: Callable[[], None]) -> None:
        """Close idle connections now, and other connections after their exchange.

        Call this when another egress replaces this one. `on_unused`: called when no connection is left. A request that
        still uses this egress can open another connection.
        """
        self._on_unused = on_unused
        for pool in list(self._pools.values()):
            pool.retire()
        self._report_if_unused()

    def _report_if_unused(self) -> None:
        if self._on_unused is not None and not self._pools:
            self._names.close()
            self._on_unused()

    async def close(self) -> None:
        """Close every connection, even those in use."""
        for pool in list(self._pools.values()):
            await pool.close()
        self._pools.clear()
        self._names.close()

    async def send(
        self,
        request: UpstreamRequest,
        body: Body | None = None,
        *,
        upgrade: str | None = None,
        on_new_connection: bool = False,
    ) -> ProviderExchange:
        """Send `request` and wait for the response's head. Raises EgressError.

        `request.headers`: must contain only end-to-end fields. `body`: None if the request declares no body; for a body
        of length 0, the request declares an empty body. `upgrade`: the protocol to switch to (RFC 9110 §7.8), or None;
        after a 101, call `switch` on the result. `on_new_connection`: True if an idle connection has already lost this
        request, so that a new connection is used and the request is sent once.

        If the provider has closed an idle connection, the request is sent a second time on a new connection, but only
        with a safe method and without a body (RFC 9112 §9.3.1).
        """
        pool = self._pool(request)
        message = request_message(request, pool, body, upgrade)
        streamed_body = body if body is not None and body.whole is None else None
        if not on_new_connection:
            connection = await pool.acquire()
            reused = connection.served > 0
            try:
                return await connection.exchange(
                    message, streamed_body, method=request.method, may_switch=upgrade is not None
                )
            except ConnectionLost as fault:
                if not reused or not replaceable(request.method, has_body=body is not None and body.length != 0):
                    raise closed_without_response(pool.origin) from fault
        pool = self._pool(request)
        connection = await pool.acquire(must_be_new=True)
        try:
            return await connection.exchange(
                message, streamed_body, method=request.method, may_switch=upgrade is not None
            )
        except ConnectionLost as fault:
            raise closed_without_response(pool.origin) from fault

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        limit_bytes: int = 1 << 20,
        timeout_s: float = 10.0,
        identity: ClientIdentity | None = None,
        once: bool = False,
    ) -> WholeResponse:
        """Send one small request and return its whole response. Redirects are not followed.

        `limit_bytes`: maximum size of the response's body. `timeout_s`: limit for the whole exchange, in seconds.
        `identity`: client certificate for mutual TLS, or None. `once`: whether the provider must not receive the
        request twice (`send`). Raises EgressError, for example ``refused`` if the guard forbids the address, or
        ``too_large`` if the body exceeds `limit_bytes`.
        """
        try:
            parsed_url = parse_url(url)
        except ValueError as fault:
            raise EgressError("refused", f"The URL cannot be requested: {fault}.") from fault
        fields = CIMultiDict(headers or {})
        fields.setdefault(hdrs.USER_AGENT, "integration-gateway")
        fields.popall(hdrs.CONTENT_LENGTH, None)
        target = url[url.index("//") + 2 :].partition("?")[0].partition("/")
        path = target[1] + target[2] or "/"
        request = UpstreamRequest(
            method,
            parsed_url.scheme,
            parsed_url.host,
            parsed_url.port,
            path + parsed_url.query,
            fields,
            identity=identity,
        )
        try:
            async with _limit(timeout_s):
                new_connection = once and replaceable(method, has_body=bool(body))
                request_body = None if body is None else Body(_single_piece(body), len(body), whole=body)
                exchange = await self.send(request, request_body, on_new_connection=new_connection)
                try:
                    content = await read_whole(exchange, request.origin, limit_bytes)
                finally:
                    exchange.close()
        except TimeoutError:
            raise EgressError("timeout", f"{request.origin} did not respond within {timeout_s:g} s.") from None
        return WholeResponse(exchange.status, CIMultiDictProxy(CIMultiDict(exchange.headers)), content)

    def pool(self, origin: tuple[str, str, int]) -> Pool | None:
        """Return the pool of an origin (scheme, host, port) for requests without a client certificate.

        Return None if there is no such pool yet.
        """
        return self._pools.get((*origin, None))

    def _pool(self, request: UpstreamRequest) -> Pool:
        """Return the pool of the request's origin. Raises EgressError ``refused`` if the guard refuses the origin."""
        key = (request.scheme, request.host, request.port, request.identity)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._new_pool(*key)
            if self._on_unused is not None:
                pool.retire()
        return pool

    async def _context(self) -> ssl.SSLContext:
        """Return the TLS context.

        A thread makes the context at the first use, because it takes 50 ms to read the system's certificate
        authorities.
        """
        if self._tls is None:
            context = await asyncio.to_thread(prepare_context, self._trust, self._sessions)
            self._tls = self._tls or context
        return self._tls

    def _new_pool(self, scheme_name: str, host: str, port: int, identity: ClientIdentity | None) -> Pool:
        scheme: Scheme = "https" if scheme_name == "https" else "http"
        self.guard.check(scheme, host, port)
        key = (scheme_name, host, port, identity)
        host_text = bracketed(host)
        origin = f"{scheme}://{host_text}:{port}"

        async def dial(pool: Pool) -> ProviderConnection:
            tls = None
            if scheme == "https":
                tls = await (self._context() if identity is None else self._identities.context(identity))
            connection = ProviderConnection(origin, pool)
            await self._dialler.dial(scheme, host, port, connection, tls)
            return connection

        def forget(pool: Pool) -> None:
            if self._pools.get(key) is pool:
                del self._pools[key]
                self._report_if_unused()

        return Pool(
            origin,
            host_text if port == DEFAULT_PORTS[scheme] else f"{host_text}:{port}",
            self._limits,
            dial,
            forget,
            self._sessions if scheme == "https" and identity is None else None,
        )


class RetiredEgress:
    """The egress objects of earlier configurations. Each object is forgotten after its last connection has closed."""

    def __init__(self) -> None:
        self._retired: dict[Egress, None] = {}

    def __iter__(self) -> Iterator[Egress]:
        return iter(list(self._retired))

    def add(self, egress: Egress) -> None:
        """Retire `egress`, because a new configuration has its own egress."""
        self._retired[egress] = None
        egress.retire(lambda: self._retired.pop(egress, None))

    async def close(self) -> None:
        """Close every connection, even those in use."""
        for egress in self:
            await egress.close()


def replaceable(method: str, *, has_body: bool) -> bool:
    """Return whether a request that was lost on an idle connection may be sent again (RFC 9112 §9.3.1)."""
    return not has_body and method in _REPLAYABLE_METHODS


def closed_without_response(origin: str) -> EgressError:
    """Return the error for a provider that closed the connection before the first byte of a response."""
    return EgressError("unreachable", f"{origin} closed the connection without a response.")


@asynccontextmanager
async def _limit(timeout_s: float) -> AsyncIterator[None]:
    """Raise TimeoutError after `timeout_s` plus `UNREAD_S` seconds.

    In the extra time, the event loop can read bytes that have already arrived.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        deadline = loop.call_later(timeout_s, lambda: limit.reschedule(loop.time() + UNREAD_S))
        try:
            yield
        finally:
            deadline.cancel()


async def _single_piece(body: bytes) -> AsyncIterator[bytes]:
    yield body


# ── Sends a call that is given as data, and returns the reply with the time at which the call was sent.


async def fetch_reply(
    egress: Egress,
    call: ProviderCall,
    *,
    timeout_s: float,
    limit_bytes: int,
    now: Callable[[], datetime] | None = None,
    once: bool = False,
) -> Reply:
    """Send `call` and return the reply. Raises EgressError.

    `now`: returns the time for the reply's `asked_at`; None means the clock of this process. `once`: as in
    `Egress.fetch`.
    """
    began_at = clock.monotonic()
    response = await egress.fetch(
        call.method,
        call.url,
        headers=call.headers,
        body=call.body,
        limit_bytes=limit_bytes,
        timeout_s=timeout_s,
        identity=call.identity,
        once=once,
    )
    # The monotonic clock measures the duration, so that a change of the system clock meanwhile does not change an
    # expiry.
    asked_at = (now or clock.now)() - timedelta(seconds=clock.monotonic() - began_at)
    return Reply(response.status, response.headers, response.body, asked_at)
