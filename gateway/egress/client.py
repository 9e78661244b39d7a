"""Requests to providers: streamed for the proxy, whole for token endpoints and scripts.

https reaches the public internet and the networks that the operator allowed, http only the latter. With an outbound
proxy, https goes through it: CONNECT to the address that was checked.
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
from gateway.authority import DEFAULT_PORTS, bracketed
from gateway.egress.dial import Dialler, NameResolver
from gateway.egress.egress_errors import EgressError
from gateway.egress.guard import Guard, Scheme
from gateway.egress.pool import Pool, PoolLoad
from gateway.egress.provider_connection import ProviderConnection
from gateway.egress.provider_exchange import Body, ConnectionLost, ProviderExchange
from gateway.egress.provider_exchange import ProviderResponse as LiveResponse
from gateway.egress.tls import ClientTlsContexts, TlsSessions, prepare_context
from gateway.http.content_coding import CodingError, Decoder
from gateway.http.origin import parse_url
from gateway.http.request_head import request_head
from gateway.records.provider_call import ClientIdentity, ProviderCall, Reply
from gateway.records.proxied_call import UpstreamRequest

# ── The first bytes of a request to a provider: its head, framed by us, together with a small body.

_FRAMING_FIELDS: Final = (
    hdrs.HOST,
    hdrs.CONTENT_LENGTH,
    hdrs.TRANSFER_ENCODING,
    hdrs.CONNECTION,
    hdrs.UPGRADE,
    hdrs.EXPECT,
)


def request_message(request: UpstreamRequest, pool: Pool, body: Body | None, upgrade: str | None) -> bytes:
    """Return the request's head, and its body if that is available and small. Raises EgressError."""
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


# ── Small responses, read whole: from token endpoints, scripts and verifications.


@dataclass(frozen=True, slots=True)
class WholeResponse:
    """A small response, read whole and decoded."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


async def read_whole(exchange: ProviderExchange, origin: str, limit_bytes: int) -> bytes:
    """Return the body, decoded; unchanged if its coding is not supported.

    Raises EgressError: ``too_large`` if the decoded body exceeds `limit_bytes`, ``protocol`` if it cannot be decoded.
    """
    decoder = Decoder()
    encoded = decoder.start(",".join(value for name, value in exchange.headers if name.lower() == "content-encoding"))
    content = bytearray()
    try:
        while piece := await exchange.read():
            for part in decoder.feed(piece) if encoded else (piece,):
                content += part
                if len(content) > limit_bytes:
                    raise EgressError("too_large", f"The response of {origin} has more than {limit_bytes} bytes.")
        decoder.finish()
    except CodingError as fault:
        raise EgressError("protocol", f"The response of {origin} could not be read: {fault}.") from fault
    return bytes(content)


_REPLAYABLE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
PoolKey = tuple[str, str, int, ClientIdentity | None]
# Added to the time limit for a response: if this process was blocked, a response that arrived in time is still unread.
UNREAD_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits in seconds. This package enforces only `connect_s`: from the look-up to the end of the TLS handshake.

    `gateway/proxy` enforces the others. `total_s` is None for no limit. `max_first_byte_s`: the maximum that a caller
    may set."""

    connect_s: float = 10.0
    first_byte_s: float = 60.0
    idle_s: float = 60.0
    total_s: float | None = None
    max_first_byte_s: float = 600.0


