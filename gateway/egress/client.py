"""The one way out: guarded connections to providers, for proxied calls, token endpoints and scripts alike.

Two pools, since what may be dialled differs by scheme: https reaches the public internet and what the operator opened,
http only the latter. With an outbound proxy, https goes through a third: CONNECT to the address that was checked.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from gateway.egress.answer import SessionExchange
from gateway.egress.errors import EgressError
from gateway.egress.exchange import Body, Exchange
from gateway.egress.guard import Guard, Scheme, literal
from gateway.egress.load import PoolLoad
from gateway.egress.names import GuardedResolver, Names
from gateway.egress.session import PlainRequest, exactly
from gateway.records.upstream import UpstreamRequest
from gateway.wire.coding import CodingError, Decoder
from gateway.wire.origin import DEFAULT_PORTS, bracketed, parse_address

Pool = Literal["http", "https", "proxied"]

_KEEP_ALIVE_S: Final = 45.0  # shorter than the 60 s after which many providers close
_LINE_BYTES: Final = 32 * 1024
_HEADER_LINES: Final = 256
_NO_AUTO_HEADERS: Final = (hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.USER_AGENT, hdrs.CONTENT_TYPE)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `connect_s`: from the look-up to the end of the TLS handshake; `forward` keeps the other two."""

    connect_s: float = 10.0
    first_byte_s: float = 60.0
    idle_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A small answer, read whole and decoded."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class Egress:
    """Opened and closed with the application; its pools are made on first use, in the loop that uses them."""

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
        self._proxy = URL(proxy) if proxy else None
        self._connections_per_host = connections_per_host
        self._tls = tls or ssl.create_default_context()
        self._tls.minimum_version = max(self._tls.minimum_version, ssl.TLSVersion.TLSv1_2)
        self._names = Names()
        self._pools: dict[Pool, aiohttp.ClientSession] = {}

    async def open(self) -> None:
        """Nothing is dialled yet."""

    async def close(self) -> None:
        """Close every connection, also those in use."""
        for pool in self._pools.values():
            await pool.close()
        self._pools.clear()
        self._names.close()

    def load(self) -> PoolLoad:
        """How many connections there are now."""
        connectors = [pool.connector for pool in self._pools.values() if pool.connector is not None]
        return PoolLoad(
            busy=sum(len(connector._acquired) for connector in connectors),
            idle=sum(len(kept) for connector in connectors for kept in connector._conns.values()),
            waiting=sum(len(queue) for connector in connectors for queue in connector._waiters.values()),
        )

    async def send(self, request: UpstreamRequest, body: Body | None = None) -> Exchange:
        """Send it and wait for the answer's head; `request.headers` must hold end-to-end fields only.

        With `body` of length 0 its length is declared and nothing follows. Raises EgressError.
        """
        scheme: Scheme = "https" if request.scheme == "https" else "http"
        self.guard.check(scheme, request.host, request.port)
        pool: Pool = scheme
        address = request.host
        if scheme == "https" and self._proxy is not None:
            pool, address = "proxied", await self._checked_address(request)
        host = bracketed(request.host)
        if request.port != DEFAULT_PORTS[scheme]:
            host = f"{host}:{request.port}"
        length = body.length if body is not None else None
        sent, head = exactly(request.origin, host, list(request.headers.items()), length)
        answer = await self._pool(pool).request(
            request.method,
            # The target is given whole, as a path: yarl would take the query apart and lose a bare '?'.
            URL.build(scheme=scheme, host=bracketed(address), port=request.port, path=request.target, encoded=True),
            data=body.pieces if body is not None and body.length != 0 else None,
            allow_redirects=False,
            middlewares=(head,),
            proxy=self._proxy if pool == "proxied" else None,
            server_hostname=request.host if pool == "proxied" else None,
        )
        return SessionExchange(answer, sent[-1], request.origin)

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        limit_bytes: int = 1 << 20,
        timeout_s: float = 10.0,
    ) -> Answer:
        """One small exchange, redirects not followed: token endpoints, scripts, verification.

        Raises EgressError, also ``refused`` for a URL that may not be dialled and ``too_large`` above `limit_bytes`.
        """
        try:
            address = parse_address(url)
        except ValueError as fault:
            raise EgressError("refused", f"The address cannot be dialled: {fault}.") from fault
        fields = CIMultiDict(headers or {})
        fields.setdefault(hdrs.USER_AGENT, "integration-gateway")
        fields.popall(hdrs.CONTENT_LENGTH, None)
        target = url[url.index("//") + 2 :].partition("?")[0].partition("/")
        path = target[1] + target[2] or "/"
        request = UpstreamRequest(method, address.scheme, address.host, address.port, path + address.query, fields)
        try:
            async with asyncio.timeout(timeout_s):
                exchange = await self.send(request, None if body is None else Body(_once(body), len(body)))
                try:
                    content = await _read_whole(exchange, request.origin, limit_bytes)
                finally:
                    exchange.close()
        except TimeoutError:
            raise EgressError("timeout", f"{request.origin} did not answer within {timeout_s:g} s.") from None
        return Answer(exchange.status, CIMultiDictProxy(CIMultiDict(exchange.headers)), content)

    async def _checked_address(self, request: UpstreamRequest) -> str:
        if literal(request.host) is not None:
            return request.host
        addresses = await self._names.addresses(request.host, request.port)
        self.guard.admit("https", request.host, request.port, addresses)
        return addresses[0]

    def _pool(self, name: Pool) -> aiohttp.ClientSession:
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = self._make_pool(name)
        return pool

    def _make_pool(self, name: Pool) -> aiohttp.ClientSession:
        # In the pool "proxied" only the proxy itself is dialled, which the operator named.
        connector = aiohttp.TCPConnector(
            ssl=self._tls,
            limit=0,
            limit_per_host=self._connections_per_host,
            keepalive_timeout=_KEEP_ALIVE_S,
            resolver=None if name == "proxied" else GuardedResolver(self._names, self.guard, name),
            socket_factory=None if name == "proxied" else partial(self.guard.socket, name),
        )
        return aiohttp.ClientSession(
            connector=connector,
            request_class=PlainRequest,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=_NO_AUTO_HEADERS,
            max_line_size=_LINE_BYTES,
            max_field_size=_LINE_BYTES,
            max_headers=_HEADER_LINES,
            timeout=aiohttp.ClientTimeout(
                total=None, connect=self.timeouts.connect_s, sock_connect=self.timeouts.connect_s
            ),
        )


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _read_whole(exchange: Exchange, origin: str, limit_bytes: int) -> bytes:
    decoder = Decoder()
    encoded = decoder.start(",".join(value for name, value in exchange.headers if name.lower() == "content-encoding"))
    content = bytearray()
    try:
        while piece := await exchange.read():
            for part in decoder.feed(piece) if encoded else (piece,):
                content += part
                if len(content) > limit_bytes:
                    raise EgressError("too_large", f"{origin} answered with more than {limit_bytes} bytes.")
        decoder.finish()
    except CodingError as fault:
        raise EgressError("protocol", f"The answer of {origin} could not be read: {fault}.") from fault
    return bytes(content)