class Egress:
    """Sends requests to providers.

    `proxy`: URL of the outbound proxy for https. `connections_per_host`: maximum number of connections to one origin.
    `tls`: the context for verifying servers; None: a context with the system's authorities. Pools are made on first
    use."""

    def __init__(
        self,
        guard: Guard,
        *,
        proxy: str | None = None,
        timeouts: Timeouts | None = None,
        connections_per_host: int = 1000,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.guard = guard
        self.timeouts = timeouts or Timeouts()
        self._limit = connections_per_host
        self._trust = tls
        self._tls: ssl.SSLContext | None = None
        self._sessions = TlsSessions()
        self._identities = ClientTlsContexts(tls)
        self._names = NameResolver()
        self._dialler = Dialler(guard, self._names, self.timeouts.connect_s, URL(proxy) if proxy else None)
        self._pools: dict[PoolKey, Pool] = {}
        self._on_unused: Callable[[], None] | None = None  # set once this egress is retired

    def load(self) -> Iterator[tuple[str, PoolLoad]]:
        """Yield each origin that has a connection, with the load of its pool."""
        for pool in self._pools.values():
            yield pool.origin, pool.load

    def retire(self, unused: Callable[[], None]) -> None:
        """Close idle connections now, and others after their exchange, because another egress replaces this one.

        `unused` is called when no connection is left. A request that still uses this egress may open another
        connection."""
        self._on_unused = unused
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
        replaced: bool = False,
    ) -> ProviderExchange:
        """Send `request` and wait for the response's head. Raises EgressError.

        `request.headers`: end-to-end fields only. `body` of length 0: the length is declared, and no byte follows.
        `upgrade`: request a switch to that protocol (RFC 9110 §7.8); after a 101, `switch` hands the connection over.
        `replaced`: an idle connection has already lost this request, so use a new connection.

        If an idle connection turns out to be closed, the request is sent once more on a new connection, provided that
        its method is safe and it has no body (RFC 9112 §9.3.1).
        """
        return await self._send(request, body, upgrade, replaced=replaced)

    async def _send(
        self, request: UpstreamRequest, body: Body | None, upgrade: str | None, *, replaced: bool
    ) -> LiveResponse:
        pool = self._pool(request)
        message = request_message(request, pool, body, upgrade)
        streamed = body if body is not None and body.whole is None else None
        if not replaced:
            connection = await pool.acquire()
            reused = connection.served > 0
            try:
                return await connection.exchange(
                    message, streamed, method=request.method, may_switch=upgrade is not None
                )
            except ConnectionLost as fault:
                if not reused or not replaceable(request.method, has_body=body is not None):
                    raise closed_without_response(pool.origin) from fault
        pool = self._pool(request)
        connection = await pool.acquire(fresh=True)
        try:
            return await connection.exchange(message, method=request.method, may_switch=upgrade is not None)
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
    ) -> WholeResponse:
        """Send one small request and return its whole response. Redirects are not followed.

        `timeout_s`: limit for the whole exchange. `identity`: client certificate for mutual TLS. Raises EgressError,
        for example ``refused`` for a URL that may not be dialled, or ``too_large`` for a body above `limit_bytes`.
        """
        try:
            parsed = parse_url(url)
        except ValueError as fault:
            raise EgressError("refused", f"The URL cannot be requested: {fault}.") from fault
        fields = CIMultiDict(headers or {})
        fields.setdefault(hdrs.USER_AGENT, "integration-gateway")
        fields.popall(hdrs.CONTENT_LENGTH, None)
        target = url[url.index("//") + 2 :].partition("?")[0].partition("/")
        path = target[1] + target[2] or "/"
        request = UpstreamRequest(
            method, parsed.scheme, parsed.host, parsed.port, path + parsed.query, fields, identity=identity
        )
        try:
            async with _limit(timeout_s):
                exchange = await self.send(request, None if body is None else Body(_once(body), len(body), whole=body))
                try:
                    content = await read_whole(exchange, request.origin, limit_bytes)
                finally:
                    exchange.close()
        except TimeoutError:
            raise EgressError("timeout", f"{request.origin} did not respond within {timeout_s:g} s.") from None
        return WholeResponse(exchange.status, CIMultiDictProxy(CIMultiDict(exchange.headers)), content)

    def pool(self, origin: tuple[str, str, int]) -> Pool | None:
        """Return the pool for that scheme, host and port, without a client certificate; None if there is none."""
        return self._pools.get((*origin, None))

    def _pool(self, request: UpstreamRequest) -> Pool:
        """Return the pool of the request's origin. Raises EgressError ``refused`` if `Guard.check` refuses it."""
        key = (request.scheme, request.host, request.port, request.identity)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._new_pool(*key)
            if self._on_unused is not None:
                pool.retire()
        return pool

    async def _context(self) -> ssl.SSLContext:
        """Return the TLS context. A thread makes it on first use: the system's authorities take 50 ms to read."""
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
            self._limit,
            dial,
            forget,
            self._sessions if scheme == "https" and identity is None else None,
        )


class RetiredEgress:
    """The egress of earlier configurations; each is forgotten once its last connection is closed."""

    def __init__(self) -> None:
        self._retired: dict[Egress, None] = {}

    def __iter__(self) -> Iterator[Egress]:
        return iter(list(self._retired))

    def add(self, egress: Egress) -> None:
        """Retire `egress`."""
        self._retired[egress] = None
        egress.retire(lambda: self._retired.pop(egress, None))

    async def close(self) -> None:
        """Close every connection, even those in use."""
        for egress in self:
            await egress.close()


def replaceable(method: str, *, has_body: bool) -> bool:
    """Return whether a request that was lost on a reused connection may be sent again on a new one (RFC 9112
    §9.3.1)."""
    return not has_body and method in _REPLAYABLE_METHODS


def closed_without_response(origin: str) -> EgressError:
    """Return the error for a provider that closed the connection before the first byte of a response."""
    return EgressError("unreachable", f"{origin} closed the connection without a response.")


@asynccontextmanager
async def _limit(timeout_s: float) -> AsyncIterator[None]:
    """Raise TimeoutError after `timeout_s` and `UNREAD_S`, so that the loop can read bytes that have arrived."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        over = loop.call_later(timeout_s, lambda: limit.reschedule(loop.time() + UNREAD_S))
        try:
            yield
        finally:
            over.cancel()


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


# ── A call given as data, and its reply with the time at which the call was made.


async def fetch_reply(
    egress: Egress, call: ProviderCall, *, timeout_s: float, limit_bytes: int, now: Callable[[], datetime] | None = None
) -> Reply:
    """Send `call` and return the reply. Raises EgressError.

    `now`: the clock for the reply's `asked_at`; None: this process's clock.
    """
    began = clock.monotonic()
    response = await egress.fetch(
        call.method,
        call.url,
        headers=call.headers,
        body=call.body,
        limit_bytes=limit_bytes,
        timeout_s=timeout_s,
        identity=call.identity,
    )
    # The monotonic clock gives the duration, so a change of the system clock during the request moves no expiry.
    asked_at = (now or clock.now)() - timedelta(seconds=clock.monotonic() - began)
    return Reply(response.status, response.headers, response.body, asked_at)
